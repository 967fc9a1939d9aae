"""DeleteGroups (key 42), versions 0 to 2: delete groups without members, with all their offsets.

Behaviour: a group with members is refused with NON_EMPTY_GROUP. Groups are independent of each other.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from kio.schema.delete_groups.v2 import request as requests
from kio.schema.delete_groups.v2 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import DeleteGroupsReply
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.DeleteGroupsRequest, _context: Context
) -> Later[responses.DeleteGroupsResponse]:
    group_ids = tuple(dict.fromkeys(request.groups_names))
    reply = asked(
        lambda: broker.groups.delete(group_ids),
        lambda error: DeleteGroupsReply(groups=tuple((group_id, error) for group_id in group_ids)),
    )
    return when_done(reply, _message)


def _message(reply: DeleteGroupsReply) -> responses.DeleteGroupsResponse:
    return responses.DeleteGroupsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            responses.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in reply.groups
        ),
    )


HANDLER = Typed(requests.DeleteGroupsRequest, responses.DeleteGroupsResponse, handle)
