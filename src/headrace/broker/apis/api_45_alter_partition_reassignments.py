"""AlterPartitionReassignments (key 45), versions 0 to 1: move partitions to other brokers, or cancel a move.

Behaviour: there is one node. A partition assigned to this node is already there, and nothing happens; any
other list of replicas is refused with INVALID_REPLICA_ASSIGNMENT, with the message of Apache Kafka's
controller. There is never a reassignment to cancel: NO_REASSIGNMENT_IN_PROGRESS.

Version notes: 1 can forbid a change of the replication factor (KIP-860), which cannot happen here.
"""

from __future__ import annotations

from kio.schema.alter_partition_reassignments.v1 import request as requests
from kio.schema.alter_partition_reassignments.v1 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.new_topics import check_replicas
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.AlterPartitionReassignmentsRequest, _context: Context
) -> responses.AlterPartitionReassignmentsResponse:
    """One result for each partition."""
    if not request.topics:
        return responses.AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", responses=()
        )
    return responses.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            responses.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_partition(broker, topic.name, each) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _partition(
    broker: Broker, name: str, asked: requests.ReassignablePartition
) -> responses.ReassignablePartitionResponse:
    code, message = ErrorCode.none, None
    try:
        _check(broker, name, asked)
    except ApiError as refusal:
        code, message = refusal.code, refusal.message or None
    return responses.ReassignablePartitionResponse(
        partition_index=asked.partition_index,
        error_code=code,
        error_message=message,
    )


def _check(broker: Broker, name: str, asked: requests.ReassignablePartition) -> None:
    """Raises ApiError."""
    unknown = ErrorCode.unknown_topic_or_partition
    topic = broker.logs.topics.get(name)
    if topic is None:
        raise ApiError(unknown, f"Unable to find a topic named {name}.")
    if broker.partition(topic, asked.partition_index) is None:
        raise ApiError(unknown, f"Unable to find partition {name}:{asked.partition_index}.")
    if asked.replicas is None:
        raise ApiError(ErrorCode.no_reassignment_in_progress)
    check_replicas(broker.node_id, asked.replicas, expected=None)


HANDLER = Typed(
    requests.AlterPartitionReassignmentsRequest, responses.AlterPartitionReassignmentsResponse, handle
)
