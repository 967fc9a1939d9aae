"""FindCoordinator (key 10), versions 0 to 6: the broker that coordinates a group or a transactional id.

Behaviour: always returns this broker, because there is no other. The coordinator's internal topic is created
if it is missing; if that fails, the answer is COORDINATOR_NOT_AVAILABLE. There are no share groups, so key
type 2 is refused with INVALID_REQUEST, as in Apache Kafka without them, and so are unknown key types.

Version notes: 0 knows groups only, 1 adds key types and a message, 3 is flexible, 4 asks for many keys at
once (KIP-699), 6 adds share groups (KIP-932). In versions 1 to 3 Kafka's message for success is the text
"NONE".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6 import request as requests
from kio.schema.find_coordinator.v6 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.wire.messages import NO_THROTTLE

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_REFUSED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was "
    "sent to an incompatible broker. See the broker logs for more details."
)
_NOT_AVAILABLE: Final = "The coordinator is not available."
_SEVERAL_FROM: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest(requests.FindCoordinatorRequest):
    """Adds the single key of versions 0 to 3."""

    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse(responses.FindCoordinatorResponse):
    """Adds the single coordinator of versions 0 to 3."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int


def handle(broker: Broker, request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """The same answer for every key of the request."""
    several = context.version >= _SEVERAL_FROM
    error, message = _found(broker, request.key_type, several=several)
    found = error is ErrorCode.none
    node_id, host, port = (broker.node_id, broker.host, broker.port) if found else (-1, "", -1)
    return FindCoordinatorResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        node_id=node_id,
        host=host,
        port=port,
        coordinators=tuple(
            responses.Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message
            )
            for key in request.coordinator_keys
        ),
    )


def _found(broker: Broker, key_type: int, *, several: bool) -> tuple[ErrorCode, str]:
    """Whether the coordinator is available, and Kafka's message about it."""
    if key_type not in (GROUP, TRANSACTION):
        # Kafka has no message for a missing share coordinator.
        return ErrorCode.invalid_request, "" if key_type == SHARE and several else _REFUSED
    coordinator = broker.groups if key_type == GROUP else broker.transactions
    try:
        coordinator.shards.ensure()
    except ApiError as error:
        return error.code, _NOT_AVAILABLE
    return ErrorCode.none, "" if several else "NONE"


HANDLER = Typed(FindCoordinatorRequest, FindCoordinatorResponse, handle)
