"""Requests about groups of the consumer protocol (KIP-848), and replies, as values.

Invariants: as in `coordination/requests.py` and `replies.py`: nothing looked up, no version numbers,
`ErrorCode.none` on success; every reply to a write can become one that says it failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.assignors import ASSIGNORS, Partitions

NOT_GIVEN: Final = -1


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: how a group with members may change its kind."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of a consumer group (`group.consumer.*`), with Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """ConsumerGroupHeartbeat. None, or -1 for the timeout, means unchanged.

    `member_id_required`: the client chooses its id itself (version 1 and newer).
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    topic_names: frozenset[str] | None = None
    topic_expression: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    member_id_required: bool = True

    @property
    def is_full(self) -> bool:
        """Whether it contains everything, as from a member that is not sure what the broker knows."""
        subscribes = self.topic_names is not None or self.topic_expression is not None
        return self.rebalance_timeout_ms != NOT_GIVEN and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    """ConsumerGroupHeartbeat. Without an assignment, that is unchanged."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None

    def failed(self, error: ErrorCode) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused."""

    error: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartitions:
    """Partitions of a topic that exists."""

    topic_id: UUID
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member as ConsumerGroupDescribe shows it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_expression: str
    assignment: tuple[DescribedPartitions, ...]
    target_assignment: tuple[DescribedPartitions, ...]
    speaks_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """A group as ConsumerGroupDescribe shows it."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()
