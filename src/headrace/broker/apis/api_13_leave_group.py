"""LeaveGroup (key 13), versions 0 to 5: members leave, or an administrator takes static members out.

Behaviour: one rebalance for all who leave. An error of one member does not keep the others.

Version notes: until 2 one member leaves, and its error is that of the reply. From 3 on there are several,
each with its own error, and static ones may be named by instance id alone (KIP-345). 4 is flexible, 5 brings
a reason, which is not used (KIP-800).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context, when_done
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import LeaveReply
from headrace.coordination.requests import LeaveRequest, LeavingMember

SEVERAL_FROM: Final = 3


def handle(broker: Broker, request: Any, context: Context) -> Any:
    leaving = request.members if context.version >= SEVERAL_FROM else (request,)
    leave = LeaveRequest(
        group_id=request.group_id,
        members=tuple(
            LeavingMember(member_id=each.member_id, instance_id=getattr(each, "group_instance_id", None))
            for each in leaving
        ),
    )
    reply = asked(lambda: broker.groups.leave(leave), lambda error: LeaveReply(error=error))
    return when_done(reply, lambda reply: _message(reply, context))


def _message(reply: LeaveReply, context: Context) -> Any:
    if context.version < SEVERAL_FROM:
        errors = (reply.error, *(member.error for member in reply.members))
        return context.reply(
            error_code=next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)
        )
    return context.reply(
        error_code=reply.error,
        members=tuple(
            context.make(
                "MemberResponse",
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member.error,
            )
            for member in reply.members
        ),
    )


API = Api(key=13, name="LeaveGroup", versions=(0, 5), handle=handle)
