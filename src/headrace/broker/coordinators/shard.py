"""The runtime of one shard: a partition of an internal topic, and the machines whose records it holds.

A decision is carried out in one go: its records are appended as one batch, replayed, its timers set; then
its replies go out, with fsync=always after the disk has the batch. If the records cannot be appended, the
machine says what is to happen in place of it (see `coordination.decision`).

Invariants: nothing else happens between deciding and replaying, so a decision is never about a state that
is gone. What was asked is carried out to its end whether or not the client is still there; only the reply
is dropped. A waiting id is answered once, and forgotten with its connection.
Never: decides anything, knows what is in a record.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.connection import CloseConnectionError
from headrace.broker.coordinators.timers import Timers
from headrace.coordination.decision import Decision, Reply, TimerKey, WaitingId
from headrace.log.errors import BatchTooLargeError, LogError, RecordTooLargeError
from headrace.log.producers.verification import Coordinator, Guard
from headrace.wire.record_batch import NO_PRODUCER
from headrace.wire.records import Record, build_batch

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class Machines(Protocol):
    """The machines of a shard, as the runtime sees them."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        """Apply a record; the producer's id only for records of a transaction. Raises CorruptRecordError."""

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """A transaction has ended in this partition."""

    def loaded(self, now_ms: int) -> Iterable[Decision[Any]]:
        """All records have been replayed."""


SomeMachines = TypeVar("SomeMachines", bound=Machines)
SomeReply = TypeVar("SomeReply", bound=Reply)
OnFailure = Callable[[Decision[Any], ErrorCode, int], Decision[Any]]
Due = Callable[["Shard[Any]", TimerKey, int], None]


class Carried(NamedTuple):
    """What came of a decision: its reply, and when its records are as durable as promised (None: now)."""

    reply: Any
    written: asyncio.Future[None] | None


class Shard(Generic[SomeMachines]):
    """One partition with its machines. `loaded` once all that is in the partition was replayed."""

    def __init__(
        self, broker: Broker, number: int, log: PartitionLog, machines: SomeMachines, due: Due
    ) -> None:
        self._broker: Final = broker
        self.number: Final = number
        self.log: Final = log
        self.machines: Final = machines
        self.loaded = False
        self._timers: Final = Timers(lambda key, now_ms: due(self, key, now_ms), broker.now_ms)
        self._waiting: dict[WaitingId, asyncio.Future[Any]] = {}
        self._ids: Final = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()

    def become_loaded(self) -> None:
        """Everything was replayed: from now on it decides."""
        self.loaded = True
        for decision in self.machines.loaded(self._broker.now_ms()):
            self.carry_out(decision)

    def close(self) -> None:
        """Decide nothing more. Whoever waits for others is hung up on; what waits for the disk goes on."""
        self.loaded = False
        self._timers.stop()
        for future in tuple(self._waiting.values()):
            if not future.done():
                future.set_exception(CloseConnectionError(f"{self.log.name} is no longer served"))
        self._waiting.clear()

    def end(self) -> None:
        """Leave everything as it is."""
        for task in tuple(self._tasks):
            task.cancel()

    # Decisions.

    def ask(
        self, decide: Callable[[WaitingId], Decision[SomeReply]], failed: OnFailure
    ) -> SomeReply | asyncio.Future[SomeReply]:
        """Carry out a decision whose reply may have to wait for a later one."""
        waiting_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Before anything is decided: the answer may be among the replies of the same decision.
        self._waiting[waiting_id] = future
        reply = self.carry_out(decide(waiting_id), failed)
        if reply is not None:
            del self._waiting[waiting_id]
            return reply
        if future.done():
            result: SomeReply = future.result()
            return result
        future.add_done_callback(lambda _future: self._waiting.pop(waiting_id, None))
        return future

    def carry_out(
        self, decision: Decision[SomeReply], failed: OnFailure | None = None, guard: Guard | None = None
    ) -> SomeReply | asyncio.Future[SomeReply] | None:
        """Do what was decided; the reply, now or later, or None if somebody else's decision will bring it."""
        reply, written = self.commit(decision, failed, guard)
        if written is None or reply is None:
            answer: SomeReply | None = reply
            return answer
        return asyncio.shield(self.own(_after(written, reply)))

    def commit(
        self, decision: Decision[Any], failed: OnFailure | None = None, guard: Guard | None = None
    ) -> Carried:
        """As `carry_out`, for who has more to do once the records are durable."""
        written: asyncio.Future[None] | None = None
        if decision.records:
            try:
                written = self._write(decision, guard)
            except LogError as error:
                _log.warning("a decision could not be written to %s: %s", self.log.name, error)
                code = coordinator_code(error)
                now_ms = self._broker.now_ms()
                decision = decision.failed(code) if failed is None else failed(decision, code, now_ms)
        self._timers.set(decision.timers)
        if written is not None:
            written.add_done_callback(_heard)
        if written is None:
            self._answer(decision.replies)
        elif decision.replies:
            self.own(self._answer_after(written, decision.replies))
        return Carried(decision.reply, written)

    def own(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """A task that ends with the shard, not with the connection that led to it."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def settled(self) -> asyncio.Future[None] | None:
        """When what the machines know is on the disk, for answers that promise it; None: it is."""
        log = self.log
        if log.high_water_mark >= log.end_offset:
            return None
        return self._broker.group_commit.appended(log, log.end_offset - 1)

    def _write(self, decision: Decision[Any], guard: Guard | None) -> asyncio.Future[None] | None:
        """Raises LogError; nothing was written or replayed then."""
        producer = decision.producer
        now_ms = self._broker.now_ms()
        batch = build_batch(
            [Record(number, 0, each.key, each.value) for number, each in enumerate(decision.records)],
            base_timestamp=now_ms,
            producer_id=NO_PRODUCER if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            transactional=producer is not None,
        )
        appended = self.log.append(batch, now_ms=now_ms, permission=Coordinator(guard=guard))
        replay = self.machines.replay
        producer_id = NO_PRODUCER if producer is None else producer.producer_id
        for record in decision.records:
            replay(record.key, record.value, producer_id)
        written = self._broker.group_commit.appended(self.log, appended.last_offset)
        if written is None:
            self._broker.wake(self.log, len(batch))
        return written

    # Replies.

    def _answer(self, replies: Iterable[tuple[WaitingId, Reply]]) -> None:
        for waiting_id, reply in replies:
            future = self._waiting.pop(waiting_id, None)
            if future is not None and not future.done():
                future.set_result(reply)

    async def _answer_after(
        self, written: asyncio.Future[None], replies: Iterable[tuple[WaitingId, Reply]]
    ) -> None:
        self._answer([(waiting_id, await _after(written, reply)) for waiting_id, reply in replies])


def _heard(written: asyncio.Future[None]) -> None:
    """Where nobody waits for the disk, its failure is not news either: the group commit tries again."""
    if not written.cancelled():
        written.exception()


async def _after(written: asyncio.Future[None], reply: Any) -> Any:
    """The reply once the records behind it are on the disk, or its failure."""
    try:
        # Several may wait for it, and one that goes away must not take it from the others.
        await asyncio.shield(written)
    except LogError as error:
        return reply.failed(coordinator_code(error))
    return reply


def coordinator_code(error: LogError) -> ErrorCode:
    """What a client of a coordinator is told when the log says no: mostly, to try again."""
    if isinstance(error, RecordTooLargeError | BatchTooLargeError):
        return ErrorCode.unknown_server_error
    return ErrorCode.coordinator_not_available
