"""Groups that change their kind while their members continue (KIP-848, online migration).

A classic group becomes a consumer group when the first member joins that speaks the consumer protocol. Its
members stay, keep speaking the classic protocol, and keep their partitions. The group becomes classic again
when its last member of the new protocol leaves and classic members remain. `group.consumer.migration.policy`
says which direction is allowed. A group without members may always change its kind.

Both directions write the tombstones of one kind and the group of the other in one batch, so a load finds one
of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import embedded
from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    chosen_protocol,
    stored_from,
)
from headrace.coordination.classic.members import Member as ClassicMember
from headrace.coordination.classic.states import State
from headrace.coordination.consumer.draft import GroupDraft, downgraded_timer, session_timer
from headrace.coordination.consumer.group import ConsumerGroup, Member
from headrace.coordination.consumer.records import RecordType
from headrace.coordination.consumer.requests import ConsumerSettings, Refusal
from headrace.coordination.consumer.updates import assigned_partitions, metadata_hash
from headrace.coordination.consumer.values import (
    AssignmentEpoch,
    ClassicProtocols,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    TargetAssignment,
)
from headrace.coordination.fields import CorruptRecordError
from headrace.coordination.requests import OfferedProtocol
from headrace.coordination.topics import Topics


def upgrade(
    draft: GroupDraft, classic: ClassicGroup, topics: Topics, settings: ConsumerSettings
) -> Refusal | None:
    """Move the members of the classic group into the draft's new group, and delete the classic group.

    The caller must answer those who wait in a rebalance of the classic group, once the decision is final.
    """
    if classic.state is State.EMPTY:
        draft.records.extend(classic.tombstones())
        return None
    problem = _what_forbids_upgrading(classic, settings)
    if problem is None:
        try:
            members = [_upgraded(classic, member, topics) for member in classic.members.values()]
        except CorruptRecordError:
            problem = "the embedded consumer protocol is malformed"
        except _CustomAssignorError:
            problem = (
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to "
                "a default assignor before re-attempting the upgrade"
            )
    if problem is not None:
        return Refusal(
            error=ErrorCode.group_id_not_found,
            message=f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}.",
        )
    draft.records.extend(classic.tombstones())
    _write_group(draft, classic.generation, members, topics)
    return None


def _what_forbids_upgrading(classic: ClassicGroup, settings: ConsumerSettings) -> str | None:
    if not settings.migration_policy.upgrades:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > settings.max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


class _CustomAssignorError(Exception):
    """An assignor sends its members user data, which the broker cannot compute."""


def _upgraded(classic: ClassicGroup, member: ClassicMember, topics: Topics) -> Member:
    protocol = classic.protocol or chosen_protocol(classic.members)
    subscription = embedded.read_subscription(member.metadata(protocol))
    settled = classic.settled.members.get(member.member_id, member)
    given = embedded.read_assignment(member.assignment or settled.assignment)
    if given.user_data:
        raise _CustomAssignorError
    generation = classic.generation
    assigned: dict[UUID, Mapping[int, int]] = {
        topic_id: dict.fromkeys(numbers, generation)
        for topic_id, numbers in with_ids(given.partitions, topics).items()
    }
    return Member(
        member_id=member.member_id,
        metadata=MemberMetadata(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProtocols(
                session_timeout_ms=member.session_timeout_ms,
                protocols=tuple((offered.name, offered.metadata) for offered in member.protocols),
            ),
        ),
        current=CurrentAssignment(member_epoch=generation, previous_epoch=generation, assigned=assigned),
    )


def _write_group(draft: GroupDraft, generation: int, members: Collection[Member], topics: Topics) -> None:
    """In Kafka's order: members, epoch, targets, assignment epoch, assignments."""
    for member in members:
        draft.write(RecordType.MEMBER, member.metadata, member.member_id)
        if member.metadata.classic is not None:
            timer = session_timer(draft.group.group_id, member.member_id)
            draft.set_timer(timer, member.metadata.classic.session_timeout_ms)
    found = metadata_hash(draft.group.subscribed_topics, topics)
    draft.write(RecordType.GROUP, GroupEpoch(epoch=generation, metadata_hash=found))
    for member in members:
        partitions = {topic_id: frozenset(numbers) for topic_id, numbers in member.current.assigned.items()}
        draft.write(RecordType.TARGET_MEMBER, TargetAssignment(partitions=partitions), member.member_id)
    draft.write(RecordType.TARGET, AssignmentEpoch(epoch=generation, timestamp_ms=draft.now_ms))
    for member in members:
        draft.write(RecordType.CURRENT, member.current, member.member_id)


def can_downgrade(
    group: ConsumerGroup,
    leaving: Collection[str],
    settings: ConsumerSettings,
    classic_max_size: int,
    *,
    joining: int = 0,
) -> bool:
    """Whether only classic members remain after these leave, and may continue as a classic group.

    `joining` are classic members that join at the same time.
    """
    left = [member for member_id, member in group.members.items() if member_id not in leaving]
    return (
        1 <= len(left) + joining <= classic_max_size
        and all(member.speaks_classic for member in left)
        and settings.migration_policy.downgrades
    )


def downgrade(draft: GroupDraft, topics: Topics, *, leaving: Collection[str], rebalance: bool) -> None:
    """Delete the group and write a classic one, with all members but those who leave.

    The classic group begins with the current assignments, not with the target as in Kafka: other members may
    still hold parts of that. With `rebalance` it rebalances at once.
    """
    group = draft.group
    members = {
        member_id: _downgraded(member)
        for member_id, member in group.members.items()
        if member_id not in leaving
    }
    protocol = chosen_protocol(members)
    assignments = {}
    for member_id, member in members.items():
        version = embedded.version_of(member.metadata(protocol))
        partitions = with_names(assigned_partitions(group.members[member_id]), topics)
        assignments[member_id] = embedded.assignment(partitions, version)
    stored = stored_from(
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=protocol,
        leader=next(iter(members)),
        members=members,
        assignments=assignments,
        now_ms=draft.now_ms,
    )
    draft.records.extend(group.tombstones())
    draft.records.append(group_records.group_record(group.group_id, stored))
    for member_id in group.members:
        draft.cancel_timers(member_id)
    draft.set_timer(downgraded_timer(group.group_id, rebalance=rebalance), 0)


def _downgraded(member: Member) -> ClassicMember:
    metadata = member.metadata
    if metadata.classic is None:
        raise AssertionError(f"member {member.member_id} does not speak the classic protocol")
    return ClassicMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocols=tuple(
            OfferedProtocol(name=name, metadata=offered) for name, offered in metadata.classic.protocols
        ),
    )


def with_ids(partitions: Mapping[str, frozenset[int]], topics: Topics) -> dict[UUID, frozenset[int]]:
    """The partitions by topic id instead of name, without topics that do not exist."""
    found = ((topics.by_name(name), numbers) for name, numbers in partitions.items())
    return {topic.topic_id: numbers for topic, numbers in found if topic is not None}


def with_names(partitions: Mapping[UUID, frozenset[int]], topics: Topics) -> dict[str, frozenset[int]]:
    """The partitions by name instead of topic id, without topics that do not exist."""
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    return {topic.name: numbers for topic, numbers in found if topic is not None}
