"""Members of a consumer group that speak the classic protocol, during a migration.

Their JoinGroup is a full heartbeat, their SyncGroup fetches their assignment, and their Heartbeat tells them
to join again whenever they have a step to take. Their generation is their member epoch. Nobody leads: the
broker assigns. Besides the session timer they have a join timer (told to join again) and a sync timer.

Invariants: every request is answered at once; none waits for other members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import embedded
from headrace.coordination.classic.embedded import Subscription
from headrace.coordination.consumer.draft import (
    GroupDraft,
    join_timer,
    revocation_timer,
    session_timer,
    sync_timer,
)
from headrace.coordination.consumer.group import PROTOCOL_TYPE, ConsumerGroup, Member
from headrace.coordination.consumer.heartbeat import holder_of, reappear
from headrace.coordination.consumer.migration import can_downgrade, downgrade, with_ids, with_names
from headrace.coordination.consumer.requests import ConsumerSettings, Refusal
from headrace.coordination.consumer.updates import (
    assigned_partitions,
    put_metadata,
    take_step,
    update_epoch,
    update_target,
)
from headrace.coordination.consumer.values import ClassicProtocols, MemberState
from headrace.coordination.fields import CorruptRecordError
from headrace.coordination.group import NO_MEMBER
from headrace.coordination.replies import HeartbeatReply, JoinReply, SyncReply
from headrace.coordination.requests import HeartbeatRequest, JoinRequest, LeavingMember, SyncRequest
from headrace.coordination.topics import Topics


def join(
    draft: GroupDraft,
    request: JoinRequest,
    topics: Topics,
    settings: ConsumerSettings,
    *,
    unique: str,
    classic_max_size: int,
) -> JoinReply:
    """JoinGroup on a consumer group with members. `unique` becomes the id of a new member."""
    group = draft.group
    is_new = request.member_id == NO_MEMBER
    member_id = unique if is_new else request.member_id
    if len(group.members) >= settings.max_size and member_id not in group.members:
        return JoinReply(error=ErrorCode.group_max_size_reached)
    subscription = _subscription(request)
    if subscription is None or not _supported(group, request):
        return JoinReply(error=ErrorCode.inconsistent_group_protocol, member_id=request.member_id)
    if is_new and request.instance_id is None and request.member_id_required:
        return JoinReply(error=ErrorCode.member_id_required, member_id=member_id)
    former = None if request.instance_id is None else group.static_member(request.instance_id)
    member = _who_joins(draft, request, member_id, is_new=is_new)
    if isinstance(member, Refusal):
        return JoinReply(error=member.error, member_id=request.member_id)
    # The group becomes classic again only if a member replaces the last one of the new protocol.
    goes_back = (
        former is not None
        and not former.speaks_classic
        and can_downgrade(group, (former.member_id,), settings, classic_max_size, joining=1)
    )
    changed = _update(draft, member, request, subscription)
    reported = with_ids(subscription.owned, topics)
    if goes_back:
        if not changed:
            take_step(draft, member_id, topics, reported=reported, subscription_changed=False)
        after = draft.group
        # Members that have not reached the target yet would wait for it in vain.
        settled = all(one.has_come_to(after.epoch) for one in after.members.values())
        downgrade(draft, topics, leaving=(), rebalance=changed or not settled)
        return _joined(after.members[member_id])
    update_epoch(draft, topics, changed=changed)
    update_target(draft, topics, settings.assignors[0])
    stepped = take_step(draft, member_id, topics, reported=reported, subscription_changed=changed)
    draft.base.awaited_joins.discard(member_id)
    draft.cancel_timer(join_timer(group.group_id, member_id))
    if not member.speaks_classic:
        draft.cancel_timer(revocation_timer(group.group_id, member_id))
    draft.set_timer(session_timer(group.group_id, member_id), request.session_timeout_ms)
    draft.set_timer(sync_timer(group.group_id, member_id), request.rebalance_timeout_ms)
    return _joined(stepped)


def _subscription(request: JoinRequest) -> Subscription | None:
    """The subscription, which is the same in all protocols of a consumer."""
    if not request.protocols:
        return None
    try:
        return embedded.read_subscription(request.protocols[0].metadata)
    except CorruptRecordError:
        return None


def _supported(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether the classic members share a protocol with this one: they may become a classic group."""
    if request.protocol_type != PROTOCOL_TYPE:
        return False
    offered = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.metadata.classic is not None and member.member_id != request.member_id:
            offered &= {name for name, _ in member.metadata.classic.protocols}
    return bool(offered)


