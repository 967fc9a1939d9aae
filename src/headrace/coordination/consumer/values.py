"""What is kept of a group of the consumer protocol (KIP-848): the values behind its records.

Invariants: values are frozen; two that are equal are the same on disk. A topic without partitions is in no
mapping. Never: behaviour. What changes them stands in `consumer_group_*.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from uuid import UUID

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which the member got it (KIP-1251)."""

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers are Kafka's."""

    STABLE = 0
    """Has what the target of its epoch gives it."""
    UNREVOKED_PARTITIONS = 1
    """Has been told to give partitions up, and has not yet said that it did."""
    UNRELEASED_PARTITIONS = 2
    """Waits for partitions that another member still has."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocols:
    """What a member offered that speaks the classic protocol in this group: its session and its protocols."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """What a member says of itself. An empty expression is none."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_expression: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has, and what it has been asked to give up; both are its own until it says otherwise."""

    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """What a member is to have."""

    partitions: Mapping[UUID, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """Counts what calls for a new target; the hash is that of the topics subscribed to (KIP-1101)."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentEpoch:
    """The group epoch that the target belongs to, and when it was computed (KIP-1263)."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExpression:
    """The topics that an expression stands for; from which version of all topics, and when it was found."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NOTHING: Final = TargetAssignment(partitions={})
