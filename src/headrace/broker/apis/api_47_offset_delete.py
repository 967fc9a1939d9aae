"""OffsetDelete (key 47), version 0: delete single offsets of a group (KIP-496).

Behaviour: offsets of topics that a member subscribes to are refused. Missing partitions are refused one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0 import request as requests
from kio.schema.offset_delete.v0 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import DeleteOffsetsReply, PartitionResult
from headrace.coordination.requests import DeleteOffsetsRequest
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.OffsetDeleteRequest, _context: Context
) -> Later[responses.OffsetDeleteResponse]:
    refused: list[PartitionResult] = []
    partitions: list[tuple[str, int]] = []
    for topic in request.topics:
        known = broker.find_topic(topic.name)
        for each in topic.partitions:
            if broker.partition(known, each.partition_index) is None:
                refused.append(
                    PartitionResult(
                        topic=topic.name,
                        partition=each.partition_index,
                        error=ErrorCode.unknown_topic_or_partition,
                    )
                )
            else:
                partitions.append((topic.name, each.partition_index))
    delete = DeleteOffsetsRequest(group_id=request.group_id, partitions=tuple(partitions))
    reply = asked(lambda: broker.groups.delete_offsets(delete), lambda error: DeleteOffsetsReply(error=error))

    def message(reply: DeleteOffsetsReply) -> responses.OffsetDeleteResponse:
        if reply.error is not ErrorCode.none:
            return responses.OffsetDeleteResponse(
                throttle_time=NO_THROTTLE, error_code=reply.error, topics=()
            )
        return responses.OffsetDeleteResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            topics=_topics([*refused, *reply.partitions]),
        )

    return when_done(reply, message)


def _topics(results: Iterable[PartitionResult]) -> tuple[responses.OffsetDeleteResponseTopic, ...]:
    """Topics in order of first appearance."""
    topics: dict[str, list[responses.OffsetDeleteResponsePartition]] = {}
    for each in results:
        made = responses.OffsetDeleteResponsePartition(partition_index=each.partition, error_code=each.error)
        topics.setdefault(each.topic, []).append(made)
    return tuple(
        responses.OffsetDeleteResponseTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


HANDLER = Typed(requests.OffsetDeleteRequest, responses.OffsetDeleteResponse, handle)
