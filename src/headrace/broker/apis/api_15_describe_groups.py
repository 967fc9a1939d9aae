"""DescribeGroups (key 15), versions 0 to 6: classic groups with their members and assignments.

Behaviour: subscriptions are shown while the group is stable. Groups of the consumer protocol are not found
here; ConsumerGroupDescribe returns them.

Version notes: 3 can ask for authorized operations (KIP-430), 4 has instance ids (KIP-345), 5 is flexible.
Until 5 a missing group has the state Dead, from 6 on it is an error with a message (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_groups.v6 import request as requests
from kio.schema.describe_groups.v6 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer, Later, when_all_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_GROUP
from headrace.broker.broker import Broker
from headrace.coordination.replies import DescribedGroup
from headrace.wire.messages import NO_THROTTLE

NOT_FOUND_FROM: Final = 6


def handle(
    broker: Broker, request: requests.DescribeGroupsRequest, context: Context
) -> Later[responses.DescribeGroupsResponse]:
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED_FOR
    described = [_described(broker, group_id) for group_id in request.groups]
    return when_all_done(
        described,
        lambda groups: responses.DescribeGroupsResponse(
            throttle_time=NO_THROTTLE, groups=tuple(_group(each, context, operations) for each in groups)
        ),
    )


def _described(broker: Broker, group_id: str) -> Answer[DescribedGroup]:
    return asked(
        lambda: broker.groups.describe(group_id),
        lambda error: DescribedGroup(group_id=group_id, error=error, state=""),
    )


def _group(group: DescribedGroup, context: Context, operations: int) -> responses.DescribedGroup:
    error, message = group.error, group.error_message
    if error is ErrorCode.group_id_not_found and context.version < NOT_FOUND_FROM:
        error, message = ErrorCode.none, None
    return responses.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(
            responses.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations if error is ErrorCode.none else NOT_ASKED_FOR,
    )


HANDLER = Typed(requests.DescribeGroupsRequest, responses.DescribeGroupsResponse, handle)
