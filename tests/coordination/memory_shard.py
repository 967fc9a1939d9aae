"""A real shard of the broker, with a log in memory and a clock that tests turn by hand.

`broker/coordinators/shard.py` carries out decisions and `shards.load` loads the log again; none of that is
reimplemented here. The shard is watched: a decision may answer only waiting requests, each of them once, and
may set a timer only once.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic

from headrace.broker.coordinators.shard import Carried, Shard, SomeMachines, subject
from headrace.broker.coordinators.shards import load
from headrace.broker.errors import CloseConnectionError
from headrace.coordination.decision import Decision, Record, Reply, TimerKey, WaitingId
from headrace.log.errors import StorageError
from headrace.log.partition.partition_log import Appended
from headrace.log.partition.reading import ReadResult
from headrace.log.producers.verification import Coordinator, Guard
from headrace.log.segments.segment_files import FileRange
from headrace.wire import records as batches
from headrace.wire.control_batches import EndMarker, build_end_marker
from headrace.wire.record_batch import read_header

_BASE_OFFSET = struct.Struct(">q")


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """One event loop for all shards, which need a running one to create futures."""
    return asyncio.new_event_loop()


class MemoryLog:
    """A partition that keeps its batches in a list."""

    name = "memory-0"
    durable = False
    leader_epoch = 0
    start_offset = 0

    def __init__(self) -> None:
        self._batches: list[bytes] = []
        self.end_offset = 0
        self.fail_next_write = False

    def __len__(self) -> int:
        """The number of records and markers."""
        return self.end_offset

    @property
    def high_water_mark(self) -> int:
        return self.end_offset

    def append(self, records: bytearray, *, now_ms: int, permission: Coordinator | None = None) -> Appended:  # noqa: ARG002
        if self.fail_next_write:
            self.fail_next_write = False
            raise StorageError("The disk is full.")
        base = self.end_offset
        _BASE_OFFSET.pack_into(records, 0, base)
        self._batches.append(bytes(records))
        self.end_offset = read_header(records).next_offset
        return Appended(base, self.end_offset - 1, -1, 0, False)

    def append_marker(self, producer_id: int, *, committed: bool) -> None:
        """End a transaction of this producer."""
        marker = build_end_marker(
            EndMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp=0
        )
        self.append(marker, now_ms=0)

    def begin_verification(self, *_producer: int, **_more: Any) -> Guard | None:
        return None

    def read(self, offset: int, _max_bytes: int, *, at_least_one: bool) -> ReadResult:
        """Everything from an offset on, which must be the first of a batch."""
        assert at_least_one
        whole = b"".join(each for each in self._batches if read_header(each).base_offset >= offset)
        return ReadResult(FileRange(_Bytes(whole), 0, len(whole)), len(whole), self.end_offset, 0)

    def records(self) -> Iterator[Record]:
        """All records in order, without markers."""
        for batch in self._batches:
            header = read_header(batch)
            if not header.control:
                for record in batches.read_records(batch, header):
                    yield Record(key=record.key or b"", value=record.value)

    def compacted(self) -> MemoryLog:
        """The log after compaction: the last record of each key, without tombstones."""
        last: dict[bytes, bytes | None] = {}
        for record in self.records():
            last.pop(record.key, None)
            last[record.key] = record.value
        log = MemoryLog()
        for key, value in last.items():
            if value is not None:
                log.append(batches.build_batch([batches.Record(0, 0, key, value)]), now_ms=0)
        return log


@dataclass(frozen=True, slots=True)
class _Bytes:
    content: bytes

    def pread(self, size: int, position: int) -> bytes:
        return self.content[position : position + size]


@dataclass(eq=False)
class _Call:
    at_ms: int
    number: int
    call: Callable[..., None]
    arguments: tuple[TimerKey, int]
    clock: ManualClock

    def cancel(self) -> None:
        self.clock.calls.remove(self)


@dataclass
class ManualClock:
    """A clock that only tests advance."""

    ms: int
    calls: list[_Call] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def now_ms(self) -> int:
        return self.ms

    def call_later(
        self, seconds: float, call: Callable[[TimerKey, int], None], key: TimerKey, at_ms: int, /
    ) -> _Call:
        later = _Call(self.ms + round(seconds * 1000), next(self._numbers), call, (key, at_ms), self)
        self.calls.append(later)
        return later

    def turn(self, end_ms: int) -> None:
        """Advance to `end_ms` and make every scheduled call at its moment."""
        while self.calls:
            first = min(self.calls, key=lambda call: (call.at_ms, call.number))
            if first.at_ms > end_ms:
                break
            self.calls.remove(first)
            self.ms = max(self.ms, first.at_ms)
            first.call(*first.arguments)
        self.ms = end_ms


class WatchedShard(Shard[SomeMachines]):
    """Fails if a machine breaks its promises."""

    def commit(
        self, decision: Decision[Any], about: str | None = None, guard: Guard | None = None
    ) -> Carried:
        keys = [timer.key for timer in decision.timers]
        assert len(keys) == len(set(keys))
        return super().commit(decision, about, guard)

    def _answer(self, replies: Iterable[tuple[WaitingId, Reply]]) -> None:
        replies = tuple(replies)
        for waiting_id, _reply in replies:
            assert not self._waiting[waiting_id].done()
        super()._answer(replies)


class ShardRuntime(Generic[SomeMachines]):
    """One partition of an internal topic and its machines. Timers that are due at once fire at once."""

    def __init__(self, make: Callable[[], SomeMachines], *, now_ms: int) -> None:
        self._make = make
        self._ids = itertools.count(1)
        self._asked: dict[WaitingId, asyncio.Future[Any]] = {}
        # The replies that have come so far, to requests that may wait.
        self.answers: dict[WaitingId, Any] = {}
        self.clock = ManualClock(now_ms)
        self.log = MemoryLog()
        self._load()

    def _load(self) -> None:
        self.shard = WatchedShard(
            0, self.log, self._make(), clock=self.clock, confirmation=lambda _offset, _size: None
        )
        # Waiting ids stay unique across restarts.
        self.shard._ids = self._ids
        event_loop().run_until_complete(load(self.log, self.shard.machines))
        self._run(self.shard.become_loaded)

    def _run(self, call: Callable[[], Any]) -> Any:
        async def inside() -> Any:
            result = call()
            self.clock.turn(self.clock.ms)
            return result

        result = event_loop().run_until_complete(inside())
        for asked in [asked for asked, answer in self._asked.items() if answer.done()]:
            self.answers[asked] = self._asked.pop(asked).result()
        return result

    @property
    def machines(self) -> SomeMachines:
        return self.shard.machines

    @property
    def now_ms(self) -> int:
        return self.clock.ms

    @property
    def fail_next_write(self) -> bool:
        return self.log.fail_next_write

    @fail_next_write.setter
    def fail_next_write(self, fails: bool) -> None:
        self.log.fail_next_write = fails

    @property
    def timers(self) -> dict[TimerKey, int]:
        """When the timers about a group or id are due."""
        calls = [call.arguments for call in self.clock.calls]
        return {key: at_ms for key, at_ms in calls if subject(key) is not None}

    @property
    def waiting(self) -> set[WaitingId]:
        """The requests without a reply so far."""
        return set(self._asked)

    def apply(self, decision: Decision[Any], about: str | None = None) -> Any:
        """Carry out a decision and return its reply."""
        return self._run(lambda: self.shard.carry_out(decision, about))

    def ask(self, decide: Callable[[WaitingId], Decision[Any]], about: str) -> WaitingId:
        """Make a request that may have to wait. Returns the key of its answer in `answers`."""
        given: list[WaitingId] = []

        def decide_as(waiting_id: WaitingId) -> Decision[Any]:
            given.append(waiting_id)
            return decide(waiting_id)

        answer = self._run(lambda: self.shard.ask(decide_as, about))
        if isinstance(answer, asyncio.Future) and not answer.done():
            self._asked[given[0]] = answer
        else:
            self.answers[given[0]] = answer.result() if isinstance(answer, asyncio.Future) else answer
        return given[0]

    def advance(self, by_ms: int) -> None:
        """Let time pass. Every timer fires at its moment."""
        end_ms = self.now_ms + by_ms
        self._run(lambda: self.clock.turn(end_ms))

    def reload(self) -> None:
        """Kill and restart the broker: connections, timers and memory are lost, the log is not."""
        hung_up, self._asked = self._asked, {}
        self._run(self.shard.close)
        assert all(isinstance(answer.exception(), CloseConnectionError) for answer in hung_up.values())
        self.fail_next_write = False
        self._load()
