"""A group of the consumer protocol (KIP-848): its members, their assignments and their targets.

Three epochs show the progress; they only grow. The *group epoch* counts changes that require a new
assignment: of members, subscriptions, topics. The *assignment epoch* is the group epoch of the current
target. A *member epoch* is the assignment epoch that the member has reached.

    group epoch 7 ──assignor──▶ assignment epoch 7: target ──reconciliation──▶ member epochs 5, 7, 7 …

Invariants: only `replay` changes durable state. A partition has at most one holder: the member to which it is
assigned, or which has not confirmed its revocation. Transient state is in no record; a load begins without
it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.records import RecordKey, RecordType, Value, record
from headrace.coordination.consumer.values import (
    LEAVING_EPOCH,
    NOTHING,
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    PartitionEpochs,
    ResolvedExpression,
    TargetAssignment,
)
from headrace.coordination.decision import Record, Timer
from headrace.coordination.group import CONSUMER, Committer

PROTOCOL_TYPE: Final = "consumer"

_GONE: Final = CurrentAssignment(member_epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)
# Producers older than KIP-447 do not say for which member they commit.
_PRODUCER_WITHOUT_GROUP: Final = Committer(transactional=True)


class GroupState(Enum):
    """The states by the names that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member: its metadata and its current assignment."""

    member_id: str
    metadata: MemberMetadata = field(default_factory=MemberMetadata)
    current: CurrentAssignment = field(default_factory=CurrentAssignment)

    @property
    def speaks_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic is not None

    def has_come_to(self, epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.current.member_epoch == epoch


class ConsumerGroup:
    """One consumer group. Implements `group.Group`."""

    __slots__ = (
        "_subscribed",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "awaited_joins",
        "checked_version",
        "epoch",
        "expressions",
        "group_id",
        "holders",
        "members",
        "metadata_hash",
        "static_members",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # A new group; its first member raises it to 2, as in Kafka.
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, TargetAssignment] = {}
        self.expressions: dict[str, ResolvedExpression] = {}
        # Derived from the above.
        self.static_members: dict[str, str] = {}
        self.holders: dict[tuple[UUID, int], str] = {}
        self._subscribed: frozenset[str] | None = None
        # Transient.
        self.checked_version: int | None = None
        self.awaited_joins: set[str] = set()

    def copy(self) -> ConsumerGroup:
        """An independent copy of the durable state."""
        other = ConsumerGroup(self.group_id)
        other.epoch = self.epoch
        other.metadata_hash = self.metadata_hash
        other.assignment_epoch = self.assignment_epoch
        other.assignment_timestamp_ms = self.assignment_timestamp_ms
        other.members = dict(self.members)
        other.target = dict(self.target)
        other.expressions = dict(self.expressions)
        other.static_members = dict(self.static_members)
        other.holders = dict(self.holders)
        other._subscribed = self._subscribed
        return other

    def durable_state(self) -> tuple[object, ...]:
        """Everything that comes from records, and that a load must restore."""
        return (
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assignment_timestamp_ms,
            dict(self.members),
            dict(self.target),
            dict(self.expressions),
            dict(self.static_members),
            dict(self.holders),
        )

    def replay(self, key: RecordKey, value: Value | None) -> None:
        """Apply one record. Deleting the group itself is up to its machine."""
        match value:
            case GroupEpoch():
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
            case AssignmentEpoch():
                self.assignment_epoch = value.epoch
                self.assignment_timestamp_ms = value.timestamp_ms
            case MemberMetadata():
                self._put(replace(self._member(key.name), metadata=value))
            case CurrentAssignment():
                self._put(replace(self._member(key.name), current=value))
            case TargetAssignment():
                self.target[key.name] = value
            case ResolvedExpression():
                self.expressions[key.name] = value
                self._subscribed = None
            case None:
                self._delete(key)

    def _delete(self, key: RecordKey) -> None:
        if key.type is RecordType.MEMBER:
            self._remove(key.name)
        elif key.type is RecordType.CURRENT:
            if key.name in self.members:
                self._put(replace(self.members[key.name], current=_GONE))
        elif key.type is RecordType.TARGET_MEMBER:
            self.target.pop(key.name, None)
        elif key.type is RecordType.TARGET:
            self.assignment_epoch = LEAVING_EPOCH
            self.assignment_timestamp_ms = 0
        elif key.type is RecordType.EXPRESSION:
            self.expressions.pop(key.name, None)
            self._subscribed = None

    def _member(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id=member_id)

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or before.metadata is not member.metadata:
            self._subscribed = None
            if member.metadata.instance_id is not None:
                self.static_members[member.metadata.instance_id] = member.member_id
        if before is None or before.current is not member.current:
            if before is not None:
                self._let_go(before)
            for partitions in (member.current.assigned, member.current.revoking):
                for topic_id, numbers in partitions.items():
                    for number in numbers:
                        self.holders[topic_id, number] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._subscribed = None
        self.awaited_joins.discard(member_id)
        self._let_go(member)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _let_go(self, member: Member) -> None:
        for partitions in (member.current.assigned, member.current.revoking):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    if self.holders.get((topic_id, number)) == member.member_id:
                        del self.holders[topic_id, number]

    # Questions.

    @property
    def state(self) -> GroupState:
        """Derived, never stored."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.has_come_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> TargetAssignment:
        return self.target.get(member_id, NOTHING)

    def topic_names_of(self, member: Member) -> frozenset[str]:
        """The topics it subscribes to, by name and by expression. An unresolved expression matches none."""
        resolved = self.expressions.get(member.metadata.topic_expression)
        return (
            member.metadata.topic_names if resolved is None else member.metadata.topic_names | resolved.topics
        )

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        if self._subscribed is None:
            self._subscribed = frozenset[str]().union(*map(self.topic_names_of, self.members.values()))
        return self._subscribed

    def subscribers_of(self, expression: str) -> int:
        return sum(member.metadata.topic_expression == expression for member in self.members.values())

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members name; in a tie the first by name, whatever the order of members."""
        named = Counter(
            member.metadata.server_assignor
            for member in self.members.values()
            if member.metadata.server_assignor
        )
        return min(named, key=lambda name: (-named[name], name), default=default)

    def waits_for_another(self, member: Member) -> bool:
        """Whether another member still holds a partition of this member's target."""
        return any(
            self.holders.get((topic_id, number), member.member_id) != member.member_id
            for topic_id, numbers in self.target_of(member.member_id).partitions.items()
            for number in numbers
        )

    # The interface of groups of any kind (`group.Group`).

    @property
    def kind(self) -> str:
        return CONSUMER

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_name_listed(self) -> str:
        return PROTOCOL_TYPE

    @property
    def deletable_when_unused(self) -> bool:
        return not self.members

    def commit_error(self, committer: Committer) -> ErrorCode:
        if committer.generation < 0 and not self.members:
            return ErrorCode.none
        if committer == _PRODUCER_WITHOUT_GROUP:
            return ErrorCode.none
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not (committer.transactional or committer.knows_epochs or member.speaks_classic):
            return ErrorCode.unsupported_version
        return _epoch_error(member, committer.generation)

    def may_still_commit(self, committer: Committer, topic_id: UUID | None, partition: int) -> bool:
        """A commit with an outdated epoch counts for partitions that the member has had since that epoch or
        longer: nobody else can have committed in between (KIP-1251)."""
        member = self.members.get(committer.member_id)
        if member is None or topic_id is None or committer.generation > member.current.member_epoch:
            return False
        since = _held_since(member.current.assigned, topic_id, partition)
        if since is None:
            since = _held_since(member.current.revoking, topic_id, partition)
        return since is not None and since <= committer.generation

    def sign_of_life(self, member_id: str, now_ms: int) -> tuple[Timer, ...]:  # noqa: ARG002
        # Only heartbeats extend sessions in the consumer protocol.
        return ()

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.none
        member = self.members.get(member_id or "")
        return ErrorCode.unknown_member_id if member is None else _epoch_error(member, member_epoch)

    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.none

    def delete_error(self) -> ErrorCode:
        return ErrorCode.non_empty_group if self.members else ErrorCode.none

    def subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def retention_starts(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> tuple[Record, ...]:
        """In Kafka's order: what refers to a member before the member, and the group last."""
        keys = [self.key(RecordType.CURRENT, member_id) for member_id in self.members]
        keys += [self.key(RecordType.TARGET_MEMBER, member_id) for member_id in self.target]
        keys.append(self.key(RecordType.TARGET))
        keys += [self.key(RecordType.MEMBER, member_id) for member_id in self.members]
        keys += [self.key(RecordType.EXPRESSION, expression) for expression in self.expressions]
        keys.append(self.key(RecordType.GROUP))
        return tuple(record(key, None) for key in keys)

    def key(self, kind: RecordType, name: str = "") -> RecordKey:
        return RecordKey(type=kind, group_id=self.group_id, name=name)


def _epoch_error(member: Member, epoch: int) -> ErrorCode:
    if epoch == member.current.member_epoch:
        return ErrorCode.none
    return ErrorCode.illegal_generation if member.speaks_classic else ErrorCode.stale_member_epoch


def _held_since(partitions: PartitionEpochs, topic_id: UUID, partition: int) -> int | None:
    return partitions.get(topic_id, {}).get(partition)
