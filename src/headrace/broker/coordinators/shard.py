"""The runtime of one shard: a partition of an internal topic, and the machines whose records it contains.

It carries out a decision in one go: it appends the records as one batch, replays them, sets the timers and
sends the replies; with fsync=always the replies wait until the batch is on disk. If the records cannot be
appended, the machine says what happens instead (see `coordination.decision`).

Invariants: nothing happens between a decision and its replay, so a decision is never outdated. A request is
carried out even if its client disconnects; only the reply is dropped. A waiting request is answered once, and
forgotten with its connection.
Never: decides anything, looks into records, knows the broker. It needs a log, a clock, and a function that
says when records are durable (`confirmation`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.coordinators.timers import Clock, Timers
from headrace.broker.errors import CloseConnectionError
from headrace.coordination.decision import Decision, Reply, TimerKey, WaitingId
from headrace.log.errors import BatchTooLargeError, LogError, RecordTooLargeError
from headrace.log.partition.partition_log import Appended
from headrace.log.producers.verification import Coordinator, Guard
from headrace.wire.record_batch import NO_PRODUCER
from headrace.wire.records import Record, build_batch

_log = logging.getLogger(__name__)


class Machines(Protocol):
    """The machines of a shard, as the runtime sees them."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        """Apply a record. Only records in a transaction have a producer id. Raises CorruptRecordError."""

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """A transaction has ended in this partition."""

    def loaded(self, now_ms: int) -> Iterable[Decision[Any]]:
        """All records have been replayed."""
        ...

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        """A timer is due."""
        ...

    def write_failed(
        self, about: str, decision: Decision[Any], error: ErrorCode, now_ms: int
    ) -> Decision[Any]:
        """What happens instead of a decision about this group or id that could not be written."""
        ...


class ShardLog(Protocol):
    """The partition of a shard: a `PartitionLog`, or a log in memory."""

    @property
    def name(self) -> str: ...

    @property
    def durable(self) -> bool: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_water_mark(self) -> int: ...

    def append(self, records: bytearray, *, now_ms: int, permission: Coordinator) -> Appended: ...

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int
    ) -> Guard | None: ...


SomeMachines = TypeVar("SomeMachines", bound=Machines)
SomeReply = TypeVar("SomeReply", bound=Reply)
Due = Callable[["Shard[SomeMachines]", TimerKey, int], None]
Confirmation = Callable[[int, int], asyncio.Future[None] | None]
"""Called with the last appended offset and the number of bytes. Returns a future until they are as durable as
promised, or None if they are."""


class Carried(NamedTuple):
    """The result of a decision: its reply, and a future until its records are as durable as promised."""

    reply: Any
    written: asyncio.Future[None] | None


class Shard(Generic[SomeMachines]):
    """One partition and its machines. `loaded` says that the whole partition has been replayed."""

    def __init__(
        self,
        number: int,
        log: ShardLog,
        machines: SomeMachines,
        *,
        clock: Clock,
        confirmation: Confirmation,
        due: Due[SomeMachines] | None = None,
    ) -> None:
        """`due` is called when a timer is due. By default, the shard just calls `timed_out`."""
        self._clock: Final = clock
        self._confirmation: Final = confirmation
        self.number: Final = number
        self.log: Final = log
        self.machines: Final = machines
        self.loaded = False
        self._due: Final = due
        self._timers: Final = Timers(self._on_timer, clock)
        self._waiting: dict[WaitingId, asyncio.Future[Any]] = {}
        self._ids: Final = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()

    def become_loaded(self) -> None:
        """The whole partition has been replayed: begin to decide."""
        self.loaded = True
        for decision in self.machines.loaded(self._clock.now_ms()):
            self.carry_out(decision)

    def close(self) -> None:
        """Stop deciding. Hang up on clients that wait for others; replies that wait for the disk go out."""
        self.loaded = False
        self._timers.stop()
        for future in tuple(self._waiting.values()):
            if not future.done():
                future.set_exception(CloseConnectionError(f"{self.log.name} is no longer served"))
        self._waiting.clear()

    def end(self) -> None:
        """Cancel what is still in progress."""
        for task in tuple(self._tasks):
            task.cancel()

    # Decisions.

    def ask(
        self, decide: Callable[[WaitingId], Decision[SomeReply]], about: str
    ) -> SomeReply | asyncio.Future[SomeReply]:
        """Carry out a decision whose reply may have to wait for a later one."""
        waiting_id = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Before deciding: the reply may be among the replies of the same decision.
        self._waiting[waiting_id] = future
        reply = self.carry_out(decide(waiting_id), about)
        if reply is not None:
            del self._waiting[waiting_id]
            return reply
        if future.done():
            result: SomeReply = future.result()
            return result
        future.add_done_callback(lambda _future: self._waiting.pop(waiting_id, None))
        return future

    def carry_out(
        self, decision: Decision[SomeReply], about: str | None = None, guard: Guard | None = None
    ) -> SomeReply | asyncio.Future[SomeReply] | None:
        """Carry out a decision. Returns the reply or its future, or None if a later decision will answer.

        `about` is the group or id to tell the machine if the records cannot be written.
        """
        reply, written = self.commit(decision, about, guard)
        if written is None or reply is None:
            answer: SomeReply | None = reply
            return answer
        return asyncio.shield(self.own(_after(written, reply)))

    def commit(
        self, decision: Decision[Any], about: str | None = None, guard: Guard | None = None
    ) -> Carried:
        """Like `carry_out`, for callers that have more to do once the records are durable."""
        written: asyncio.Future[None] | None = None
        if decision.records:
            try:
                written = self._write(decision, guard)
            except LogError as error:
                _log.warning("a decision could not be written to %s: %s", self.log.name, error)
                code = coordinator_code(error)
                if about is None:
                    decision = decision.failed(code)
                else:
                    decision = self.machines.write_failed(about, decision, code, self._clock.now_ms())
                assert not decision.records, "write_failed must not write records"
        self._timers.set(decision.timers)
        if written is not None:
            written.add_done_callback(_heard)
        if written is None:
            self._answer(decision.replies)
        elif decision.replies:
            self.own(self._answer_after(written, decision.replies))
        return Carried(decision.reply, written)

    def timed_out(self, key: TimerKey, now_ms: int) -> Carried:
        """Carry out what the machine decides when a timer is due."""
        return self.commit(self.machines.timed_out(key, now_ms), subject(key))

    def _on_timer(self, key: TimerKey, now_ms: int) -> None:
        if self._due is None:
            self.timed_out(key, now_ms)
        else:
            self._due(self, key, now_ms)

    def own(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """A task that lives as long as the shard, not as the connection that led to it."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def settled(self) -> asyncio.Future[None] | None:
        """A future until everything that the machines know is on disk, or None if it is."""
        log = self.log
        if log.high_water_mark >= log.end_offset:
            return None
        return self._confirmation(log.end_offset - 1, 0)

    def _write(self, decision: Decision[Any], guard: Guard | None) -> asyncio.Future[None] | None:
        """Raises LogError if nothing was written or replayed."""
        producer = decision.producer
        now_ms = self._clock.now_ms()
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
        return self._confirmation(appended.last_offset, len(batch))

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


def subject(key: TimerKey) -> str | None:
    """The group or transactional id that a timer is about; None if it is about the whole shard."""
    return key[2] if isinstance(key[2], str) else None


def _heard(written: asyncio.Future[None]) -> None:
    """Ignore the failure of a sync for which nobody waits: the group commit tries again."""
    if not written.cancelled():
        written.exception()


async def _after(written: asyncio.Future[None], reply: Any) -> Any:
    """The reply once its records are on disk, or a failed one."""
    try:
        # Others may wait for the same future, so this task must not cancel it.
        await asyncio.shield(written)
    except LogError as error:
        return reply.failed(coordinator_code(error))
    return reply


def coordinator_code(error: LogError) -> ErrorCode:
    """The error for clients of a coordinator when the log refuses a write: usually one to retry."""
    if isinstance(error, RecordTooLargeError | BatchTooLargeError):
        return ErrorCode.unknown_server_error
    return ErrorCode.coordinator_not_available
