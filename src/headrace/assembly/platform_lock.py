"""One supervisor per data folder: a lock on `<data_dir>/run/supervisor.lock`, which holds a pid.

Invariants: the lock is the kernel's (flock), so it ends with its holder, however that ended, and a file
left behind locks nothing; the file is never deleted, because a second one of the same name would be a
second lock. Never inherited by child processes (Python opens files that way).
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
    """The right to run the platform of one data folder."""

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
                f"The data folder {self._settings.data_dir} cannot be written: {error.strerror}.",
                remedy="Make it writable, or choose another with --data-dir.",
            ) from error
        # More than one try: `headrace status` holds the lock for a moment when it looks whether it is free.
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
        """Give the lock back; nothing happens if it is not held."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def lock_path(settings: Settings) -> Path:
    return run_dir(settings) / "supervisor.lock"


def holder(settings: Settings) -> int | None:
    """The pid of the supervisor that runs the platform of this data folder, or None if none does."""
    try:
        file = os.open(lock_path(settings), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise HeadraceError(
            "invalid_setting",
            f"The data folder {settings.data_dir} cannot be read: {error.strerror}.",
            remedy="Ask as the user whose platform it is, or name another folder with --data-dir.",
        ) from error
    try:
        for _ in range(_TRIES):
            if _try_lock(file, fcntl.LOCK_SH):
                return None
            pid = _read_pid(file)
            if pid is not None:
                return pid
            # Taken a moment ago: its holder has yet to write its pid.
            time.sleep(_PAUSE_SECONDS)
        return None
    finally:
        os.close(file)


def check_free(settings: Settings) -> None:
    """Raise `data_dir_in_use` if a platform runs on this data folder: for those who want to know early."""
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
