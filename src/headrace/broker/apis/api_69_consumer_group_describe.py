"""ConsumerGroupDescribe (key 69), versions 0 to 1: groups of the consumer protocol (KIP-848), with what their
members have and what they are to have.

Behaviour: classic groups are not found here. Topics that are no more are left out of assignments.

Version notes: 1 says which protocol each member speaks (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.asking_groups import asked, serves_consumer_protocol, when_all_done
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_GROUP
from headrace.broker.broker import Broker
from headrace.coordination.consumer.requests import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def handle(broker: Broker, request: Any, context: Context) -> Any:
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED_FOR
    described = [_described(broker, group_id) for group_id in request.group_ids]
    return when_all_done(
        described,
        lambda groups: context.reply(groups=tuple(_group(each, context, operations) for each in groups)),
    )


def _described(broker: Broker, group_id: str) -> Any:
    if not serves_consumer_protocol(broker):
        return DescribedConsumerGroup(group_id=group_id, error=ErrorCode.unsupported_version)
    return asked(
        lambda: broker.groups.describe_consumer(group_id),
        lambda error: DescribedConsumerGroup(group_id=group_id, error=error),
    )


def _group(group: DescribedConsumerGroup, context: Context, operations: int) -> Any:
    return context.make(
        "DescribedGroup",
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(member, context) for member in group.members),
        authorized_operations=operations if group.error is ErrorCode.none else NOT_ASKED_FOR,
    )


def _member(member: DescribedConsumer, context: Context) -> Any:
    return context.make(
        "Member",
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_expression,
        assignment=_assignment(member.assignment, context),
        target_assignment=_assignment(member.target_assignment, context),
        member_type=CLASSIC_MEMBER if member.speaks_classic else CONSUMER_MEMBER,
    )


def _assignment(topics: Iterable[DescribedPartitions], context: Context) -> Any:
    return context.make(
        "Assignment",
        topic_partitions=tuple(
            context.make(
                "TopicPartitions", topic_id=each.topic_id, topic_name=each.topic, partitions=each.partitions
            )
            for each in topics
        ),
    )


API = Api(key=69, name="ConsumerGroupDescribe", versions=(0, 1), handle=handle)
