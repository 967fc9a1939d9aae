"""LeaveGroup (key 13), versions 0 to 5: members leave a group, or an administrator removes static members.

Behaviour: all members of a request leave in one rebalance. An error for one member does not affect the
others.

Version notes: until 2 one member leaves, and its error is the error of the reply. From 3 on there are several
members, each with its own error, and static ones can be named by instance id alone (KIP-345). 4 is flexible,
5 has a reason, which is ignored (KIP-800).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5 import request as requests
from kio.schema.leave_group.v5 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import LeaveReply
from headrace.coordination.requests import LeaveRequest, LeavingMember
from headrace.wire.messages import NO_THROTTLE

SEVERAL_FROM: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest(requests.LeaveGroupRequest):
    """Adds the single member of versions 0 to 2."""

    member_id: str = ""


def handle(
    broker: Broker, request: LeaveGroupRequest, context: Context
) -> Later[responses.LeaveGroupResponse]:
    several = context.version >= SEVERAL_FROM
    leaving = [LeavingMember(member_id=request.member_id, instance_id=None)]
    if several:
        leaving = [
            LeavingMember(member_id=each.member_id, instance_id=each.group_instance_id)
            for each in request.members
        ]
    leave = LeaveRequest(group_id=request.group_id, members=tuple(leaving))
    reply = asked(lambda: broker.groups.leave(leave), lambda error: LeaveReply(error=error))
    return when_done(reply, lambda reply: _message(reply, several=several))


def _message(reply: LeaveReply, *, several: bool) -> responses.LeaveGroupResponse:
    error = reply.error
    if not several:
        errors = (error, *(member.error for member in reply.members))
        error = next((each for each in errors if each is not ErrorCode.none), ErrorCode.none)
    return responses.LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        members=tuple(
            responses.MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
            )
            for member in reply.members
        ),
    )


HANDLER = Typed(LeaveGroupRequest, responses.LeaveGroupResponse, handle)
