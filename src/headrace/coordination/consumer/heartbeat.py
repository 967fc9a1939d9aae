"""ConsumerGroupHeartbeat (KIP-848): joining, staying, changing the subscription, leaving.

A member that stays sends its epoch and what changed since its last heartbeat. The reply contains its epoch
and, if that changed or the heartbeat was full, its assignment. With epoch 0 a member joins, with -1 it
leaves, with -2 a static member announces that it will be back within its session (KIP-345).

A member with another epoch than the broker knows is fenced: it must give up everything and join again. The
previous epoch is accepted, since the reply may have been lost.

Refusals use the words of Apache Kafka, because tools show them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.assignors import Partitions
from headrace.coordination.consumer.draft import GroupDraft, join_timer, session_timer, sync_timer
from headrace.coordination.consumer.group import ConsumerGroup, Member
from headrace.coordination.consumer.records import RecordType
from headrace.coordination.consumer.requests import (
    NOT_GIVEN,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
    Refusal,
)
from headrace.coordination.consumer.updates import (
    assigned_partitions,
    put_metadata,
    take_step,
    update_epoch,
    update_target,
)
from headrace.coordination.consumer.values import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from headrace.coordination.expressions import InvalidExpressionError, compile_expression
from headrace.coordination.topics import Topics


def _joins(request: ConsumerHeartbeatRequest) -> bool:
    return request.member_epoch == JOINING_EPOCH


_MUST_NOT_BE: Final[tuple[tuple[str, Callable[[ConsumerHeartbeatRequest], bool]], ...]] = (
    (
        "MemberId can't be empty.",
        lambda request: not request.member_id and (request.member_id_required or not _joins(request)),
    ),
    ("GroupId can't be empty.", lambda request: not request.group_id),
    ("InstanceId can't be empty.", lambda request: request.instance_id == ""),
    ("RackId can't be empty.", lambda request: request.rack_id == ""),
    (
        "RebalanceTimeoutMs must be provided in first request.",
        lambda request: _joins(request) and request.rebalance_timeout_ms == NOT_GIVEN,
    ),
    (
        "TopicPartitions must be empty when (re-)joining.",
        lambda request: _joins(request) and (request.owned is None or bool(request.owned)),
    ),
    (
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        lambda request: _joins(request) and request.topic_names is None and request.topic_expression is None,
    ),
    (
        "InstanceId can't be null.",
        lambda request: request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None,
    ),
    ("MemberEpoch is invalid.", lambda request: request.member_epoch < STATIC_LEAVING_EPOCH),
)
"""What no request may be, in the order of the checks."""


def what_is_wrong_with(request: ConsumerHeartbeatRequest, settings: ConsumerSettings) -> Refusal | None:
    """Errors that do not depend on the group."""
    for message, applies in _MUST_NOT_BE:
        if applies(request):
            return Refusal(error=ErrorCode.invalid_request, message=message)
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        return Refusal(
            error=ErrorCode.unsupported_assignor,
            message=f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(settings.assignors)}.",
        )
    return None


def stay_or_join(
    draft: GroupDraft, request: ConsumerHeartbeatRequest, topics: Topics, settings: ConsumerSettings
) -> ConsumerHeartbeatReply | Refusal:
    """A heartbeat with epoch 0 or higher, from a member with an id."""
    if len(draft.group.members) >= settings.max_size and request.member_id not in draft.group.members:
        return Refusal(
            error=ErrorCode.group_max_size_reached,
            message=f"The consumer group has reached its maximum capacity of {settings.max_size} members.",
        )
    member = _who_asks(draft, request)
    if isinstance(member, Refusal):
        return member
    metadata = _updated(member.metadata, request)
    refusal = _expression_refusal(draft.group, member.metadata, metadata)
    if refusal is not None:
        return refusal
    if member.speaks_classic:
        draft.cancel_timer(join_timer(draft.group.group_id, request.member_id))
        draft.cancel_timer(sync_timer(draft.group.group_id, request.member_id))
        draft.base.awaited_joins.discard(request.member_id)
    changed = put_metadata(draft, member, metadata)
    update_epoch(draft, topics, changed=changed)
    update_target(draft, topics, settings.assignors[0])
    after = take_step(draft, request.member_id, topics, reported=request.owned, subscription_changed=changed)
    draft.set_timer(session_timer(draft.group.group_id, request.member_id), settings.session_timeout_ms)
    tell = request.member_epoch == JOINING_EPOCH or request.is_full or _has_other_partitions(member, after)
    return ConsumerHeartbeatReply(
        member_id=request.member_id,
        member_epoch=after.current.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=assigned_partitions(after) if tell else None,
    )


def _has_other_partitions(before: Member, after: Member) -> bool:
    if after.current is before.current:
        return False
    return assigned_partitions(before) != assigned_partitions(after)


def leaving_member(group: ConsumerGroup, request: ConsumerHeartbeatRequest) -> Member | Refusal:
    """The member that leaves, with epoch -1 or -2."""
    if request.instance_id is None:
        return group.members.get(request.member_id) or not_a_member(group, request.member_id)
    return holder_of(group, request.instance_id, request.member_id)


def leave_for_a_while(draft: GroupDraft, member: Member) -> None:
    """A static member that will be back keeps its place and its assignment until its session ends."""
    absent = replace(member.current, member_epoch=STATIC_LEAVING_EPOCH, revoking={})
    draft.write(RecordType.CURRENT, absent, member.member_id)


def not_a_member(group: ConsumerGroup, member_id: str) -> Refusal:
    return Refusal(
        error=ErrorCode.unknown_member_id,
        message=f"Member {member_id} is not a member of group {group.group_id}.",
    )


def holder_of(group: ConsumerGroup, instance_id: str, member_id: str) -> Member | Refusal:
    """The static member with this instance id, if it is the one that asks."""
    holder = group.static_member(instance_id)
    if holder is None:
        return Refusal(error=ErrorCode.unknown_member_id, message=f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        return Refusal(
            error=ErrorCode.fenced_instance_id,
            message=f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return holder


def reappear(draft: GroupDraft, former: Member, member_id: str) -> Member:
    """A static member replaces its former self, with a new id and from epoch 0."""
    current = replace(former.current, member_epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    member = replace(former, member_id=member_id, current=current)
    draft.replace(former, member)
    return member


def _who_asks(draft: GroupDraft, request: ConsumerHeartbeatRequest) -> Member | Refusal:
    group = draft.group
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is None:
        known = group.members.get(request.member_id)
        if known is None:
            return Member(member_id=request.member_id) if joins else not_a_member(group, request.member_id)
        return _epoch_refusal(known, request) or known
    if not joins:
        holder = holder_of(group, request.instance_id, request.member_id)
        return holder if isinstance(holder, Refusal) else _epoch_refusal(holder, request) or holder
    return _static_joiner(draft, request, request.instance_id)


def _static_joiner(
    draft: GroupDraft, request: ConsumerHeartbeatRequest, instance_id: str
) -> Member | Refusal:
    former = draft.group.static_member(instance_id)
    if former is None:
        return draft.group.members.get(request.member_id) or Member(member_id=request.member_id)
    if former.current.member_epoch != STATIC_LEAVING_EPOCH and not former.speaks_classic:
        if former.member_id == request.member_id:
            # The same process: it missed the reply to its join, or it was fenced and joins again.
            return former
        return Refusal(
            error=ErrorCode.unreleased_instance_id,
            message=f"Static member {request.member_id} with instance id {instance_id} cannot join "
            f"the group because the instance id is owned by {former.member_id} member.",
        )
    return reappear(draft, former, request.member_id)


def _epoch_refusal(member: Member, request: ConsumerHeartbeatRequest) -> Refusal | None:
    theirs, ours = request.member_epoch, member.current.member_epoch
    if theirs == JOINING_EPOCH:
        return None
    if member.current.state is MemberState.UNKNOWN and (request.owned is None or request.owned):
        return Refusal(
            error=ErrorCode.fenced_member_epoch,
            message="The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    if theirs == ours or (theirs < ours and _missed_a_reply(member.current, theirs, request.owned)):
        return None
    return Refusal(
        error=ErrorCode.fenced_member_epoch,
        message=f"The consumer group member has a {'greater' if theirs > ours else 'smaller'} member "
        f"epoch ({theirs}) than the one known by the group coordinator ({ours}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _missed_a_reply(current: CurrentAssignment, epoch: int, owned: Partitions | None) -> bool:
    """Whether the reply with the new epoch may have been lost: it owns nothing that is not assigned to it."""
    if epoch != current.previous_epoch or owned is None:
        return False
    return all(numbers <= current.assigned.get(topic_id, {}).keys() for topic_id, numbers in owned.items())


def _updated(metadata: MemberMetadata, request: ConsumerHeartbeatRequest) -> MemberMetadata:
    """The metadata with the changes in the request, whose sender speaks the consumer protocol."""
    return MemberMetadata(
        instance_id=metadata.instance_id if request.instance_id is None else request.instance_id,
        rack_id=metadata.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=metadata.topic_names if request.topic_names is None else request.topic_names,
        topic_expression=(
            metadata.topic_expression if request.topic_expression is None else request.topic_expression
        ),
        rebalance_timeout_ms=(
            metadata.rebalance_timeout_ms
            if request.rebalance_timeout_ms == NOT_GIVEN
            else request.rebalance_timeout_ms
        ),
        server_assignor=metadata.server_assignor
        if request.server_assignor is None
        else request.server_assignor,
        classic=None,
    )


def _expression_refusal(
    group: ConsumerGroup, before: MemberMetadata, after: MemberMetadata
) -> Refusal | None:
    expression = after.topic_expression
    if not expression or expression == before.topic_expression or expression in group.expressions:
        return None
    try:
        compile_expression(expression)
    except InvalidExpressionError as error:
        return Refusal(
            error=ErrorCode.invalid_regular_expression,
            message=f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        )
    return None
