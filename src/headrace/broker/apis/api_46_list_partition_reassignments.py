"""ListPartitionReassignments (key 46), version 0: partitions that are being moved to other brokers.

Behaviour: always empty, because there is one node.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import request as requests
from kio.schema.list_partition_reassignments.v0 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE


def handle(
    _broker: Broker, _request: requests.ListPartitionReassignmentsRequest, _context: Context
) -> responses.ListPartitionReassignmentsResponse:
    """Always an empty list."""
    return responses.ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=()
    )


HANDLER = Typed(
    requests.ListPartitionReassignmentsRequest, responses.ListPartitionReassignmentsResponse, handle
)
