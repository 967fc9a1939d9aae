"""DescribeProducers (key 61), version 0: the active producers of a partition (KIP-664).

Behaviour: returns each producer with its epoch, its last sequence number, the timestamp of its newest record,
the first offset of its open transaction, and the epoch of the coordinator that ended its last one; -1 means
that there is no such transaction. A missing topic is refused with a message, a missing partition of an
existing topic without one, as in Apache Kafka.

Version notes: there is one version.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_producers.v0 import request as requests
from kio.schema.describe_producers.v0 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.topic_names import check_name
from headrace.log.folder.data_folder import Topic
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.messages import NO_THROTTLE

UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."


def handle(
    broker: Broker, request: requests.DescribeProducersRequest, _context: Context
) -> responses.DescribeProducersResponse:
    """One result for each partition, in order."""
    return responses.DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            responses.TopicResponse(name=asked.name, partitions=tuple(_partitions(broker, asked)))
            for asked in request.topics
        ),
    )


def _partitions(broker: Broker, asked: requests.TopicRequest) -> list[responses.PartitionResponse]:
    try:
        topic = _topic(broker, asked.name)
    except ApiError as error:
        return [_refusal(index, error) for index in asked.partition_indexes]
    answers = []
    for index in asked.partition_indexes:
        log = broker.partition(topic, index)
        if log is None:
            answers.append(_refusal(index, ApiError(ErrorCode.unknown_topic_or_partition)))
        else:
            answers.append(_producers(index, log))
    return answers


def _topic(broker: Broker, name: str) -> Topic:
    """Raises ApiError."""
    check_name(name)
    topic = broker.find_topic(name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, UNKNOWN_TOPIC)
    return topic


def _producers(index: int, log: PartitionLog) -> responses.PartitionResponse:
    return responses.PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=tuple(
            responses.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in log.active_producers()
        ),
    )


def _refusal(index: int, error: ApiError) -> responses.PartitionResponse:
    return responses.PartitionResponse(
        partition_index=index,
        error_code=error.code,
        error_message=error.message or None,
        active_producers=(),
    )


HANDLER = Typed(requests.DescribeProducersRequest, responses.DescribeProducersResponse, handle)
