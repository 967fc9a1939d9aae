"""ListGroups (key 16), versions 0 to 5: all groups, of either protocol.

Behaviour: while groups are being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, because an incomplete
list would look complete. Filters ignore case; an unknown state or type matches no group.

Version notes: 3 is flexible, 4 shows states and filters by them (KIP-518), 5 does the same for types,
`classic` and `consumer` (KIP-848).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import request as requests
from kio.schema.list_groups.v5 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.ListGroupsRequest, _context: Context
) -> responses.ListGroupsResponse:
    states = getattr(request, "states_filter", ())
    kinds = getattr(request, "types_filter", ())
    try:
        groups = broker.groups.list(states=states, kinds=kinds)
    except ApiError as refusal:
        return responses.ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=refusal.code, groups=())
    return responses.ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        groups=tuple(
            responses.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind,
            )
            for group in groups
        ),
    )


HANDLER = Typed(requests.ListGroupsRequest, responses.ListGroupsResponse, handle)
