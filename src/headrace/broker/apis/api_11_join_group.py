"""JoinGroup (key 11), versions 0 to 9: become a member of a classic group, or come back for a rebalance.

Behaviour: the reply waits until all members have joined or had their time; the leader gets the
subscriptions of all, to assign partitions. In a group of the consumer protocol the member is taken in as
one that speaks the classic one (KIP-848).

Version notes: 0 has no rebalance timeout, so it is the session timeout. From 4 on somebody new gets an id
and asks again (KIP-394). 5 has instance ids (KIP-345), 6 is flexible, 7 says the protocol's type and
leaves the protocol null where there is none (KIP-559), 8 brings a reason, which is not used (KIP-800), 9 can
tell a static leader that comes back not to assign (KIP-814).
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
