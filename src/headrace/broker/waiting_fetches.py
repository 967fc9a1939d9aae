"""Where a fetch waits for data: fetches that found less than their client's minimum wait here for more.

A waiting fetch knows how many bytes are missing. Each append to one of its partitions reduces that number.
The fetch is completed when nothing is missing, when the client's maximum wait is over, or when something else
happened to a partition (it was deleted, or a transaction in it ended): it reads again and answers with what
it finds. If that is still not enough, because the appended records cannot be read yet, it waits again for the
rest of its time.

Invariants: a fetch is completed once, after the append that completes it has been answered; a partition
without waiting fetches costs nothing. Never reads a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from headrace.log.partition.partition_log import PartitionLog


class WaitingFetch:
    """A waiting fetch, made by `WaitingFetches.add`. `complete` is called with whether its time is up."""

    __slots__ = ("complete", "logs", "missing_bytes", "timer")

    def __init__(
        self, logs: Collection[PartitionLog], missing_bytes: int, complete: Callable[[bool], None]
    ) -> None:
        self.logs = logs
        self.missing_bytes = missing_bytes
        self.complete = complete
        self.timer: asyncio.TimerHandle | None = None


class WaitingFetches:
    """All waiting fetches, by partition."""

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
        """Wait until `missing_bytes` have been appended to `logs`, for at most `seconds`."""
        waiting = WaitingFetch(logs, missing_bytes, complete)
        waiting.timer = asyncio.get_running_loop().call_later(seconds, self._finish, waiting)
        self._all.add(waiting)
        for log in logs:
            self._by_log.setdefault(log, set()).add(waiting)
        return waiting

    def wake(self, log: PartitionLog, appended_bytes: int) -> None:
        """Bytes were appended, or (0) something else happened that a waiting client should learn."""
        if not (fetches := self._by_log.get(log)):
            return
        for waiting in tuple(fetches):
            waiting.missing_bytes -= appended_bytes
            if waiting.missing_bytes <= 0 or not appended_bytes:
                self.cancel(waiting)
                # Not now: requests that have already arrived may append more.
                asyncio.get_running_loop().call_soon(waiting.complete, False)

    def cancel(self, waiting: WaitingFetch) -> None:
        """Stop waiting, for example because the connection is gone."""
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
        """Complete all fetches with what is there, because the broker stops."""
        for waiting in tuple(self._all):
            self._finish(waiting)

    def _finish(self, waiting: WaitingFetch) -> None:
        self.cancel(waiting)
        waiting.complete(True)
