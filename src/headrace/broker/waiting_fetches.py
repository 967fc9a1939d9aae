"""Where a fetch waits for data: fetches that found less than their client's minimum, until there is more.

A waiting fetch knows how many bytes it still misses. An append to one of its partitions takes its size off;
when nothing is missing any more, or the client's time is up, or something else happened to the partition
(it was deleted, a transaction in it ended), the fetch is completed: it reads once more and answers with what
it finds. If that is still not enough, since what was appended cannot be read yet, it comes back to wait for
the rest of its time.

Invariants: a fetch is completed once, after the append that completes it has been answered; a partition that
nobody waits for costs nothing. Never reads a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from headrace.log.partition.partition_log import PartitionLog


class WaitingFetch:
    """One fetch that waits. Made by `WaitingFetches.add`. `complete` is told whether its time is up."""

    __slots__ = ("complete", "logs", "missing_bytes", "timer")

    def __init__(
        self, logs: Collection[PartitionLog], missing_bytes: int, complete: Callable[[bool], None]
    ) -> None:
        self.logs = logs
        self.missing_bytes = missing_bytes
        self.complete = complete
        self.timer: asyncio.TimerHandle | None = None


class WaitingFetches:
    """All fetches that wait, by the partitions they wait for."""

    def __init__(self) -> None:
        self._by_log: dict[PartitionLog, set[WaitingFetch]] = {}
        self._all: set[WaitingFetch] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(
        self,
        logs: Collection[PartitionLog],
        *,
        missing_bytes: int,
        seconds: float,
        complete: Callable[[bool], None],
    ) -> WaitingFetch:
        """Wait until `missing_bytes` were appended to `logs`, or for so many seconds."""
        waiting = WaitingFetch(logs, missing_bytes, complete)
        waiting.timer = asyncio.get_running_loop().call_later(seconds, self._finish, waiting)
        self._all.add(waiting)
        for log in logs:
            self._by_log.setdefault(log, set()).add(waiting)
        return waiting

    def wake(self, log: PartitionLog, appended_bytes: int) -> None:
        """Bytes were appended, or (0) something happened that a waiting client should hear of."""
        if not (fetches := self._by_log.get(log)):
            return
        for waiting in tuple(fetches):
            waiting.missing_bytes -= appended_bytes
            if waiting.missing_bytes <= 0 or not appended_bytes:
                self.cancel(waiting)
                # Not now: more may be appended by requests that are already here.
                asyncio.get_running_loop().call_soon(waiting.complete, False)

    def cancel(self, waiting: WaitingFetch) -> None:
        """Nobody waits any more, e.g. because the connection is gone."""
        if waiting not in self._all:
            return
        self._all.discard(waiting)
        if waiting.timer is not None:
            waiting.timer.cancel()
        for log in waiting.logs:
            fetches = self._by_log[log]
            fetches.discard(waiting)
            if not fetches:
                del self._by_log[log]

    def complete_all(self) -> None:
        """The broker stops: everybody gets what is there."""
        for waiting in tuple(self._all):
            self._finish(waiting)

    def _finish(self, waiting: WaitingFetch) -> None:
        self.cancel(waiting)
        waiting.complete(True)
