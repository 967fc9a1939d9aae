"""WriteTxnMarkers (key 27), versions 1 and 2: writes markers that end transactions.

Behaviour: in a cluster the coordinator sends this to the leaders of partitions. Here the broker writes its
markers itself, and only administrators send the request (`kafka-transactions abort`, KIP-664), to end a
transaction that no coordinator knows. Each partition has its own result; a marker that is too late for a
newer producer gets INVALID_PRODUCER_EPOCH, one from an older coordinator TRANSACTION_COORDINATOR_FENCED.

Version notes: 1 is flexible; 2 carries the version of the transaction protocol (KIP-1228): from protocol
version 2 on the epoch of a marker must be higher than that of the records that it ends.
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import request as requests
from kio.schema.write_txn_markers.v2 import response as responses

from headrace.broker.answers import Later
from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import kafka_code
from headrace.coordination.transactions.records import TopicPartition
from headrace.log.errors import LogError
from headrace.log.producers.verification import TransactionEnd
from headrace.wire.control_batches import EndMarker

# By producer and partition: the result of the marker, or a future until it is durable.
_Results = dict[int, dict[TopicPartition, ErrorCode | asyncio.Future[None]]]


def handle(
    broker: Broker, request: requests.WriteTxnMarkersRequest, _context: Context
) -> Later[responses.WriteTxnMarkersResponse]:
    """Write all markers. One result for each marker and partition."""
    results: _Results = {}
    for marker in request.markers:
        of_producer = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                place = TopicPartition(topic.name, partition)
                of_producer[place] = _write(broker, place, marker)
    waiting = [
        result for each in results.values() for result in each.values() if isinstance(result, asyncio.Future)
    ]
    return _after_sync(results, waiting) if waiting else _message(results)


def _write(
    broker: Broker, place: TopicPartition, marker: requests.WritableTxnMarker
) -> ErrorCode | asyncio.Future[None]:
    log = broker.partition(broker.find_topic(place.topic), place.partition)
    if log is None:
        return ErrorCode.unknown_topic_or_partition
    end = TransactionEnd(
        EndMarker(marker.transaction_result, marker.coordinator_epoch),
        marker.transaction_version,
    )
    try:
        written = broker.transactions.markers.append(
            place, log, end, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch
        )
    except LogError as error:
        return kafka_code(error)
    return ErrorCode.none if written is None else written


async def _after_sync(
    results: _Results, waiting: list[asyncio.Future[None]]
) -> responses.WriteTxnMarkersResponse:
    await asyncio.wait(waiting)
    return _message(results)


def _code_of(result: ErrorCode | asyncio.Future[None]) -> ErrorCode:
    if not isinstance(result, asyncio.Future):
        return result
    error = result.exception()
    if error is None:
        return ErrorCode.none
    if not isinstance(error, LogError):
        raise error
    return kafka_code(error)


def _message(results: _Results) -> responses.WriteTxnMarkersResponse:
    return responses.WriteTxnMarkersResponse(
        markers=tuple(
            responses.WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(of_producer))
            for producer_id, of_producer in results.items()
        )
    )


def _topics(
    results: dict[TopicPartition, ErrorCode | asyncio.Future[None]],
) -> tuple[responses.WritableTxnMarkerTopicResult, ...]:
    by_topic: dict[str, list[responses.WritableTxnMarkerPartitionResult]] = {}
    for place, result in results.items():
        by_topic.setdefault(place.topic, []).append(
            responses.WritableTxnMarkerPartitionResult(
                partition_index=place.partition,
                error_code=_code_of(result),
            )
        )
    return tuple(
        responses.WritableTxnMarkerTopicResult(name=name, partitions=tuple(partitions))
        for name, partitions in by_topic.items()
    )


HANDLER = Typed(requests.WriteTxnMarkersRequest, responses.WriteTxnMarkersResponse, handle)
