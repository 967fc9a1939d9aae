"""ConsumerGroupHeartbeat (key 68), versions 0 to 1: members of the consumer protocol join, stay and leave.

Behaviour: covers the whole life of a member (KIP-848): epoch 0 joins, -1 leaves, -2 is a static member that
will come back. The broker assigns partitions, and a member must give one up before another member gets it.
Regular expressions are those of RE2.

Version notes: in 0 the broker creates the member id, from 1 on the client does (KIP-1082); 1 can subscribe
with a regular expression.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from kio.schema.consumer_group_heartbeat.v1 import request as requests
from kio.schema.consumer_group_heartbeat.v1 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, client_host, duration, milliseconds, serves_consumer_protocol
from headrace.broker.broker import Broker
from headrace.coordination.consumer.assignors import Partitions
from headrace.coordination.consumer.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from headrace.wire.messages import NO_THROTTLE

MEMBER_ID_REQUIRED_FROM: Final = 1
NO_TOPIC: Final = uuid.UUID(int=0)


def handle(
    broker: Broker, request: requests.ConsumerGroupHeartbeatRequest, context: Context
) -> Later[responses.ConsumerGroupHeartbeatResponse]:
    if not serves_consumer_protocol(broker):
        return _message(ConsumerHeartbeatReply(error=ErrorCode.unsupported_version))
    heartbeat = _heartbeat(request, context)
    reply = asked(
        lambda: broker.groups.consumer_heartbeat(heartbeat),
        lambda error: ConsumerHeartbeatReply(error=error),
    )
    return when_done(reply, _message)


def _heartbeat(request: requests.ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerHeartbeatRequest:
    names = request.subscribed_topic_names
    return ConsumerHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else frozenset(names),
        topic_expression=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=client_host(context),
        member_id_required=context.version >= MEMBER_ID_REQUIRED_FROM,
    )


def _owned(topics: Iterable[requests.TopicPartitions]) -> Partitions:
    return {each.topic_id or NO_TOPIC: frozenset(each.partitions) for each in topics}


def _message(reply: ConsumerHeartbeatReply) -> responses.ConsumerGroupHeartbeatResponse:
    return responses.ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=duration(reply.heartbeat_interval_ms),
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _assignment(partitions: Partitions) -> responses.Assignment:
    return responses.Assignment(
        topic_partitions=tuple(
            responses.TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in partitions.items()
        ),
    )


HANDLER = Typed(requests.ConsumerGroupHeartbeatRequest, responses.ConsumerGroupHeartbeatResponse, handle)
