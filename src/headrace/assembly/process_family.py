"""A process and everything it started: finding them all, and ending them for sure.

A Spark or Kafka JVM must not outlive the Python process that drives it: beside its successor it would
write the same tables and hold the same ports. Members are found by session (each family is started in one
of its own, and process groups lie within it), and by a mark in the environment that is inherited by
whatever they start, in further sessions too. Invariant: when `kill_family` or `kill_leftovers` returns
True, no member runs any more. Never touches a process that carries neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil

# Not a HEADRACE_ name: those are settings, and an unknown one is an error.
MARK: Final = "SUPERVISED_BY_HEADRACE"
_PAUSE_SECONDS: Final = 0.02


def mark(data_dir: Path, name: str) -> str:
    """The value of `MARK` for one process of the platform in that data folder."""
    return f"{name}@{data_dir}"


def kill_family(pid: int, family_mark: str, *, seconds: float = 10.0) -> bool:
    """SIGKILL the session led by `pid` and all that carry the mark; True when they are gone."""

    def belongs(process: psutil.Process) -> bool:
        return os.getsid(process.pid) == pid or process.environ().get(MARK) == family_mark

    return _kill(belongs, seconds)


def kill_leftovers(data_dir: Path, *, seconds: float = 10.0) -> bool:
    """SIGKILL what a supervisor of this data folder left behind when it was killed itself; True when gone."""

    def belongs(process: psutil.Process) -> bool:
        _, _, folder = process.environ().get(MARK, "").partition("@")
        return bool(folder == str(data_dir))

    return _kill(belongs, seconds)


def _kill(belongs: Callable[[psutil.Process], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    members: set[psutil.Process] = set()
    while True:
        # Looked up again each time, as a member may have started another one in between; and remembered, as
        # one that is on its way out shows its environment no more.
        members.update(_members(belongs))
        running = [process for process in members if _runs(process)]
        if not running:
            return True
        if time.monotonic() > deadline:
            return False
        for process in running:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(_PAUSE_SECONDS)


def _members(belongs: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        if pid == os.getpid():
            continue
        try:
            process = psutil.Process(pid)
            if belongs(process):
                yield process
        except (psutil.Error, ProcessLookupError, PermissionError):
            # It ended meanwhile, or it is another user's, whom we never start anything as.
            continue


def _runs(process: psutil.Process) -> bool:
    """False once it is gone, or only waits as a zombie for its parent to ask after it.

    A zombie with threads does run: the first one of a killed JVM is there before the others are out.
    """
    try:
        is_zombie = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.Error:
        return False
    return process.is_running() and not is_zombie
