"""ListConfigResources (key 74), versions 0 to 1: the resources that can have configs (KIP-1142).

Behaviour: returns every topic, and this node as a broker and as a holder of loggers. Apache Kafka also lists
client metrics and groups that have configs; here they have none. An empty list of types means all types. A
type that the version does not know is refused with UNSUPPORTED_VERSION.

Version notes: 0 was called ListClientMetricsResources (KIP-714) and lists only those.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1 import request as requests
from kio.schema.list_config_resources.v1 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
_KNOWN: Final = ((CLIENT_METRICS,), (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP))


def handle(
    broker: Broker, request: requests.ListConfigResourcesRequest, context: Context
) -> responses.ListConfigResourcesResponse:
    """Names and types, in Apache Kafka's order of types."""
    known = _KNOWN[context.version]
    wanted = getattr(request, "resource_types", ()) or known
    if not set(wanted) <= set(known):
        return responses.ListConfigResourcesResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.unsupported_version, config_resources=()
        )
    node = str(broker.node_id)
    found = ((BROKER_LOGGER, [node]), (BROKER, [node]), (TOPIC, broker.logs.topics))
    return responses.ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        config_resources=tuple(
            responses.ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in found
            if kind in wanted
            for name in names
        ),
    )


HANDLER = Typed(requests.ListConfigResourcesRequest, responses.ListConfigResourcesResponse, handle)
