"""SyncGroup (key 14), versions 0 to 5: the leader sends the assignments, and every member gets its own.

Behaviour: the reply is held until the group leader has synced.

Version notes: 3 has instance ids (KIP-345), 4 is flexible. From 5 on a member must name its protocol type and
protocol (KIP-559); without them it is refused.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5 import request as requests
from kio.schema.sync_group.v5 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import SyncReply
from headrace.coordination.requests import SyncRequest
from headrace.wire.messages import NO_THROTTLE

PROTOCOL_REQUIRED_FROM: Final = 5


def handle(
    broker: Broker, request: requests.SyncGroupRequest, context: Context
) -> Later[responses.SyncGroupResponse]:
    protocol_type = request.protocol_type
    protocol = request.protocol_name
    if context.version >= PROTOCOL_REQUIRED_FROM and (protocol_type is None or protocol is None):
        return _message(SyncReply(error=ErrorCode.inconsistent_group_protocol))
    sync = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=protocol_type,
        protocol=protocol,
        assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
    )
    reply = asked(lambda: broker.groups.sync(sync), lambda error: SyncReply(error=error))
    return when_done(reply, _message)


def _message(reply: SyncReply) -> responses.SyncGroupResponse:
    return responses.SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )


HANDLER = Typed(requests.SyncGroupRequest, responses.SyncGroupResponse, handle)
