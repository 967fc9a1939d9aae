"""DescribeTopicPartitions (key 75), version 0: topics with their partitions, page by page (KIP-966).

Behaviour: topics are sorted by name. A page has as many partitions as the request and
`max.request.partition.size.limit` allow, but at least one; the cursor names the first partition that did not
fit, where the next request starts. An empty list of topics means all topics. Authorized operations are always
included.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_topic_partitions.v0 import request as requests
from kio.schema.describe_topic_partitions.v0 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_TOPIC
from headrace.broker.broker import Broker
from headrace.broker.topic_names import is_internal, is_valid
from headrace.log.folder.data_folder import Topic
from headrace.wire.messages import NO_THROTTLE

FIRST: Final = 0


def handle(
    broker: Broker, request: requests.DescribeTopicPartitionsRequest, _context: Context
) -> responses.DescribeTopicPartitionsResponse:
    """One page."""
    cursor = request.cursor
    after = "" if cursor is None else cursor.topic_name
    everything = not request.topics
    asked = broker.logs.topics if everything else {each.name: None for each in request.topics}
    names = sorted(name for name in asked if name >= after)
    misplaced = cursor is not None and not everything and after not in asked
    if misplaced or (cursor is not None and cursor.partition_index < FIRST):
        return _refusal(request)
    limit = broker.configs.number("max.request.partition.size.limit")
    remaining = max(min(limit, request.response_partition_limit), 1)
    topics: list[responses.DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if remaining == 0:
            return _page(topics, name, FIRST)
        topic = broker.logs.topics.get(name)
        if topic is None:
            if not everything:
                topics.append(_absent(name))
            continue
        start = cursor.partition_index if cursor is not None and name == after else FIRST
        end = min(len(topic.partitions), start + remaining)
        topics.append(_present(broker, topic, range(start, end)))
        if end < len(topic.partitions):
            return _page(topics, name, end)
        remaining -= max(0, end - start)
    return responses.DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=None
    )


def _page(
    topics: list[responses.DescribeTopicPartitionsResponseTopic], next_topic: str, next_partition: int
) -> responses.DescribeTopicPartitionsResponse:
    cursor = responses.Cursor(topic_name=next_topic, partition_index=next_partition)
    return responses.DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=cursor
    )


def _present(broker: Broker, topic: Topic, indexes: range) -> responses.DescribeTopicPartitionsResponseTopic:
    here = (broker.node_id,)
    partitions = tuple(
        responses.DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=broker.node_id,
            leader_epoch=topic.partitions[index].leader_epoch,
            replica_nodes=here,
            isr_nodes=here,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=(),
        )
        for index in indexes
    )
    return responses.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=ON_TOPIC,
    )


def _absent(name: str) -> responses.DescribeTopicPartitionsResponseTopic:
    known = ErrorCode.unknown_topic_or_partition if is_valid(name) else ErrorCode.invalid_topic_exception
    return responses.DescribeTopicPartitionsResponseTopic(
        error_code=known,
        name=name,
        topic_id=None,
        is_internal=is_internal(name),
        partitions=(),
        topic_authorized_operations=ON_TOPIC,
    )


def _refusal(request: requests.DescribeTopicPartitionsRequest) -> responses.DescribeTopicPartitionsResponse:
    """Refuses each topic, because the cursor is invalid."""
    topics = tuple(
        responses.DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.invalid_request,
            name=each.name,
            topic_id=None,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=NOT_ASKED_FOR,
        )
        for each in request.topics
    )
    return responses.DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=topics, next_cursor=None
    )


HANDLER = Typed(requests.DescribeTopicPartitionsRequest, responses.DescribeTopicPartitionsResponse, handle)
