"""What a history says, collected once for all rules: writes, transactions, logs, sightings.

Invariant: facts are only what follows from the events; the rules judge them. Raises HistoryError if events
contradict each other, because then no rule would mean anything.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.testing.history.events import (
    ConsumerStarted,
    Event,
    FinalRead,
    Polled,
    ProducerStarted,
    SendAcknowledged,
    SendInvoked,
    SendRefused,
    SendUnknown,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
)
from headrace.testing.history.files import HistoryError

SendEnd = SendAcknowledged | SendRefused | SendUnknown


class Fate(enum.Enum):
    """The outcome of a transaction, as far as its client can know."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Or its commit was never requested, which amounts to the same."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One send; `turn` is its position among its client's sends to this partition."""

    invoked: SendInvoked
    end: SendEnd | None
    turn: int
    idempotent: bool

    @property
    def value(self) -> str:
        return self.invoked.value

    @property
    def partition(self) -> str:
        return self.invoked.partition

    @property
    def acknowledged(self) -> SendAcknowledged | None:
        return self.end if isinstance(self.end, SendAcknowledged) else None

    @property
    def events(self) -> tuple[Event, ...]:
        return (self.invoked,) if self.end is None else (self.invoked, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """`asked` is the first request to commit it."""

    begun: TransactionBegun
    writes: tuple[Write, ...]
    asked: TransactionEnding | None
    ended: TransactionEnded | None
    last_ending: TransactionEnding | None

    @property
    def name(self) -> str:
        return self.begun.transaction

    @property
    def fate(self) -> Fate:
        if self.asked is None or (self.ended is not None and self.ended.outcome == "aborted"):
            return Fate.ABORTED
        if self.ended is not None and self.ended.outcome == "committed":
            return Fate.COMMITTED
        return Fate.UNKNOWN

    @property
    def events(self) -> tuple[Event, ...]:
        ending = None if self.last_ending is self.asked else self.last_ending
        return tuple(each for each in (self.begun, self.asked, ending, self.ended) if each is not None)


class FinalLog:
    """A partition as read at the end."""

    def __init__(self, read: FinalRead) -> None:
        self.read = read
        self.partition, self.start, self.end = read.partition, read.start, read.end
        self.records = dict(read.records)
        self.offsets_of: dict[str, list[int]] = defaultdict(list)
        for offset, value in read.records:
            self.offsets_of[value].append(offset)
        self.offsets = sorted(self.records)

    def __contains__(self, value: str) -> bool:
        return value in self.offsets_of

    def showing(self, *offsets: int) -> FinalRead:
        """The read reduced to these records, for display."""
        return replace(self.read, records=tuple((each, self.records[each]) for each in offsets))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A client was told that this value is at this place. An acknowledgement has no isolation level."""

    partition: str
    offset: int
    value: str
    event: SendAcknowledged | Polled | FinalRead
    read_committed: bool

    @property
    def shown(self) -> Event:
        """The event reduced to this record."""
        if isinstance(self.event, SendAcknowledged):
            return self.event
        return replace(self.event, records=((self.offset, self.value),))


class Facts:
    """What all rules work on."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = tuple(events)
        self.producers = {each.client: each for each in self.events if isinstance(each, ProducerStarted)}
        self.consumers = {each.client: each for each in self.events if isinstance(each, ConsumerStarted)}
        self.writes = self._writes()
        self.transactions = self._transactions()
        finals = [each for each in self.events if isinstance(each, FinalRead)]
        self.complete = {each.partition: FinalLog(each) for each in finals if not each.read_committed}
        self.committed = {each.partition: FinalLog(each) for each in finals if each.read_committed}

    def isolation_of(self, client: str) -> bool:
        """Whether this consumer reads only committed records."""
        if client not in self.consumers:
            raise HistoryError(f"{client} polls without a `consumer started`")
        return self.consumers[client].read_committed

    def transaction_of(self, value: str) -> Transaction | None:
        write = self.writes.get(value)
        if write is None or write.invoked.transaction is None:
            return None
        return self.transactions[write.invoked.transaction]

    def log_for(self, write: Write) -> FinalLog | None:
        """A final read that must contain this write, if it is in the log at all."""
        if (complete := self.complete.get(write.partition)) is not None:
            return complete
        return self.committed.get(write.partition) if write.invoked.transaction is None else None

    def logs(self) -> Iterator[FinalLog]:
        """The best final read of each partition: of all records, or else of the committed ones."""
        yield from ({**self.committed, **self.complete}).values()

    def sightings(self) -> Iterator[Sighting]:
        """Acknowledgements and reads, in the order of the history."""
        for event in self.events:
            if isinstance(event, SendAcknowledged):
                if event.offset is not None:
                    yield Sighting(
                        partition=event.partition,
                        offset=event.offset,
                        value=event.value,
                        event=event,
                        read_committed=False,
                    )
            elif isinstance(event, Polled | FinalRead):
                read_committed = (
                    event.read_committed if isinstance(event, FinalRead) else self.isolation_of(event.client)
                )
                for offset, value in event.records:
                    yield Sighting(
                        partition=event.partition,
                        offset=offset,
                        value=value,
                        event=event,
                        read_committed=read_committed,
                    )

    def _writes(self) -> dict[str, Write]:
        invoked: dict[str, SendInvoked] = {}
        ends: dict[str, SendEnd] = {}
        for event in self.events:
            if isinstance(event, SendInvoked):
                if event.value in invoked:
                    raise HistoryError(f"{event.value!r} was sent twice, but a value names its write")
                if event.client not in self.producers:
                    raise HistoryError(f"{event.client} sends without a `producer started`")
                invoked[event.value] = event
            elif isinstance(event, SendEnd):
                if event.value not in invoked:
                    raise HistoryError(f"{event.value!r} was answered before it was sent")
                ends[event.value] = event
        turns: dict[tuple[str, str], int] = defaultdict(int)
        writes = {}
        for value, send in invoked.items():
            turns[send.client, send.partition] += 1
            writes[value] = Write(
                invoked=send,
                end=ends.get(value),
                turn=turns[send.client, send.partition],
                idempotent=self.producers[send.client].idempotent,
            )
        return writes

    def _transactions(self) -> dict[str, Transaction]:
        begun = {each.transaction: each for each in self.events if isinstance(each, TransactionBegun)}
        endings: dict[str, list[TransactionEnding]] = defaultdict(list)
        ended: dict[str, TransactionEnded] = {}
        for event in self.events:
            if isinstance(event, TransactionEnding | TransactionEnded) and event.transaction not in begun:
                raise HistoryError(f"the transaction {event.transaction} ends but never began")
            if isinstance(event, TransactionEnding):
                endings[event.transaction].append(event)
            elif isinstance(event, TransactionEnded):
                ended[event.transaction] = event
        writes: dict[str, list[Write]] = defaultdict(list)
        for write in self.writes.values():
            if (name := write.invoked.transaction) is not None:
                if name not in begun:
                    raise HistoryError(f"{write.value!r} is in the transaction {name}, which never began")
                writes[name].append(write)
        return {
            name: Transaction(
                begun=each,
                writes=tuple(writes[name]),
                asked=next((ending for ending in endings[name] if ending.commit), None),
                last_ending=endings[name][-1] if endings[name] else None,
                ended=ended.get(name),
            )
            for name, each in begun.items()
        }
