"""ConsumerGroupDescribe (key 69), versions 0 to 1: groups of the consumer protocol (KIP-848).

Behaviour: returns the current and the target assignment of each member. Classic groups are not found here.
Deleted topics are left out of assignments.

Version notes: 1 says which protocol each member speaks (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.consumer_group_describe.v1 import request as requests
from kio.schema.consumer_group_describe.v1 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer, Later, when_all_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, serves_consumer_protocol
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_GROUP
from headrace.broker.broker import Broker
from headrace.coordination.consumer.requests import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedPartitions,
)
from headrace.wire.messages import NO_THROTTLE

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def handle(
    broker: Broker, request: requests.ConsumerGroupDescribeRequest, _context: Context
) -> Later[responses.ConsumerGroupDescribeResponse]:
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED_FOR
    described = [_described(broker, group_id) for group_id in request.group_ids]
    return when_all_done(
        described,
        lambda groups: responses.ConsumerGroupDescribeResponse(
            throttle_time=NO_THROTTLE, groups=tuple(_group(each, operations) for each in groups)
        ),
    )


def _described(broker: Broker, group_id: str) -> Answer[DescribedConsumerGroup]:
    if not serves_consumer_protocol(broker):
        return DescribedConsumerGroup(group_id=group_id, error=ErrorCode.unsupported_version)
    return asked(
        lambda: broker.groups.describe_consumer(group_id),
        lambda error: DescribedConsumerGroup(group_id=group_id, error=error),
    )


def _group(group: DescribedConsumerGroup, operations: int) -> responses.DescribedGroup:
    return responses.DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(member) for member in group.members),
        authorized_operations=operations if group.error is ErrorCode.none else NOT_ASKED_FOR,
    )


def _member(member: DescribedConsumer) -> responses.Member:
    return responses.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_expression,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=CLASSIC_MEMBER if member.speaks_classic else CONSUMER_MEMBER,
    )


def _assignment(topics: Iterable[DescribedPartitions]) -> responses.Assignment:
    return responses.Assignment(
        topic_partitions=tuple(
            responses.TopicPartitions(
                topic_id=each.topic_id, topic_name=each.topic, partitions=each.partitions
            )
            for each in topics
        ),
    )


HANDLER = Typed(requests.ConsumerGroupDescribeRequest, responses.ConsumerGroupDescribeResponse, handle)
