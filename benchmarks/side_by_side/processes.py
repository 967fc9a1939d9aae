"""What the kernel knows about a process: memory and CPU time, from /proc (Linux).

Never changes anything about the process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from side_by_side.background import Background

TICKS: Final = os.sysconf("SC_CLK_TCK")
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """Seconds of CPU that a process has used, in all threads."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, earlier: CpuTime) -> CpuTime:
        return CpuTime(user=self.user - earlier.user, system=self.system - earlier.system)


def cpu_time(pid: int) -> CpuTime:
    # The program's name, in brackets, may contain anything, even spaces: count fields from after it.
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return CpuTime(user=int(fields[11]) / TICKS, system=int(fields[12]) / TICKS)


def resident_bytes(pid: int) -> int:
    """VmRSS: how much of the process is in memory now, including mapped files."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmRSS")


class MemorySampler(Background):
    """Reads VmRSS of a process from a thread until the block ends."""

    def __init__(self, pid: int, *, every: float = 0.05) -> None:
        super().__init__()
        self._pid = pid
        self._every = every
        self.samples: list[int] = []

    def _run(self) -> None:
        while True:
            self.samples.append(resident_bytes(self._pid))
            if self._stopping.wait(self._every):
                return


def thread_cpu_seconds(name: str) -> float:
    """CPU time of this process's threads whose names start with this; librdkafka names its threads."""
    total = 0.0
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text(encoding="utf-8").startswith(name):
                total += int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        except OSError:  # it ended while we looked
            continue
    return total
