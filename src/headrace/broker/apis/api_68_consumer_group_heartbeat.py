"""ConsumerGroupHeartbeat (key 68), versions 0 to 1: members of the newer protocol join, stay and leave.

Behaviour: this is the whole of a member's life (KIP-848): epoch 0 joins, -1 leaves, -2 is a static member
that will be back. The broker assigns, and tells a member what to give up before it gives that to another.
Expressions are those of RE2.

Version notes: until 0 the broker makes the member's id, from 1 on the client does (KIP-1082), and 1 can
subscribe with an expression.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context, when_done
from headrace.broker.asking_groups import (
    asked,
    client_host,
    duration,
    milliseconds,
    serves_consumer_protocol,
)
from headrace.broker.broker import Broker
from headrace.coordination.consumer.assignors import Partitions
from headrace.coordination.consumer.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest

MEMBER_ID_REQUIRED_FROM: Final = 1
NO_TOPIC: Final = uuid.UUID(int=0)


def handle(broker: Broker, request: Any, context: Context) -> Any:
    if not serves_consumer_protocol(broker):
        return _message(ConsumerHeartbeatReply(error=ErrorCode.unsupported_version), context)
    heartbeat = _heartbeat(request, context)
    reply = asked(
        lambda: broker.groups.consumer_heartbeat(heartbeat),
        lambda error: ConsumerHeartbeatReply(error=error),
    )
    return when_done(reply, lambda reply: _message(reply, context))


def _heartbeat(request: Any, context: Context) -> ConsumerHeartbeatRequest:
    names = request.subscribed_topic_names
    return ConsumerHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else frozenset(names),
        topic_expression=getattr(request, "subscribed_topic_regex", None),
        server_assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _owned(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=client_host(context),
        member_id_required=context.version >= MEMBER_ID_REQUIRED_FROM,
    )


def _owned(topics: Iterable[Any]) -> Partitions:
    return {each.topic_id or NO_TOPIC: frozenset(each.partitions) for each in topics}


def _message(reply: ConsumerHeartbeatReply, context: Context) -> Any:
    return context.reply(
        error_code=reply.error,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=duration(reply.heartbeat_interval_ms),
        assignment=None if reply.assignment is None else _assignment(reply.assignment, context),
    )


def _assignment(partitions: Partitions, context: Context) -> Any:
    return context.make(
        "Assignment",
        topic_partitions=tuple(
            context.make("TopicPartitions", topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in partitions.items()
        ),
    )


API = Api(key=68, name="ConsumerGroupHeartbeat", versions=(0, 1), handle=handle)
