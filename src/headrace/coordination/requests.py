"""Requests about groups, as values. The API files make them from protocol messages of any version.

Invariants: a value contains what was asked and nothing that was looked up. Differences between versions are
fields (`member_id_required`, `can_skip_assignment`), never version numbers.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from headrace.coordination.decision import Producer
from headrace.coordination.group import NO_GENERATION, NO_MEMBER, Committer
from headrace.coordination.offset_records import NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedProtocol:
    """An assignment strategy that a member supports, with its subscription in the format of the strategy."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup. The protocols are in the member's order of preference.

    `member_id_required`: a new member gets an id and must ask again (KIP-394; JoinGroup 4 and newer).
    `can_skip_assignment`: a returning static leader can be told not to assign (KIP-814; 9 and newer).
    """

    group_id: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    member_id_required: bool = True
    can_skip_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """SyncGroup. Only the leader sends assignments, by member id. The protocol is None before version 5."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Heartbeat of a classic member."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """A leaving member. The instance id is enough for a static member (KIP-345)."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """LeaveGroup. Before version 3, for one member and without instance ids."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """The offset of one partition in a commit. The API file has refused unknown topics."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit, or with a producer TxnOffsetCommit. `retention_ms` only in versions 2 to 4."""

    group_id: str
    committer: Committer
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None
    producer: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsetsRequest:
    """OffsetFetch of one group; None asks for all its partitions. Member and epoch since version 9."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsRequest:
    """OffsetDelete (KIP-496)."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
