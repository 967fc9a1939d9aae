"""Heartbeat (key 12), versions 0 to 4: a member of a classic group is alive, and learns whether to rejoin.

Behaviour: REBALANCE_IN_PROGRESS asks the member to rejoin. While the group is being loaded the answer is
success, because there is nothing for the member to do.

Version notes: 3 has instance ids (KIP-345), 4 is flexible.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import request as requests
from kio.schema.heartbeat.v4 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import HeartbeatReply
from headrace.coordination.requests import HeartbeatRequest
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.HeartbeatRequest, _context: Context
) -> Later[responses.HeartbeatResponse]:
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    reply = asked(lambda: broker.groups.heartbeat(heartbeat), _refused)
    return when_done(
        reply, lambda reply: responses.HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=reply.error)
    )


def _refused(error: ErrorCode) -> HeartbeatReply:
    loading = error is ErrorCode.coordinator_load_in_progress
    return HeartbeatReply(error=ErrorCode.none if loading else error)


HANDLER = Typed(requests.HeartbeatRequest, responses.HeartbeatResponse, handle)