def _who_joins(draft: GroupDraft, request: JoinRequest, member_id: str, *, is_new: bool) -> Member | Refusal:
    group = draft.group
    if request.instance_id is None:
        return group.members.get(member_id) or Member(member_id=member_id)
    if not is_new:
        return holder_of(group, request.instance_id, member_id)
    former = group.static_member(request.instance_id)
    return Member(member_id=member_id) if former is None else reappear(draft, former, member_id)


def _update(draft: GroupDraft, member: Member, request: JoinRequest, subscription: Subscription) -> bool:
    metadata = member.metadata
    return put_metadata(
        draft,
        member,
        replace(
            metadata,
            instance_id=metadata.instance_id if request.instance_id is None else request.instance_id,
            rack_id=metadata.rack_id if subscription.rack_id is None else subscription.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topic_names=subscription.topics,
            topic_expression="",
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicProtocols(
                session_timeout_ms=request.session_timeout_ms,
                protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            ),
        ),
    )


def _joined(member: Member) -> JoinReply:
    return JoinReply(
        member_id=member.member_id,
        generation=member.current.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol=_protocol(member),
    )


def sync(draft: GroupDraft, request: SyncRequest, topics: Topics) -> SyncReply:
    """SyncGroup: the member's assignment, in the format of its subscription."""
    group = draft.group
    member = _classic_member(group, request.member_id, request.instance_id)
    if isinstance(member, ErrorCode):
        return SyncReply(error=member)
    if request.generation != member.current.member_epoch:
        return SyncReply(error=ErrorCode.illegal_generation)
    for theirs, ours in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol, _protocol(member))):
        if theirs is not None and theirs != ours:
            return SyncReply(error=ErrorCode.inconsistent_group_protocol)
    # A member that has to revoke has joined for this epoch. It learns what it keeps, then joins again.
    behind = group.epoch > member.current.member_epoch
    if behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(draft, member)
        return SyncReply(error=ErrorCode.rebalance_in_progress)
    classic = _protocols(member)
    draft.cancel_timer(sync_timer(group.group_id, member.member_id))
    draft.set_timer(session_timer(group.group_id, member.member_id), classic.session_timeout_ms)
    version = embedded.version_of(classic.protocols[0][1])
    partitions: Mapping[str, frozenset[int]] = with_names(assigned_partitions(member), topics)
    return SyncReply(
        protocol_type=request.protocol_type,
        protocol=request.protocol,
        assignment=embedded.assignment(partitions, version),
    )


def heartbeat(draft: GroupDraft, request: HeartbeatRequest) -> HeartbeatReply:
    """Heartbeat: extend the session. The reply says whether the member has a step to take."""
    group = draft.group
    member = _classic_member(group, request.member_id, request.instance_id)
    if isinstance(member, ErrorCode):
        return HeartbeatReply(error=member)
    current = member.current
    if request.generation != current.member_epoch:
        return HeartbeatReply(error=ErrorCode.illegal_generation)
    draft.set_timer(session_timer(group.group_id, member.member_id), _protocols(member).session_timeout_ms)
    can_go_on = current.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_another(member)
    must_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
    if current.member_epoch < group.epoch or must_revoke or can_go_on:
        _expect_join(draft, member)
        return HeartbeatReply(error=ErrorCode.rebalance_in_progress)
    return HeartbeatReply()


def leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> Member | ErrorCode:
    """The member that leaves. The instance id is enough for a static member."""
    if leaving.instance_id is not None and leaving.member_id == NO_MEMBER:
        holder = group.static_member(leaving.instance_id)
        if holder is None or not holder.speaks_classic:
            return ErrorCode.unknown_member_id
        return holder
    return _classic_member(group, leaving.member_id, leaving.instance_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | ErrorCode:
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        holder = holder_of(group, instance_id, member_id)
        if isinstance(holder, Refusal):
            return holder.error
        member = holder
    return ErrorCode.unknown_member_id if member is None or not member.speaks_classic else member


def _expect_join(draft: GroupDraft, member: Member) -> None:
    """Give the member one rebalance timeout to join again, from the first time that it is told."""
    if member.member_id not in draft.base.awaited_joins:
        draft.base.awaited_joins.add(member.member_id)
        draft.set_timer(
            join_timer(draft.base.group_id, member.member_id), member.metadata.rebalance_timeout_ms
        )


def _protocols(member: Member) -> ClassicProtocols:
    if member.metadata.classic is None:
        raise AssertionError(f"member {member.member_id} does not speak the classic protocol")
    return member.metadata.classic


def _protocol(member: Member) -> str:
    return _protocols(member).protocols[0][0]
