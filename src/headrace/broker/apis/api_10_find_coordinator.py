"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group or a transactional id.

Behaviour: this one, always: there is no other. The internal topic of the coordinator is made if it is not
there; where that fails the answer is COORDINATOR_NOT_AVAILABLE. There are no share groups here, so their
coordinators (key type 2) are refused with INVALID_REQUEST, as Apache Kafka does without them, and so are key
types that nobody knows.

Version notes: 0 knows groups only, 1 adds key types and a message, 3 is flexible, 4 asks for many keys at
once (KIP-699), 6 adds share groups (KIP-932). In versions 1 to 3 Kafka's message for success is the text
"NONE".
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_REFUSED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was "
    "sent to an incompatible broker. See the broker logs for more details."
)
_NOT_AVAILABLE: Final = "The coordinator is not available."
_NOBODY: Final = {"node_id": -1, "host": "", "port": -1}


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """The same answer for every key of the request."""
    answer = _answer(broker, getattr(request, "key_type", GROUP), context.version)
    if context.version >= 4:
        keys = request.coordinator_keys
        return context.reply(
            coordinators=tuple(context.make("Coordinator", key=key, **answer) for key in keys)
        )
    if context.version == 0:
        del answer["error_message"]
    return context.reply(**answer)


def _answer(broker: Broker, key_type: int, version: int) -> dict[str, Any]:
    if key_type not in (GROUP, TRANSACTION):
        # Kafka has no words for a share coordinator that is not there.
        message = "" if key_type == SHARE and version >= 4 else _REFUSED
        return _NOBODY | {"error_code": ErrorCode.invalid_request, "error_message": message}
    coordinator = broker.groups if key_type == GROUP else broker.transactions
    try:
        coordinator.shards.ensure()
    except ApiError as error:
        return _NOBODY | {"error_code": error.code, "error_message": _NOT_AVAILABLE}
    node = {"node_id": broker.node_id, "host": broker.host, "port": broker.port}
    return node | {"error_code": ErrorCode.none, "error_message": "NONE" if version < 4 else ""}


API = Api(key=10, name="FindCoordinator", versions=(0, 6), handle=handle)
