"""What clients of a log did and what they were told: the events of a history.

Invariants a history keeps, for the rules rely on them:
- An *invoked* or *ending* event is written before the call is made, every other one after the call gave its
  answer. A call without an answer (its client died) may have had its effect, now or later.
- A value is sent once in a history; it is the name of its write. A transaction and a commit have names as
  well.
- A client is one process or object: its successor has another name.
- Times are nanoseconds of one monotonic clock that all clients share: on one machine, `now()`.

An event knows neither the log nor whether what it tells is right.
"""

from __future__ import annotations

import time as clocks
from dataclasses import dataclass, field
from typing import Literal

now = clocks.monotonic_ns

# Offset and value of a record that was read.
Entry = tuple[int, str]


def partition_name(topic: str, number: int) -> str:
    """How a partition is called in a history."""
    return f"{topic}/{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStarted:
    """The first event of a client that sends. A transactional producer is idempotent too."""

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
    """A client gave up, or was told of an error that it did not expect."""

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
    """It is in the log; without an offset if the client was not told which."""

    client: str
    value: str
    partition: str
    offset: int | None
    time: int = field(default_factory=now)
    event: Literal["send acknowledged"] = "send acknowledged"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRefused:
    """It is not in the log and never will be. An error that leaves a doubt is a SendUnknown."""

    client: str
    value: str
    error: str = ""
    time: int = field(default_factory=now)
    event: Literal["send refused"] = "send refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendUnknown:
    """The client gave up waiting: it may be in the log, once, more often or never."""

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
    """The client is about to ask for its commit, or for its abort."""

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
    """From now on the client reads this partition from this offset on; None: from where, it was not told."""

    client: str
    partition: str
    offset: int | None
    time: int = field(default_factory=now)
    event: Literal["assigned"] = "assigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Its next record of this partition is the first one at this offset or after it."""

    client: str
    partition: str
    offset: int
    time: int = field(default_factory=now)
    event: Literal["sought"] = "sought"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """The partition is another member's from now on, or nobody's."""

    client: str
    partition: str
    time: int = field(default_factory=now)
    event: Literal["revoked"] = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Records of one partition in the order in which the client was given them."""

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
    """Refused is what had no effect and never will, not what was asked twice and refused the second time."""

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
    """All of a partition, read after the last producer had stopped: every record with start <= offset < end.

    `end` is the end of the log or, read_committed, the last stable offset. The last one of a partition is
    what the rules take for the log; earlier ones are reads like others.
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
