"""Signs of life of running processes: each touches a file of its own in `<data_dir>/run/` every second.

A process that is `ready` can still stop working: stopped by a signal, in a deadlock, waiting for a dead disk.
So the loop that does the work of a process touches the file, and the supervisor watches whether it does.

Invariants: a file is named after the process and the pid that touches it; only whether its time changes is
looked at, so clocks may jump; touching a file needs no space on the disk, and if it fails, the process goes
on. Never says why a process is silent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from headrace.assembly.announcements import run_dir
from headrace.core.settings import Settings

SIGN_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


class SignOfLife:
    """Given by this process, or by a worker of it, for the process named."""

    def __init__(self, settings: Settings, process: str) -> None:
        self._path = run_dir(settings) / f"{process}.{os.getpid()}.alive"
        self._failed = False

    def give(self) -> None:
        try:
            self._path.touch()
            self._failed = False
        except OSError as error:
            if not self._failed:
                _log.warning("cannot give a sign of life: %s", error)
            self._failed = True

    async def keep_giving(self) -> None:
        """For ever, from the event loop that runs this."""
        while True:
            self.give()
            await asyncio.sleep(SIGN_SECONDS)


class Watch:
    """Watches the signs of one process and its workers. `now` is monotonic, in seconds."""

    def __init__(self, settings: Settings, process: str) -> None:
        self._folder = run_dir(settings)
        self._pattern = f"{process}.*.alive"
        self._began: float | None = None
        self._looked = 0.0
        # The newest time of each file, and when it was first seen.
        self._seen: dict[Path, tuple[int, float]] = {}

    def forget(self) -> None:
        """Start over, for another process of that name."""
        self._began = None
        self._looked = 0.0
        self._seen = {}
        for path in self._folder.glob(self._pattern):
            path.unlink(missing_ok=True)

    def silent_for(self, leader: int, now: float) -> float:
        """Seconds without a sign of the process with this pid or of one of its workers.

        The longest counts. A worker is a process of the leader's session.
        """
        if self._began is None:
            self._began = now
        if now - self._looked >= SIGN_SECONDS / 2:
            self._looked = now
            self._look(leader, now)
        return now - min((since for _, since in self._seen.values()), default=self._began)

    def _look(self, leader: int, now: float) -> None:
        newest: dict[Path, tuple[int, float]] = {}
        for path in self._folder.glob(self._pattern):
            if not _is_in_session(path, leader):
                path.unlink(missing_ok=True)
                continue
            try:
                changed = path.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            before = self._seen.get(path)
            newest[path] = before if before is not None and before[0] == changed else (changed, now)
        self._seen = newest


def _is_in_session(path: Path, leader: int) -> bool:
    try:
        return os.getsid(int(path.name.split(".")[-2])) == leader
    except ProcessLookupError:
        return False
