"""DeleteGroups (key 42), versions 0 to 2: groups without members go, with all their offsets.

Behaviour: a group with members is refused with NON_EMPTY_GROUP. Each group is for itself.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from typing import Any

from headrace.broker.api import Api, Context, when_done
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import DeleteGroupsReply


def handle(broker: Broker, request: Any, context: Context) -> Any:
    group_ids = tuple(dict.fromkeys(request.groups_names))
    reply = asked(
        lambda: broker.groups.delete(group_ids),
        lambda error: DeleteGroupsReply(groups=tuple((group_id, error) for group_id in group_ids)),
    )
    return when_done(reply, lambda reply: _message(reply, context))


def _message(reply: DeleteGroupsReply, context: Context) -> Any:
    return context.reply(
        results=tuple(
            context.make("DeletableGroupResult", group_id=group_id, error_code=error)
            for group_id, error in reply.groups
        )
    )


API = Api(key=42, name="DeleteGroups", versions=(0, 2), handle=handle)
