"""DescribeQuorum (key 55), versions 0 to 2: the quorum that keeps the cluster's metadata (KIP-595).

Behaviour: this node alone, as leader and only voter, without observers. Its metadata is a file and not a
replicated log, so epoch, high watermark and end offset are -1. Only the partition of Kafka's
`__cluster_metadata` can be requested.

Version notes: 1 has the times of the last fetch and of the last time caught up (KIP-836), which are now for
the leader; 2 is about dynamic voters (KIP-853): the directory id is empty, and the node's listener is the one
for clients, because there is no other.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_quorum.v2 import request as requests
from kio.schema.describe_quorum.v2 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker

METADATA_TOPIC: Final = "__cluster_metadata"
_NOTHING: Final = -1
_UNKNOWN: Final = "This server does not host this topic-partition."


def handle(
    broker: Broker, request: requests.DescribeQuorumRequest, _context: Context
) -> responses.DescribeQuorumResponse:
    """This node, or UNKNOWN_TOPIC_OR_PARTITION for each requested partition."""
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return responses.DescribeQuorumResponse(
            error_code=ErrorCode.none,
            error_message="",
            topics=tuple(_unknown(name, indexes) for name, indexes in asked),
            nodes=(),
        )
    now = broker.now_ms()
    voter = responses.ReplicaState(
        replica_id=broker.node_id,
        replica_directory_id=None,
        log_end_offset=_NOTHING,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    partition = responses.PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=broker.node_id,
        leader_epoch=_NOTHING,
        high_watermark=_NOTHING,
        current_voters=(voter,),
        observers=(),
    )
    listener = responses.Listener(name="PLAINTEXT", host=broker.host, port=broker.port)
    return responses.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message="",
        topics=(responses.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        nodes=(responses.Node(node_id=broker.node_id, listeners=(listener,)),),
    )


def _unknown(name: str, indexes: list[int]) -> responses.TopicData:
    partitions = tuple(
        responses.PartitionData(
            partition_index=index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=_UNKNOWN,
            leader_id=0,
            leader_epoch=0,
            high_watermark=0,
            current_voters=(),
            observers=(),
        )
        for index in indexes
    )
    return responses.TopicData(topic_name=name, partitions=partitions)


HANDLER = Typed(requests.DescribeQuorumRequest, responses.DescribeQuorumResponse, handle)
