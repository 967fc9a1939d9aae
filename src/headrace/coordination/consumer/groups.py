"""The state machine of consumer groups (KIP-848): heartbeats, timers, records, classic members.

Records of types 3 to 8 and 16 are durable (`records.py`). Timers: `("consumer", "session" | "revocation" |
"join" | "sync", group id, member id)`, and `("consumer", "downgraded", group id, 0 or 1)`, due at once.

This machine gets ConsumerGroupHeartbeat and ConsumerGroupDescribe for all groups, and JoinGroup, SyncGroup,
Heartbeat and LeaveGroup for groups of kind CONSUMER; `ClassicGroups` gets the others. When a group changes
its kind, one decision contains records of both kinds, which are replayed in order, each by the machine of its
type.

Invariants: `groups`, shared with the other machines, has one group for each id. Every request is answered at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings, dissolve
from headrace.coordination.consumer import classic_members
from headrace.coordination.consumer.draft import GroupDraft, revocation_timer, session_timer
from headrace.coordination.consumer.group import ConsumerGroup
from headrace.coordination.consumer.heartbeat import (
    leave_for_a_while,
    leaving_member,
    stay_or_join,
    what_is_wrong_with,
)
from headrace.coordination.consumer.migration import can_downgrade, downgrade, upgrade
from headrace.coordination.consumer.records import RecordType, read_key, read_value
from headrace.coordination.consumer.requests import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
    MigrationPolicy,
    Refusal,
)
from headrace.coordination.consumer.updates import assigned_partitions, metadata_hash
from headrace.coordination.consumer.values import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    GroupEpoch,
    MemberState,
)
from headrace.coordination.decision import Decision, Draft, Reply, SomeReply, TimerKey, WaitingId
from headrace.coordination.group import Groups
from headrace.coordination.replies import (
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeftMember,
    NoReply,
    SyncReply,
)
from headrace.coordination.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from headrace.coordination.topics import Topics

SettingsOf = Callable[[str], ConsumerSettings]
"""The settings of a group, which may differ (KIP-848: `consumer.session.timeout.ms` and others)."""


def _defaults(_group_id: str) -> ConsumerSettings:
    return ConsumerSettings()


class ConsumerGroups:
    """Decides about the consumer groups in `groups`, a dictionary that it shares with the other machines."""

    __slots__ = ("_classic", "_classic_settings", "_groups", "_settings", "_topics")

    def __init__(
        self,
        groups: Groups,
        topics: Topics,
        classic: ClassicGroups,
        *,
        settings: SettingsOf = _defaults,
        classic_settings: ClassicSettings | None = None,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._classic = classic
        self._settings = settings
        self._classic_settings = classic_settings or ClassicSettings()

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group with this id, if there is one."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _consumer(self) -> Iterator[ConsumerGroup]:
        for group in list(self._groups.values()):
            if isinstance(group, ConsumerGroup):
                yield group

    # Requests of the consumer protocol.

    def decide_consumer_heartbeat(
        self, request: ConsumerHeartbeatRequest, *, unique: str, now_ms: int
    ) -> Decision[ConsumerHeartbeatReply]:
        """ConsumerGroupHeartbeat. `unique`, a random UUID as text, becomes the id of a member without one."""
        settings = self._settings(request.group_id)
        refusal = what_is_wrong_with(request, settings)
        if refusal is not None:
            return _refused(refusal)
        if request.member_epoch < JOINING_EPOCH:
            return self._decide_leaving(request, now_ms)
        if not request.member_id:
            request = replace(request, member_id=unique)
        existing = self._groups.get(request.group_id)
        if not isinstance(existing, ConsumerGroup) and request.member_epoch != JOINING_EPOCH:
            return _refused(_no_group(request.group_id, existing))
        known = existing if isinstance(existing, ConsumerGroup) else ConsumerGroup(request.group_id)
        draft = GroupDraft(known, now_ms)
        if isinstance(existing, ClassicGroup):
            refusal = upgrade(draft, existing, self._topics, settings)
            if refusal is not None:
                return _refused(refusal)
        outcome = stay_or_join(draft, request, self._topics, settings)
        if isinstance(outcome, Refusal):
            return _refused(outcome)
        if isinstance(existing, ClassicGroup):
            # Members that wait in a rebalance of the classic group join again, and find the new group.
            dissolve(existing, ErrorCode.rebalance_in_progress, draft)
        return draft.decision(outcome)

    def _decide_leaving(
        self, request: ConsumerHeartbeatRequest, now_ms: int
    ) -> Decision[ConsumerHeartbeatReply]:
        group = self.group(request.group_id)
        if group is None:
            return _refused(_no_group(request.group_id, self._groups.get(request.group_id), "Group"))
        member = leaving_member(group, request)
        if isinstance(member, Refusal):
            return _refused(member)
        draft = GroupDraft(group, now_ms)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leave_for_a_while(draft, member)
        else:
            self._take_out(draft, (member.member_id,))
        return draft.decision(
            ConsumerHeartbeatReply(member_id=member.member_id, member_epoch=request.member_epoch)
        )

    def _take_out(self, draft: GroupDraft, member_ids: Collection[str]) -> None:
        """Remove members. If only classic members are left, the group becomes classic again."""
        group_id = draft.base.group_id
        most = self._classic_settings.max_size
        if can_downgrade(draft.group, member_ids, self._settings(group_id), most):
            downgrade(draft, self._topics, leaving=member_ids, rebalance=True)
            return
        for member_id in member_ids:
            draft.remove(member_id)
        found = metadata_hash(draft.group.subscribed_topics, self._topics)
        draft.write(RecordType.GROUP, GroupEpoch(epoch=draft.group.epoch + 1, metadata_hash=found))

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe of one group."""
        group = self.group(group_id)
        if group is None:
            known = group_id in self._groups
            return DescribedConsumerGroup(
                group_id=group_id,
                error=ErrorCode.group_id_not_found,
                error_message=f"Group {group_id} {'is not a consumer group' if known else 'not found'}.",
            )
        return DescribedConsumerGroup(
            group_id=group_id,
            state=group.state_name,
            epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.preferred_assignor(self._settings(group_id).assignors[0]),
            members=tuple(
                DescribedConsumer(
                    member_id=member.member_id,
                    instance_id=member.metadata.instance_id,
                    rack_id=member.metadata.rack_id,
                    member_epoch=member.current.member_epoch,
                    client_id=member.metadata.client_id,
                    client_host=member.metadata.client_host,
                    topic_names=tuple(sorted(member.metadata.topic_names)),
                    topic_expression=member.metadata.topic_expression,
                    assignment=self._described(assigned_partitions(member)),
                    target_assignment=self._described(group.target_of(member.member_id).partitions),
                    speaks_classic=member.speaks_classic,
                )
                for member in group.members.values()
            ),
        )

    def _described(self, partitions: Mapping[UUID, frozenset[int]]) -> tuple[DescribedPartitions, ...]:
        found = ((self._topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
        return tuple(
            DescribedPartitions(topic_id=topic.topic_id, topic=topic.name, partitions=tuple(sorted(numbers)))
            for topic, numbers in found
            if topic is not None
        )

    # Requests of the classic protocol about a consumer group.

    def decide_join(
        self, request: JoinRequest, *, waiting_id: WaitingId, unique: str, now_ms: int
    ) -> Decision[JoinReply]:
        """JoinGroup on a consumer group. If it has no members, a classic group replaces it."""
        limits = self._classic_settings
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return Decision(
                reply=JoinReply(error=ErrorCode.invalid_session_timeout, member_id=request.member_id)
            )
        group = self.group(request.group_id)
        if group is None or not group.members:
            return self._join_classic_instead(group, request, waiting_id, unique, now_ms)
        settings = self._settings(request.group_id)
        if settings.migration_policy is MigrationPolicy.DISABLED:
            return Decision(
                reply=JoinReply(error=ErrorCode.inconsistent_group_protocol, member_id=request.member_id)
            )
        draft = GroupDraft(group, now_ms)
        reply = classic_members.join(
            draft, request, self._topics, settings, unique=unique, classic_max_size=limits.max_size
        )
        return Decision(reply=reply) if reply.error is not ErrorCode.none else draft.decision(reply)

    def _join_classic_instead(
        self,
        group: ConsumerGroup | None,
        request: JoinRequest,
        waiting_id: WaitingId,
        unique: str,
        now_ms: int,
    ) -> Decision[JoinReply]:
        if group is not None:
            del self._groups[request.group_id]
        decision = self._classic.decide_join(request, waiting_id=waiting_id, unique=unique, now_ms=now_ms)
        if group is None:
            return decision
        if request.group_id in self._groups:
            return replace(decision, records=group.tombstones() + decision.records)
        self._groups[request.group_id] = group
        return decision

    def decide_sync(self, request: SyncRequest, *, now_ms: int) -> Decision[SyncReply]:
        """SyncGroup of a classic member."""
        group = self.group(request.group_id)
        if group is None:
            return Decision(reply=SyncReply(error=ErrorCode.unknown_member_id))
        draft = GroupDraft(group, now_ms)
        return draft.decision(classic_members.sync(draft, request, self._topics))

    def decide_heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> Decision[HeartbeatReply]:
        """Heartbeat of a classic member."""
        group = self.group(request.group_id)
        if group is None:
            return Decision(reply=HeartbeatReply(error=ErrorCode.unknown_member_id))
        draft = GroupDraft(group, now_ms)
        return draft.decision(classic_members.heartbeat(draft, request))

    def decide_leave(self, request: LeaveRequest, *, now_ms: int) -> Decision[LeaveReply]:
        """LeaveGroup of classic members, with one new epoch for all."""
        group = self.group(request.group_id)
        left: list[LeftMember] = []
        going: list[str] = []
        for leaving in request.members:
            member = (
                ErrorCode.unknown_member_id
                if group is None
                else classic_members.leaving_member(group, leaving)
            )
            error, member_id = ErrorCode.none, leaving.member_id
            if isinstance(member, ErrorCode):
                error = member
            elif member.member_id in going:
                error = ErrorCode.unknown_member_id
            else:
                member_id = member.member_id
                going.append(member_id)
            left.append(LeftMember(member_id=member_id, instance_id=leaving.instance_id, error=error))
        reply = LeaveReply(members=tuple(left))
        if group is None or not going:
            return Decision(reply=reply)
        draft = GroupDraft(group, now_ms)
        self._take_out(draft, going)
        return draft.decision(reply)

    # Timers.

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[NoReply]:
        """A timer of this machine is due."""
        kind, group_id = key[1], str(key[2])
        if kind == "downgraded":
            return self._classic.resume(group_id, now_ms, rebalance=bool(key[3]))
        group = self.group(group_id)
        member = None if group is None else group.members.get(str(key[3]))
        if group is None or member is None:
            return Decision()
        current = member.current
        if kind == "revocation" and (
            current.state is not MemberState.UNREVOKED_PARTITIONS or current.member_epoch < 0
        ):
            return Decision()
        draft = GroupDraft(group, now_ms)
        self._take_out(draft, (member.member_id,))
        return draft.decision()

    # Records.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of types 3 to 8 or 16, live or at load."""
        found = read_key(key)
        group = self.group(found.group_id)
        if value is None:
            if group is None:
                return
            if found.type is RecordType.GROUP:
                del self._groups[found.group_id]
            else:
                group.replay(found, None)
            return
        content = read_value(found, value)
        if content is None:
            return
        if group is None:
            group = self._groups[found.group_id] = ConsumerGroup(found.group_id)
        group.replay(found, content)

    def loaded(self, now_ms: int) -> Decision[NoReply]:
        """All records of the partition have been replayed: begin the session of every member."""
        draft = Draft(now_ms)
        for group in self._consumer():
            self._resume(group, draft)
        return draft.decision()

    def _resume(self, group: ConsumerGroup, draft: Draft) -> None:
        group.awaited_joins.clear()
        session_timeout_ms = self._settings(group.group_id).session_timeout_ms
        for member in group.members.values():
            classic = member.metadata.classic
            draft.set_timer(
                session_timer(group.group_id, member.member_id),
                session_timeout_ms if classic is None else classic.session_timeout_ms,
            )
            revokes = member.current.state is MemberState.UNREVOKED_PARTITIONS
            if revokes and classic is None and member.current.member_epoch > 0:
                draft.set_timer(
                    revocation_timer(group.group_id, member.member_id), member.metadata.rebalance_timeout_ms
                )

    def write_failed(
        self, group_id: str, decision: Decision[SomeReply], error: ErrorCode, now_ms: int
    ) -> Decision[Reply]:
        """What happens instead of a decision whose records could not be written.

        Its reply fails. All timers of the group are set as after a load, since one may have led to it.
        """
        if isinstance(self._groups.get(group_id), ClassicGroup):
            return self._classic.write_failed(group_id, decision, error, now_ms)
        draft = Draft(now_ms)
        reply = draft.take_back(decision, error)
        group = self.group(group_id)
        if group is not None:
            self._resume(group, draft)
        return draft.decision(reply)


def _refused(refusal: Refusal) -> Decision[ConsumerHeartbeatReply]:
    return Decision(reply=ConsumerHeartbeatReply(error=refusal.error, error_message=refusal.message))


def _no_group(group_id: str, existing: object | None, what: str = "Consumer group") -> Refusal:
    if existing is None:
        message = f"{what} {group_id} not found."
    else:
        message = f"Group {group_id} is not a consumer group."
    return Refusal(error=ErrorCode.group_id_not_found, message=message)
