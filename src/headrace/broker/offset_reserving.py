"""Reserves offsets ahead of the producers, so that a power loss cannot give an offset to two records.

A log asks when half of its reservation is used; all logs that ask meanwhile share the next write, in a worker
thread. Producers wait only if a log has used up its reservation: with its first record after the start, and
when it grows much faster than before.

If a reservation cannot be written, the producers that wait for it get a storage error. Their records stay
where they are, invisible to consumers, and the next attempt covers them: a producer that retries finds its
batch and waits for that.

Invariants: at most one write at a time; every returned future is completed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.log.errors import LogError, StorageError, UnknownTopicError
from headrace.log.folder.reserving import OffsetReserving
from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)
RETRY_SECONDS: Final = 1.0


class ReservingAhead:
    """Call `ask` on the event loop."""

    def __init__(self, reserving: OffsetReserving, granted: Callable[[PartitionLog], None]) -> None:
        """`granted` is called for every log whose high-water mark may have moved."""
        self._reserving: Final = reserving
        self._granted: Final = granted
        self._asking: set[PartitionLog] = set()
        self._waiting: dict[PartitionLog, list[tuple[int, asyncio.Future[None]]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def ask(self, log: PartitionLog, last_offset: int) -> asyncio.Future[None] | None:
        """Reserve more for a log. Returns a future if records up to `last_offset` have to wait for it."""
        self.ask_ahead(log)
        if last_offset < log.high_water_mark:
            return None
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(log, []).append((last_offset, future))
        return future

    def ask_ahead(self, log: PartitionLog) -> None:
        """Reserve more for a log whose producers wait for a sync anyway."""
        self._asking.add(log)
        if self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="reserve offsets")

    async def stop(self) -> None:
        """Finish the write that is under way and start no other."""
        self._stopped = True
        if self._task is not None:
            await self._task
        for waiting in self._waiting.values():
            _refuse(waiting, StorageError("The broker is stopping."))
        self._waiting.clear()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asking and not self._stopped:
            logs, self._asking = self._asking, set()
            ticket = self._reserving.ask(logs, loop.time())
            try:
                await loop.run_in_executor(None, ticket.write)
            except OSError as error:
                self._fail(logs, error)
                continue
            self._reserving.granted(ticket)
            for log in logs:
                self._release(log)
                self._granted(log)
        self._task = None

    def _release(self, log: PartitionLog) -> None:
        waiting = self._waiting.pop(log, [])
        if log.closed:
            _refuse(waiting, UnknownTopicError(f"{log.name} was deleted."))
            return
        still = [item for item in waiting if item[0] >= log.high_water_mark]
        if still:
            self._waiting[log] = still
            self._asking.add(log)
        for offset, future in waiting:
            if offset < log.high_water_mark and not future.done():
                future.set_result(None)

    def _fail(self, logs: set[PartitionLog], error: OSError) -> None:
        _log.error("offsets cannot be reserved, trying again in %s s: %s", RETRY_SECONDS, error)
        for log in logs:
            _refuse(self._waiting.pop(log, []), StorageError(f"No offsets could be reserved: {error}."))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again, log)

    def _try_again(self, log: PartitionLog) -> None:
        if not (log.closed or self._stopped):
            self.ask_ahead(log)


def _refuse(waiting: list[tuple[int, asyncio.Future[None]]], failure: LogError) -> None:
    for _offset, future in waiting:
        if not future.done():
            future.set_exception(failure)
