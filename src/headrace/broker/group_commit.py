"""When appended records reach the disk: before the reply, at intervals, or when the operating system decides.

    fsync=always    a produce request is answered after its records are synced; requests that arrive during
                    a sync share the next one (group commit)
    fsync=interval  everything appended is synced every `fsync_interval_ms`
    fsync=os        as Kafka's default: the operating system writes back; topics can ask for more with
                    flush.ms

A topic can also ask for a sync after so many records, with flush.messages. The request that reaches this
number is answered after the sync, as in Kafka. With flush.messages=1 no record can be read before it is
synced, so nothing that anybody has derived from a topic can be ahead of it after a power loss.

With the last two, a power loss may take records that were answered, but never gives their offsets to others:
`offset_reserving` reserves them ahead.

Syncing runs in a worker thread, while appends and reads continue. If a sync fails, the producers that wait
for it get a storage error. Their records stay where they are, invisible to consumers, and the next sync
writes them again (`log/partition/flushing.py`): a producer that retries finds its batch and waits for that
sync.

Invariants: at most one sync runs at a time; every returned future is completed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from headrace.broker.offset_reserving import RETRY_SECONDS, ReservingAhead
from headrace.broker.settings import FsyncPolicy
from headrace.log.errors import LogError, StorageError, UnknownTopicError
from headrace.log.folder.reserving import OffsetReserving
from headrace.log.partition.partition_log import FlushTicket, PartitionLog

_log = logging.getLogger(__name__)
_NEVER: Final = 2**63 - 1


class GroupCommit:
    """Syncs the logs that were appended to. `start` and `stop` on the event loop."""

    def __init__(
        self,
        policy: FsyncPolicy,
        interval_ms: int,
        flushed: Callable[[PartitionLog], None],
        reserving: OffsetReserving,
    ) -> None:
        """`flushed` is called for every log whose high-water mark may have moved."""
        self._always = policy == "always"
        self._interval_seconds = interval_ms / 1000 if policy == "interval" else None
        self._flushed = flushed
        self._waiting: dict[PartitionLog, list[tuple[int, asyncio.Future[None]]]] = {}
        # To be synced now, and when the interval is over.
        self._dirty: set[PartitionLog] = set()
        self._later: set[PartitionLog] = set()
        self._timers: dict[PartitionLog, asyncio.TimerHandle] = {}
        self._wanted = asyncio.Event()
        self._reserving: Final = ReservingAhead(reserving, flushed)
        self._task: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group commit")

    async def kill(self) -> None:
        """Stop without starting another sync."""
        await self._reserving.stop()
        for timer in self._timers.values():
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._syncing is not None:
            await self._syncing

    async def stop(self) -> None:
        """Sync what is not synced yet, then stop."""
        await self.kill()
        self._dirty |= self._later
        if self._dirty:
            await self._sync(self._take())

    def appended(self, log: PartitionLog, last_offset: int) -> asyncio.Future[None] | None:
        """Records up to `last_offset` were written. Returns a future if their producer has to wait."""
        if self._always:
            return self._after_sync(log, last_offset)
        config = log.config
        if config.flush_messages != _NEVER and log.end_offset - log.flushed_offset >= config.flush_messages:
            if last_offset >= log.reservation.ask_at:
                self._reserving.ask_ahead(log)
            return self._after_sync(log, last_offset)
        if self._interval_seconds is not None:
            self._later.add(log)
        elif config.flush_ms != _NEVER and log not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[log] = loop.call_later(config.flush_ms / 1000, self._request, log)
        return self._reserving.ask(log, last_offset) if last_offset >= log.reservation.ask_at else None

    def sync(self, log: PartitionLog) -> asyncio.Future[None] | None:
        """Bring everything in the log to the disk. Returns a future unless it is there."""
        return self._after_sync(log, log.end_offset - 1) if log.flushed_offset < log.end_offset else None

    def _after_sync(self, log: PartitionLog, last_offset: int) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(log, []).append((last_offset, future))
        self._dirty.add(log)
        self._wanted.set()
        return future

    def _request(self, log: PartitionLog) -> None:
        if (timer := self._timers.pop(log, None)) is not None:
            timer.cancel()
        self._dirty.add(log)
        self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        over = None if self._interval_seconds is None else loop.time() + self._interval_seconds
        while True:
            try:
                async with asyncio.timeout_at(over):
                    await self._wanted.wait()
            except TimeoutError:
                self._dirty |= self._later
                self._later.clear()
                over = loop.time() + (self._interval_seconds or 0)
            self._wanted.clear()
            if self._dirty:
                # Shielded: a running sync is completed even if the broker stops.
                self._syncing = loop.create_task(self._sync(self._take()))
                await asyncio.shield(self._syncing)

    def _take(self) -> set[PartitionLog]:
        logs, self._dirty = self._dirty, set()
        return logs

    async def _sync(self, logs: Iterable[PartitionLog]) -> None:
        loop = asyncio.get_running_loop()
        tickets = [(log, ticket) for log in logs if (ticket := self._ticket(log)) is not None]
        results = await loop.run_in_executor(None, _sync_all, [ticket for _log, ticket in tickets])
        for (log, ticket), error in zip(tickets, results, strict=True):
            if error is None:
                log.flushed(ticket)
                self._release(log)
            else:
                self._fail(log, error)
            self._flushed(log)

    def _ticket(self, log: PartitionLog) -> FlushTicket | None:
        try:
            ticket = log.begin_flush()
        except StorageError as error:
            self._fail(log, error)
            return None
        if ticket is None and log.closed:
            self._refuse(log, UnknownTopicError(f"{log.name} was deleted."))
        elif ticket is None:
            # It has been synced in the meantime.
            self._release(log)
        return ticket

    def _release(self, log: PartitionLog) -> None:
        waiting = self._waiting.pop(log, [])
        still = [item for item in waiting if item[0] >= log.flushed_offset]
        if still:
            self._waiting[log] = still
            self._dirty.add(log)
            self._wanted.set()
        for offset, future in waiting:
            if offset < log.flushed_offset and not future.done():
                future.set_result(None)

    def _fail(self, log: PartitionLog, error: OSError | StorageError) -> None:
        _log.error("syncing %s failed, trying again in %s s: %s", log.folder, RETRY_SECONDS, error)
        self._refuse(log, StorageError(f"The records could not be brought to the disk: {error}."))
        if log not in self._timers:
            self._timers[log] = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._request, log)

    def _refuse(self, log: PartitionLog, failure: LogError) -> None:
        for _offset, future in self._waiting.pop(log, []):
            if not future.done():
                future.set_exception(failure)


def _sync_all(tickets: Iterable[FlushTicket]) -> list[OSError | None]:
    """In a worker thread."""
    results: list[OSError | None] = []
    for ticket in tickets:
        try:
            ticket.sync()
            results.append(None)
        except OSError as error:
            results.append(error)
    return results
