"""Stops a process as SIGSTOP does, and waits until it has stopped.

The kernel hands the signal to one thread of the process; until that thread gets its turn on a busy machine,
the others go on.
"""

from __future__ import annotations

import os
import signal
import time

import psutil


def freeze(pid: int, seconds: float = 60.0) -> None:
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + seconds
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, f"process {pid} did not stop within {seconds} s"
        time.sleep(0.005)
