"""One supervisor per data folder: a lock on `<data_dir>/run/supervisor.lock`, which holds a pid.

Invariants: the kernel holds the lock (flock), so it ends with its holder, however that ended, and a leftover
file locks nothing; the file is never deleted, because another one of the same name would be another lock.
Child processes never inherit it (Python opens files that way).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from headrace.assembly.announcements import run_dir
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.05


class PlatformLock:
    """The right to run the platform on one data folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `data_dir_in_use` with the pid that holds it."""
        path = lock_path(self._settings)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise HeadraceError(
                "invalid_setting",
                f"Cannot write to the data folder {self._settings.data_dir}: {error.strerror}.",
                remedy="Make it writable, or choose another with --data-dir.",
            ) from error
        # Several attempts: `headrace status` holds the lock for a moment when it checks whether it is free.
        for _ in range(_TRIES):
            if _try_lock(file, fcntl.LOCK_EX):
                os.ftruncate(file, 0)
                os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
                self._file = file
                return
            time.sleep(_PAUSE_SECONDS)
        pid = _read_pid(file)
        os.close(file)
        raise _in_use(self._settings, pid)

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def lock_path(settings: Settings) -> Path:
    return run_dir(settings) / "supervisor.lock"


def holder(settings: Settings) -> int | None:
    """The pid of the supervisor that runs the platform on this data folder, or None."""
    try:
        file = os.open(lock_path(settings), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise HeadraceError(
            "invalid_setting",
            f"Cannot read the data folder {settings.data_dir}: {error.strerror}.",
            remedy="Run the command as the user who owns the platform, or choose another with --data-dir.",
        ) from error
    try:
        for _ in range(_TRIES):
            if _try_lock(file, fcntl.LOCK_SH):
                return None
            pid = _read_pid(file)
            if pid is not None:
                return pid
            # Locked a moment ago: its holder has yet to write its pid.
            time.sleep(_PAUSE_SECONDS)
        return None
    finally:
        os.close(file)


def check_free(settings: Settings) -> None:
    """Raise `data_dir_in_use` if a platform is running on this data folder, for an early check."""
    pid = holder(settings)
    if pid is not None:
        raise _in_use(settings, pid)


def _in_use(settings: Settings, pid: int | None) -> HeadraceError:
    return HeadraceError(
        "data_dir_in_use",
        f"The data folder {settings.data_dir} is in use by the platform with pid {pid or 'unknown'}.",
        remedy="Stop it with `headrace down`, or choose another folder with --data-dir.",
    )


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid(file: int) -> int | None:
    content = os.pread(file, 32, 0).strip()
    return int(content) if content.isdigit() else None
