"""A process and everything it started: finds all of them, and makes sure that they end.

A Spark or Kafka JVM must not outlive the Python process that drives it: alongside a successor it would write
the same tables and hold the same ports. Members are found by session (each family is started in its own,
which contains its process groups) and by a mark in the environment, which everything they start inherits,
even in other sessions. Invariant: when `kill_family` or `kill_leftovers` returns True, no member is running.
Never touches a process that has neither the session nor the mark.
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
    """The value of `MARK` for one process of the platform with that data folder."""
    return f"{name}@{data_dir}"


def kill_family(pid: int, family_mark: str, *, seconds: float = 10.0) -> bool:
    """SIGKILL the session led by `pid` and every process with the mark; True once they are gone."""
    return _kill(_family(pid, family_mark), seconds)


def stopped_members(pid: int, family_mark: str) -> list[int]:
    """The pids of those members that a signal (SIGSTOP) or a debugger has stopped."""
    stopped: list[int] = []
    for process in _members(_family(pid, family_mark)):
        try:
            if process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
                stopped.append(process.pid)
        except psutil.Error:
            # It has ended.
            continue
    return sorted(stopped)


def kill_leftovers(data_dir: Path, *, seconds: float = 10.0) -> bool:
    """SIGKILL what a killed supervisor of this data folder left behind; True once it is gone."""

    def belongs(process: psutil.Process) -> bool:
        _, _, folder = process.environ().get(MARK, "").partition("@")
        return bool(folder == str(data_dir))

    return _kill(belongs, seconds)


def _family(pid: int, family_mark: str) -> Callable[[psutil.Process], bool]:
    def belongs(process: psutil.Process) -> bool:
        return os.getsid(process.pid) == pid or process.environ().get(MARK) == family_mark

    return belongs


def _kill(belongs: Callable[[psutil.Process], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    members: set[psutil.Process] = set()
    while True:
        # Searched again each time, because a member may have started another in the meantime; and remembered,
        # because an exiting process no longer shows its environment.
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
            # It has ended, or belongs to another user, and we never start anything as another user.
            continue


def _runs(process: psutil.Process) -> bool:
    """False once it is gone, or is only a zombie waiting for its parent to reap it.

    A zombie with threads is still running: the main thread of a killed JVM ends before the others.
    """
    try:
        is_zombie = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.Error:
        return False
    return process.is_running() and not is_zombie
