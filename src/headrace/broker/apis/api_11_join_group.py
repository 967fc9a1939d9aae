"""JoinGroup (key 11), versions 0 to 9: join a classic group, or rejoin for a rebalance.

Behaviour: the reply is held until all members have joined or the rebalance times out; the leader gets the
subscriptions of all members, to assign partitions. A group of the consumer protocol accepts the member as one
that speaks the classic protocol (KIP-848).

Version notes: 0 has no rebalance timeout, so the session timeout is used. From 4 on a new member first gets
an id and must join again with it (KIP-394). 5 has instance ids (KIP-345), 6 is flexible, 7 returns the
protocol type and a null protocol if there is none (KIP-559), 8 has a reason, which is ignored (KIP-800), 9
can tell a returning static leader not to assign (KIP-814).
"""

from __future__ import annotations

from typing import Final

from kio.schema.join_group.v9 import request as requests
from kio.schema.join_group.v9 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, client_host, milliseconds
from headrace.broker.broker import Broker
from headrace.coordination.replies import JoinReply
from headrace.coordination.requests import JoinRequest, OfferedProtocol
from headrace.wire.messages import NO_THROTTLE

REBALANCE_TIMEOUT_FROM: Final = 1
MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9


def handle(
    broker: Broker, request: requests.JoinGroupRequest, context: Context
) -> Later[responses.JoinGroupResponse]:
    join = _join_request(request, context)
    reply = asked(lambda: broker.groups.join(join), lambda error: JoinReply(error=error))
    return when_done(reply, lambda reply: _message(reply, context))


def _join_request(request: requests.JoinGroupRequest, context: Context) -> JoinRequest:
    has_timeout = context.version >= REBALANCE_TIMEOUT_FROM
    rebalance_timeout = request.rebalance_timeout if has_timeout else request.session_timeout
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple(
            OfferedProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
        ),
        session_timeout_ms=milliseconds(request.session_timeout),
        rebalance_timeout_ms=milliseconds(rebalance_timeout),
        client_id=context.client_id or "",
        client_host=client_host(context),
        member_id_required=context.version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=context.version >= SKIP_ASSIGNMENT_FROM,
    )


def _message(reply: JoinReply, context: Context) -> responses.JoinGroupResponse:
    protocol = reply.protocol if context.version >= NULL_PROTOCOL_FROM else reply.protocol or ""
    return responses.JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            responses.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ),
    )


HANDLER = Typed(requests.JoinGroupRequest, responses.JoinGroupResponse, handle)
