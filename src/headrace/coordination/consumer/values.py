"""The values in the records of a group of the consumer protocol (KIP-848).

Invariants: values are frozen; equal values have equal bytes on disk. A topic without partitions is in no
mapping. Never: behaviour, which is in the other modules of this folder.
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
    """How far a member has come towards its target. The numbers are Kafka's."""

    STABLE = 0
    """Has the target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """Was told to give up partitions, and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """Waits for partitions that another member still holds."""
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocols:
    """The session and the protocols of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """What a member says about itself. An empty expression means none."""

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
    """What a member has, and what it was asked to give up. It holds both until it says otherwise."""

    member_epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """What a member should have."""

    partitions: Mapping[UUID, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """Counts changes that require a new target. The hash is that of the subscribed topics (KIP-1101)."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentEpoch:
    """The group epoch of the target, and when it was computed (KIP-1263)."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExpression:
    """The topics that match an expression, at which version of all topics, and when they were found."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NOTHING: Final = TargetAssignment(partitions={})
