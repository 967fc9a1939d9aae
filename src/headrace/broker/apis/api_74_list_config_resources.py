"""ListConfigResources (key 74), versions 0 to 1: what there is that can have configs (KIP-1142).

Behaviour: every topic, this node as a broker and as a keeper of loggers. Client metrics and groups are listed
by Apache Kafka once they have configs of their own; here they have none. No types asked for means all. A
type that the version does not know is refused with UNSUPPORTED_VERSION.

Version notes: 0 was called ListClientMetricsResources (KIP-714) and lists those only.
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
