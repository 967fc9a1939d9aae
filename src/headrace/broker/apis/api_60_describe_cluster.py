"""DescribeCluster (key 60), versions 0 to 2: the nodes of the cluster, without topics (KIP-700).

Behaviour: one node, which is also the controller for client requests.

Version notes: 1 can ask for controllers instead of brokers (KIP-919), which only a controller's endpoint
answers; 2 can ask for fenced brokers (KIP-1073), of which there are none.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_cluster.v2 import request as requests
from kio.schema.describe_cluster.v2 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    broker: Broker, request: requests.DescribeClusterRequest, _context: Context
) -> responses.DescribeClusterResponse:
    """This node."""
    endpoint_type = request.endpoint_type
    if endpoint_type == CONTROLLERS:
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
        return _refusal(ErrorCode.mismatched_endpoint_type, message)
    if endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {endpoint_type}"
        return _refusal(ErrorCode.unsupported_endpoint_type, message)
    node = responses.DescribeClusterBroker(
        broker_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        rack=None,
        is_fenced=False,
    )
    with_operations = request.include_cluster_authorized_operations
    return responses.DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=(node,),
        cluster_authorized_operations=ON_CLUSTER if with_operations else NOT_ASKED_FOR,
    )


def _refusal(error: ErrorCode, message: str) -> responses.DescribeClusterResponse:
    return responses.DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=(),
        cluster_authorized_operations=NOT_ASKED_FOR,
    )


HANDLER = Typed(requests.DescribeClusterRequest, responses.DescribeClusterResponse, handle)
