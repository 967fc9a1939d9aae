"""The vocabulary of coordinators: a decision names the records to write, the replies and the timers.

The runtime (`broker/coordinators/shard.py`) drives every machine in five steps, without interruption:

1. `decision = machine.decide_something(request, …, now_ms)` does not change durable state.
2. The runtime appends `decision.records` as one batch to the partition of the internal topic that owns the
   key. With `decision.producer` it is a transactional batch of that producer (KIP-447).
3. It passes each record to `machine.replay(key, value)`, as it will when it loads the partition again.
4. It sets, moves or cancels `decision.timers`. When one is due, it calls `machine.timed_out(key, now_ms)`.
5. When the records are as durable as the log promises, it sends `reply` and `replies`.

If the append fails, the runtime carries out `decision.failed(error)` instead, or the decision that the
machine's `write_failed` returns.

Invariants: only `replay` changes durable state, both live and at load. Time and ids are arguments.
Never: I/O, clocks, randomness, protocol messages, exceptions for what clients can cause.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

WaitingId = int
"""Identifies a request whose reply may have to wait. The caller chooses it, unique among waiting requests."""

TimerKey = tuple[str | int, ...]
"""Identifies a timer: its machine, its kind, then the group or id it is about, or the number of its shard."""


class Reply(Protocol):
    """The answer to a request: a frozen value that does not depend on protocol versions."""

    def failed(self, error: ErrorCode) -> "Reply":
        """The answer to give instead if its records could not be written."""
        ...


SomeReply = TypeVar("SomeReply", bound=Reply, covariant=True)  # noqa: PLC0105 - a word, not a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record in Kafka's own format. The key begins with its type; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Sets a timer to a moment and replaces its earlier setting. Without a moment, cancels it."""

    key: TimerKey
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The transactional producer of the records; the marker of its transaction decides whether they count."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[SomeReply]):
    """What to write, whom to answer, when to wake up.

    Without `reply` the request waits: this decision or a later one answers it once, in `replies`.
    """

    records: tuple[Record, ...] = ()
    reply: SomeReply | None = None
    timers: tuple[Timer, ...] = ()
    replies: tuple[tuple[WaitingId, Reply], ...] = ()
    producer: Producer | None = None

    def failed(self, error: ErrorCode) -> "Decision[Reply]":
        """What remains if its records could not be written: the error for everybody, and the timers."""
        return Decision(
            reply=None if self.reply is None else self.reply.failed(error),
            timers=self.timers,
            replies=tuple((waiting_id, reply.failed(error)) for waiting_id, reply in self.replies),
        )


class Draft:
    """A decision under construction. The last setting of each timer counts."""

    __slots__ = ("_timers", "now_ms", "records", "replies")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[tuple[WaitingId, Reply]] = []
        self._timers: dict[TimerKey, Timer] = {}

    def set_timer(self, key: TimerKey, after_ms: int) -> None:
        self._timers[key] = Timer(key=key, at_ms=self.now_ms + after_ms)

    def cancel_timer(self, key: TimerKey) -> None:
        self._timers[key] = Timer(key=key, at_ms=None)

    def answer(self, waiting_id: WaitingId, reply: Reply) -> None:
        self.replies.append((waiting_id, reply))

    def take_back(self, decision: Decision[Reply], error: ErrorCode) -> Reply | None:
        """Cancel the timers and fail the replies of a decision that could not be written. Returns `reply`."""
        for timer in decision.timers:
            self.cancel_timer(timer.key)
        for waiting_id, reply in decision.replies:
            self.answer(waiting_id, reply.failed(error))
        return None if decision.reply is None else decision.reply.failed(error)

    def decision(self, reply: SomeReply | None = None) -> Decision[SomeReply]:
        return Decision(
            records=tuple(self.records),
            reply=reply,
            timers=tuple(self._timers.values()),
            replies=tuple(self.replies),
        )
