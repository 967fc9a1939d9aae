"""The steps of a decision about a consumer group: subscription, epoch, target, assignment.

Each works on a draft; their order is that of this file. Topics are checked again only if a subscription
changed, or if topics changed since the last check that found nothing to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from headrace.coordination.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Partitions, Subscriber
from headrace.coordination.consumer.draft import GroupDraft, revocation_timer
from headrace.coordination.consumer.group import ConsumerGroup, Member
from headrace.coordination.consumer.reconciliation import Surroundings, reconcile
from headrace.coordination.consumer.records import RecordType
from headrace.coordination.consumer.values import (
    AssignmentEpoch,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
    TargetAssignment,
)
from headrace.coordination.expressions import InvalidExpressionError, compile_expression
from headrace.coordination.topics import Topics

_HASH_BYTES: Final = 8


def put_metadata(draft: GroupDraft, member: Member, metadata: MemberMetadata) -> bool:
    """Write the metadata of a member if it changed. Returns whether the subscription did."""
    if member.member_id not in draft.group.members or metadata != member.metadata:
        draft.write(RecordType.MEMBER, metadata, member.member_id)
    if metadata.topic_expression != member.metadata.topic_expression:
        draft.drop_unused(member.metadata.topic_expression)
        return True
    return metadata.topic_names != member.metadata.topic_names


def update_epoch(draft: GroupDraft, topics: Topics, *, changed: bool) -> None:
    """Write a new group epoch if subscriptions or subscribed topics changed."""
    unseen = draft.base.checked_version != topics.version
    bump = changed
    if _resolve_expressions(draft, topics, again=unseen):
        bump = True
    if bump or unseen:
        found = metadata_hash(draft.group.subscribed_topics, topics)
        if bump or found != draft.group.metadata_hash:
            draft.write(RecordType.GROUP, GroupEpoch(epoch=draft.group.epoch + 1, metadata_hash=found))
            return
    # Only a check without a result counts: writing a result may fail.
    draft.base.checked_version = topics.version


def _resolve_expressions(draft: GroupDraft, topics: Topics, *, again: bool) -> bool:
    """Find the topics that match the members' expressions. Returns whether any of them changed."""
    if again or draft.group is not draft.base:
        used = {member.metadata.topic_expression for member in draft.group.members.values()} - {""}
        wanted = sorted(used if again else used - draft.group.expressions.keys())
    else:
        wanted = []
    changed = False
    for expression in wanted:
        known = draft.group.expressions.get(expression)
        found = _matching(expression, topics)
        before = frozenset[str]() if known is None else known.topics
        if known is None or found != before:
            resolved = ResolvedExpression(topics=found, version=topics.version, timestamp_ms=draft.now_ms)
            draft.write(RecordType.EXPRESSION, resolved, expression)
        changed = changed or found != before
    return changed


def _matching(expression: str, topics: Topics) -> frozenset[str]:
    try:
        pattern = compile_expression(expression)
    except InvalidExpressionError:
        # Expressions are checked when members send them: another version, which accepted it, wrote this one.
        return frozenset()
    return frozenset(name for name in topics.names() if pattern.matches(name))


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A hash of what an assignment depends on: ids and partition counts of the existing topics."""
    found = [topic for topic in map(topics.by_name, sorted(names)) if topic is not None]
    if not found:
        return 0
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for topic in found:
        count = topic.partitions.to_bytes(4, "big")
        digest.update(topic.topic_id.bytes + count + topic.name.encode() + b"\0")
    return int.from_bytes(digest.digest(), "big", signed=True)


def update_target(draft: GroupDraft, topics: Topics, default_assignor: str) -> None:
    """Compute a new target if the group epoch is ahead of it. Only changes are written."""
    group = draft.group
    if group.epoch <= group.assignment_epoch:
        return
    counts: dict[UUID, int] = {}
    ids: dict[frozenset[str], frozenset[UUID]] = {}
    subscribers: dict[str, Subscriber] = {}
    for member_id, member in group.members.items():
        names = group.topic_names_of(member)
        if names not in ids:
            found = [topic for topic in map(topics.by_name, names) if topic is not None]
            counts.update((topic.topic_id, topic.partitions) for topic in found)
            ids[names] = frozenset(topic.topic_id for topic in found)
        subscribers[member_id] = Subscriber(
            topics=ids[names],
            current=group.target_of(member_id).partitions,
            instance_id=member.metadata.instance_id,
        )
    assign = ASSIGNORS.get(group.preferred_assignor(default_assignor), ASSIGNORS[DEFAULT_ASSIGNOR])
    for member_id, partitions in assign(subscribers, counts).items():
        target = TargetAssignment(partitions=partitions)
        if target != group.target.get(member_id):
            draft.write(RecordType.TARGET_MEMBER, target, member_id)
    draft.write(RecordType.TARGET, AssignmentEpoch(epoch=group.epoch, timestamp_ms=draft.now_ms))


def take_step(
    draft: GroupDraft,
    member_id: str,
    topics: Topics,
    *,
    reported: Partitions | None,
    subscription_changed: bool,
) -> Member:
    """Write the member's next step towards the target, if there is one. Returns the member after it."""
    group = draft.group
    member = group.members[member_id]
    if member.has_come_to(group.assignment_epoch) and not subscription_changed:
        return member
    around = Surroundings(
        target=group.target_of(member_id).partitions,
        target_epoch=group.assignment_epoch,
        subscribed=subscribed_ids(group, member, topics),
        subscription_changed=subscription_changed,
        reported=reported,
        held_by_another=lambda topic_id, number: (
            group.holders.get((topic_id, number), member_id) != member_id
        ),
    )
    current = reconcile(member.current, around)
    if current == member.current:
        return member
    draft.write(RecordType.CURRENT, current, member_id)
    # Members of the classic protocol have join and sync timers instead.
    if not member.speaks_classic:
        timer = revocation_timer(group.group_id, member_id)
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            draft.set_timer(timer, member.metadata.rebalance_timeout_ms)
        else:
            draft.cancel_timer(timer)
    return draft.group.members[member_id]


def subscribed_ids(group: ConsumerGroup, member: Member, topics: Topics) -> frozenset[UUID]:
    """The topics that a member subscribes to and that exist."""
    found = map(topics.by_name, group.topic_names_of(member))
    return frozenset(topic.topic_id for topic in found if topic is not None)


def assigned_partitions(member: Member) -> Partitions:
    """The partitions of a member, without epochs."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in member.current.assigned.items()}
