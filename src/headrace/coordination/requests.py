"""What groups are asked, as values: made by the API files from protocol messages of any version.

Invariants: a value holds what was asked, with nothing looked up. What differs between versions is a field
here (`member_id_required`, `can_skip_assignment`), never a version number.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from headrace.coordination.decision import Producer
from headrace.coordination.group import NO_GENERATION, NO_MEMBER, Committer
from headrace.coordination.offset_records import NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedProtocol:
    """A way of assigning partitions that a member knows, with its subscription in that way's format."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup. The protocols stand in the member's order of preference.

    `member_id_required`: somebody new gets an id and must ask again (KIP-394; JoinGroup 4 and newer).
    `can_skip_assignment`: a static leader that comes back can be told not to assign (KIP-814; 9 and newer).
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
    """SyncGroup. Only the leader sends assignments, by member id. Type and name are None before version 5."""

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
    """One of those who leave. A static member may be named by its instance id alone (KIP-345)."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """LeaveGroup; before version 3 of one member, without instance ids."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """One partition's offset in a commit. Where a topic is unknown the API file answers, not the machine."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit, and with a producer TxnOffsetCommit. `retention_ms` only from versions 2 to 4."""

    group_id: str
    committer: Committer
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None
    producer: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsetsRequest:
    """OffsetFetch of one group. Without partitions: all that it has. Member and epoch from version 9 on."""

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
