"""What a coordinator decides: records to write, replies to give, timers to set. The vocabulary here.

The runtime (in broker/) drives every machine in the same five steps, without anything in between:

1. `decision = machine.decide_something(request, …, now_ms)` leaves the durable state as it was.
2. `decision.records` are appended as one batch to the partition of the internal topic that owns the key;
   with `decision.producer` as a transactional batch of that producer (KIP-447).
3. Each of them goes through `machine.replay(key, value)`, as it will when the partition is loaded again.
4. `decision.timers` are set, moved or cancelled. One that is due leads to `machine.timed_out(key, now_ms)`.
5. When the records are as durable as the log promises, `reply` and `replies` go out.

If the append fails, the runtime carries out `decision.failed(error)` instead, or, where a machine has a
`write_failed`, what that one decides.

Invariants: only `replay` changes durable state, live and at load alike; time and ids are arguments.
Never: I/O, clocks, randomness, protocol messages, exceptions for cases that clients can cause.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

WaitingId = int
"""Names a request whose reply may have to wait. The caller gives it, unique among the waiting ones."""

TimerKey = tuple[str | int, ...]
"""Names a timer. The first part says which machine it belongs to, the second which kind of timer it is."""


class Reply(Protocol):
    """An answer to a request: a frozen value, free of protocol versions."""

    def failed(self, error: ErrorCode) -> "Reply":
        """The same answer when what it promises could not be written."""
        ...


SomeReply = TypeVar("SomeReply", bound=Reply, covariant=True)  # noqa: PLC0105 - a word, not a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record in Kafka's own format: the key begins with its type; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Sets this timer to a moment, in place of an earlier one; without a moment it is cancelled."""

    key: TimerKey
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The transactional producer in whose name records are written; its marker decides whether they count."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[SomeReply]):
    """What to write, to whom to reply, when to wake up. Without `reply` the request that was asked waits:
    this decision or a later one names its waiting id in `replies`, once."""

    records: tuple[Record, ...] = ()
    reply: SomeReply | None = None
    timers: tuple[Timer, ...] = ()
    replies: tuple[tuple[WaitingId, Reply], ...] = ()
    producer: Producer | None = None

    def failed(self, error: ErrorCode) -> "Decision[Reply]":
        """What is left of it when its records could not be written: the error for all, and the timers."""
        return Decision(
            reply=None if self.reply is None else self.reply.failed(error),
            timers=self.timers,
            replies=tuple((waiting_id, reply.failed(error)) for waiting_id, reply in self.replies),
        )


class Draft:
    """A decision in the making: what was decided so far. The last word on each timer counts."""

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
        """Cancel the timers of a decision that could not be written and let its replies fail; the main one."""
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
