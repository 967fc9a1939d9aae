"""What a worker does to itself before its first question: it cannot outlive its parent, or take more memory.

How the memory is limited: RLIMIT_DATA counts private writable memory when it is mapped, whoever maps it. So
it holds for DuckDB, Arrow and Python alike, and for one huge allocation as for many small ones. It does not
count what only reserves addresses (RLIMIT_AS would, and allocators and stacks of threads reserve a gigabyte)
nor files that are mapped for reading, such as the tail of a topic. DuckDB has a lower limit of its own, which
it keeps for most things and with better errors.

Linux only; elsewhere only DuckDB's own limit holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

MEGABYTE: Final = 1024 * 1024
# Of the memory of a question, DuckDB's share: the rest is for what DuckDB does not count.
DUCKDB_SHARE: Final = 0.85
_PR_SET_PDEATHSIG: Final = 1
# The kernel ends workers before the log or the pipeline if the machine has no memory left.
_OOM_SCORE: Final = 800
_NICENESS: Final = 5


def end_with_parent(parent: int) -> None:
    """As soon as the thread that started us is gone; `worker.py` watches its socket as well."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def give_way() -> None:
    """To the other processes of the machine: they get the processor and the memory first."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Raising it needs no rights, but some containers have no such file.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")


def limit_memory(megabytes: int) -> None:
    """From now on this process gets no more than so much in addition to what it has."""
    if sys.platform == "linux":
        limit = limited_memory() + megabytes * MEGABYTE
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def limited_memory() -> int:
    """How many bytes this process has of the memory that RLIMIT_DATA counts; 0 where that is unknown.

    Also what an allocator keeps for itself: another one cannot have it.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "VmData":
                return int(value.split()[0]) * 1024
    return 0
