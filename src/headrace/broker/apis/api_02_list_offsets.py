"""ListOffsets (key 2), versions 1 to 11: the offsets of a partition: first, last, or by timestamp.

Behaviour: for a timestamp, returns the first record that is not older, with its own timestamp, or offset -1
without an error. Negative timestamps have special meanings: see `_LOWEST_VERSION`. The latest offset is the
one up to which consumers may read: for read committed the last stable offset, where the first open
transaction begins, and searches by timestamp do not find later records either. A follower would get the end
of the log, but there are none. A partition that is named twice is an INVALID_REQUEST. Results are in the
order of the request.

Version notes: 2 has isolation levels (KIP-98), 4 leader epochs (KIP-320), 7 the largest timestamp (KIP-734),
8 the earliest local offset (KIP-405), 9 the latest tiered offset (KIP-1005), 10 a timeout for tiered storage,
11 the earliest offset pending upload (KIP-1023). Without tiered storage everything is local: 8 returns the
earliest offset, 9 and 11 return -1.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11 import request as requests
from kio.schema.list_offsets.v11 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.leader_epoch_check import check_leader_epoch
from headrace.log.errors import LogError
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.messages import NO_THROTTLE

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_LOWEST_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_ISOLATION_LEVELS: Final = frozenset({0, _READ_COMMITTED})

# Timestamp, offset, leader epoch.
_Found = tuple[int, int, int]
_NOTHING: Final[_Found] = (-1, -1, -1)


def handle(
    broker: Broker, request: requests.ListOffsetsRequest, context: Context
) -> responses.ListOffsetsResponse:
    """One result for each partition, even if it is named several times."""
    times = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    answers: dict[str, dict[int, responses.ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        partitions = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            try:
                if times[topic.name, index] > 1:
                    raise ApiError(ErrorCode.invalid_request)
                found = _find(broker, request, topic.name, asked, context.version)
            except (ApiError, LogError) as error:
                partitions[index] = _answer(index, _NOTHING, kafka_code(error))
            else:
                partitions[index] = _answer(index, found, ErrorCode.none)
    return responses.ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            responses.ListOffsetsTopicResponse(name=name, partitions=tuple(partitions.values()))
            for name, partitions in answers.items()
        ),
    )


def _find(
    broker: Broker,
    request: requests.ListOffsetsRequest,
    name: str,
    asked: requests.ListOffsetsPartition,
    version: int,
) -> _Found:
    """Raises ApiError, LogError."""
    timestamp = asked.timestamp
    if request.isolation_level not in _ISOLATION_LEVELS:
        raise ApiError(ErrorCode.unknown_server_error, "Unknown isolation level.")
    if timestamp < 0 and version < _LOWEST_VERSION.get(timestamp, version + 1):
        raise ApiError(ErrorCode.unsupported_version)
    log = broker.partition(broker.find_topic(name), asked.partition_index)
    if log is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    check_leader_epoch(log, asked.current_leader_epoch)
    readable = _readable_end(log, request)
    if timestamp == LATEST:
        return -1, readable, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, _epoch_of(log, log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    found = (
        log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    return _NOTHING if found is None or found[1] >= readable else found


def _readable_end(log: PartitionLog, request: requests.ListOffsetsRequest) -> int:
    if request.replica_id != _CONSUMER:
        return log.end_offset
    committed = request.isolation_level == _READ_COMMITTED
    return log.last_stable_offset if committed else log.high_water_mark


def _epoch_of(log: PartitionLog, offset: int) -> int:
    epoch = log.epoch_of(offset)
    return -1 if epoch is None else epoch


def _answer(index: int, found: _Found, code: ErrorCode) -> responses.ListOffsetsPartitionResponse:
    timestamp, offset, leader_epoch = found
    return responses.ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


HANDLER = Typed(requests.ListOffsetsRequest, responses.ListOffsetsResponse, handle)
