"""AlterPartitionReassignments (key 45), versions 0 to 1: move partitions to other brokers, or call it off.

Behaviour: there is one node. A partition that is to be on this node already is, and nothing happens; any
other list of replicas is refused with INVALID_REPLICA_ASSIGNMENT, in the words of Apache Kafka's controller.
There is never a reassignment to call off: NO_REASSIGNMENT_IN_PROGRESS.

Version notes: 1 can forbid a change of the number of replicas (KIP-860), which cannot happen here.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.new_topics import check_replicas


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """One result for each partition."""
    if not request.topics:
        return context.reply(error_code=ErrorCode.none, error_message="", responses=())
    return context.reply(
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            context.make(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(_partition(broker, topic.name, each, context) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _partition(broker: Broker, name: str, asked: Any, context: Context) -> Any:
    code, message = ErrorCode.none, None
    try:
        _check(broker, name, asked)
    except ApiError as refusal:
        code, message = refusal.code, refusal.message or None
    return context.make(
        "ReassignablePartitionResponse",
        partition_index=asked.partition_index,
        error_code=code,
        error_message=message,
    )


def _check(broker: Broker, name: str, asked: Any) -> None:
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


API = Api(key=45, name="AlterPartitionReassignments", versions=(0, 1), handle=handle)
