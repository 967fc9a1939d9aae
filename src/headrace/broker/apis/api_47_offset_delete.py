"""OffsetDelete (key 47), version 0: single offsets of a group go (KIP-496).

Behaviour: not those of topics that a member subscribes to. Partitions that do not exist are refused one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context, when_done
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import DeleteOffsetsReply, PartitionResult
from headrace.coordination.requests import DeleteOffsetsRequest


def handle(broker: Broker, request: Any, context: Context) -> Any:
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

    def message(reply: DeleteOffsetsReply) -> Any:
        if reply.error is not ErrorCode.none:
            return context.reply(error_code=reply.error, topics=())
        return context.reply(
            error_code=ErrorCode.none, topics=_topics([*refused, *reply.partitions], context)
        )

    return when_done(reply, message)


def _topics(results: Iterable[PartitionResult], context: Context) -> tuple[Any, ...]:
    """In the order in which they come up first."""
    topics: dict[str, list[Any]] = {}
    for each in results:
        made = context.make(
            "OffsetDeleteResponsePartition", partition_index=each.partition, error_code=each.error
        )
        topics.setdefault(each.topic, []).append(made)
    return tuple(
        context.make("OffsetDeleteResponseTopic", name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


API = Api(key=47, name="OffsetDelete", versions=(0, 0), handle=handle)
