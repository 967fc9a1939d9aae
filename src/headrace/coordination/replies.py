"""Replies about groups, as values. The API files turn them into protocol messages of any version.

Invariants: `error` is `ErrorCode.none` on success. Every reply to a write can become one that says it failed.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from headrace.coordination.group import NO_GENERATION, NO_MEMBER
from headrace.coordination.offset_records import NO_LEADER_EPOCH

NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """What the leader learns about a member, to assign partitions."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """JoinGroup. Only the leader gets the members."""

    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def failed(self, error: ErrorCode) -> JoinReply:
        return JoinReply(error=error, member_id=NO_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    """SyncGroup."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> SyncReply:
        return SyncReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """Heartbeat."""

    error: ErrorCode = ErrorCode.none

    def failed(self, error: ErrorCode) -> HeartbeatReply:
        return HeartbeatReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """The result for one leaving member."""

    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """LeaveGroup. Before version 3 the API file replies with the error of the only member."""

    error: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()

    def failed(self, error: ErrorCode) -> LeaveReply:
        return LeaveReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The result for the offset of one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """OffsetCommit and TxnOffsetCommit, in the order of the request."""

    partitions: tuple[PartitionResult, ...]

    def failed(self, error: ErrorCode) -> CommitReply:
        # Partitions that were refused for another reason keep it.
        return CommitReply(
            partitions=tuple(
                replace(result, error=error) if result.error is ErrorCode.none else result
                for result in self.partitions
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """The committed offset of one partition, or -1."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    topic_id: uuid.UUID | None = None
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsetsReply:
    """OffsetFetch of one group. With an `error` there are no partitions."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    partitions: tuple[FetchedOffset, ...] = ()

    def failed(self, error: ErrorCode) -> FetchOffsetsReply:
        return FetchOffsetsReply(group_id=self.group_id, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsReply:
    """OffsetDelete. With an `error` there are no partitions."""

    error: ErrorCode = ErrorCode.none
    partitions: tuple[PartitionResult, ...] = ()

    def failed(self, error: ErrorCode) -> DeleteOffsetsReply:
        return DeleteOffsetsReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsReply:
    """DeleteGroups: the result for each group."""

    groups: tuple[tuple[str, ErrorCode], ...]

    def failed(self, error: ErrorCode) -> DeleteGroupsReply:
        return DeleteGroupsReply(
            groups=tuple(
                (group_id, error if result is ErrorCode.none else result) for group_id, result in self.groups
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """The reply of decisions without a request: after a timer, a load or the deletion of a topic."""

    def failed(self, error: ErrorCode) -> NoReply:  # noqa: ARG002 - nobody is told
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member as DescribeGroups shows it, with its subscription if the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A classic group as DescribeGroups shows it. Before version 6, an unknown group is just Dead."""

    group_id: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    kind: str
