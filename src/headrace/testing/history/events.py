"""What clients of a log did and what they were told: the events of a history.

The rules rely on these invariants of a history:
- An *invoked* or *ending* event is written before the call, every other one after the call returned. A call
  without an answer (its client died) may have taken effect, or may do so later.
- A value is sent only once in a history; it is the name of its write. Transactions and commits have names
  too.
- A client is one process or object: its successor has another name.
- Times are nanoseconds of one monotonic clock that all clients share: on one machine, `now()`.

An event knows neither the log nor whether what it reports is right.
"""

from __future__ import annotations

import time as clocks
from dataclasses import dataclass, field
from typing import Literal

now = clocks.monotonic_ns

# Offset and value of a record that was read.
Entry = tuple[int, str]


def partition_name(topic: str, number: int) -> str:
    """The name of a partition in a history."""
    return f"{topic}/{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStarted:
    """The first event of a client that sends. A transactional producer is also idempotent."""

    client: str
    idempotent: bool
    transactional_id: str | None = None
    time: int = field(default_factory=now)
    event: Literal["producer started"] = "producer started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStarted:
    """The first event of a client that polls."""

    client: str
    read_committed: bool
    group: str | None = None
    time: int = field(default_factory=now)
    event: Literal["consumer started"] = "consumer started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFailed:
    """A client gave up, or received an unexpected error."""

    client: str
    error: str
    fatal: bool = True
    time: int = field(default_factory=now)
    event: Literal["client failed"] = "client failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendInvoked:
    client: str
    value: str
    partition: str
    transaction: str | None = None
    time: int = field(default_factory=now)
    event: Literal["send invoked"] = "send invoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAcknowledged:
    """It is in the log; without an offset if the client was not told it."""

    client: str
    value: str
    partition: str
    offset: int | None
    time: int = field(default_factory=now)
    event: Literal["send acknowledged"] = "send acknowledged"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRefused:
    """It is not in the log and never will be. An error that leaves doubt is a SendUnknown."""

    client: str
    value: str
    error: str = ""
    time: int = field(default_factory=now)
    event: Literal["send refused"] = "send refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendUnknown:
    """The client gave up waiting: it may be in the log once, several times or never."""

    client: str
    value: str
    error: str = ""
    time: int = field(default_factory=now)
    event: Literal["send unknown"] = "send unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegun:
    client: str
    transaction: str
    time: int = field(default_factory=now)
    event: Literal["transaction begun"] = "transaction begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnding:
    """The client is about to request the commit or the abort."""

    client: str
    transaction: str
    commit: bool
    time: int = field(default_factory=now)
    event: Literal["transaction ending"] = "transaction ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    client: str
    transaction: str
    outcome: Literal["committed", "aborted", "unknown"]
    time: int = field(default_factory=now)
    event: Literal["transaction ended"] = "transaction ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """From now on the client reads this partition from this offset; None: it was not told from where."""

    client: str
    partition: str
    offset: int | None
    time: int = field(default_factory=now)
    event: Literal["assigned"] = "assigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Its next record of this partition is the first at or after this offset."""

    client: str
    partition: str
    offset: int
    time: int = field(default_factory=now)
    event: Literal["sought"] = "sought"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """From now on the partition belongs to another member, or to none."""

    client: str
    partition: str
    time: int = field(default_factory=now)
    event: Literal["revoked"] = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Records of one partition in the order in which the client received them."""

    client: str
    partition: str
    records: tuple[Entry, ...]
    time: int = field(default_factory=now)
    event: Literal["polled"] = "polled"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitInvoked:
    """Inside a transaction it takes effect with the transaction's commit."""

    client: str
    group: str
    commit: str
    offsets: dict[str, int]
    transaction: str | None = None
    time: int = field(default_factory=now)
    event: Literal["offset commit invoked"] = "offset commit invoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitEnded:
    """Refused means that it had no effect and never will, not that a retry of it was refused."""

    client: str
    commit: str
    outcome: Literal["committed", "refused", "unknown"]
    error: str = ""
    time: int = field(default_factory=now)
    event: Literal["offset commit ended"] = "offset commit ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetsRead:
    """A group's committed offsets, with `require_stable` (KIP-447); None: there is none. `asked` is before
    the call."""

    client: str
    group: str
    offsets: dict[str, int | None]
    asked: int
    time: int = field(default_factory=now)
    event: Literal["committed offsets read"] = "committed offsets read"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead:
    """A whole partition, read after the last producer had stopped: every record with start <= offset < end.

    `end` is the end of the log or, with read_committed, the last stable offset. The rules take the last final
    read of a partition for the log; earlier ones are ordinary reads.
    """

    client: str
    partition: str
    read_committed: bool
    start: int
    end: int
    records: tuple[Entry, ...]
    time: int = field(default_factory=now)
    event: Literal["final read"] = "final read"


Event = (
    ProducerStarted
    | ConsumerStarted
    | ClientFailed
    | SendInvoked
    | SendAcknowledged
    | SendRefused
    | SendUnknown
    | TransactionBegun
    | TransactionEnding
    | TransactionEnded
    | Assigned
    | Sought
    | Revoked
    | Polled
    | OffsetCommitInvoked
    | OffsetCommitEnded
    | CommittedOffsetsRead
    | FinalRead
)
