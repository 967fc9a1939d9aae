"""DeleteRecords (key 21), versions 0 to 2: delete all records before an offset.

Behaviour: -1 means the high-water mark. The answer is the first offset of the partition afterwards; an
earlier offset changes nothing, one above the high-water mark is OFFSET_OUT_OF_RANGE. Topics that are only
compacted are refused with POLICY_VIOLATION, internal topics with INVALID_TOPIC_EXCEPTION. There are no
followers to wait for, so the timeout has no effect. If a partition is named several times, the last offset
counts.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from typing import Final

from kio.schema.delete_records.v2 import request as requests
from kio.schema.delete_records.v2 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.topic_names import is_internal
from headrace.log.errors import LogError
from headrace.wire.messages import NO_THROTTLE

HIGH_WATER_MARK: Final = -1
_NO_LOW_WATER_MARK: Final = -1


def handle(
    broker: Broker, request: requests.DeleteRecordsRequest, _context: Context
) -> responses.DeleteRecordsResponse:
    """Partitions are independent of each other."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
    return responses.DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            responses.DeleteRecordsTopicResult(
                name=name,
                partitions=tuple(_result(broker, name, index, offset) for index, offset in offsets.items()),
            )
            for name, offsets in wanted.items()
        ),
    )


def _result(broker: Broker, name: str, index: int, offset: int) -> responses.DeleteRecordsPartitionResult:
    code = ErrorCode.none
    try:
        low_water_mark = _delete(broker, name, index, offset)
    except (ApiError, LogError) as error:
        code, low_water_mark = kafka_code(error), _NO_LOW_WATER_MARK
    return responses.DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_water_mark, error_code=code
    )


def _delete(broker: Broker, name: str, index: int, offset: int) -> int:
    """The first offset afterwards. Raises ApiError, LogError."""
    log = broker.partition(broker.find_topic(name), index)
    if log is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    if is_internal(name):
        raise ApiError(ErrorCode.invalid_topic_exception, f"Cannot delete records of internal topic {name}")
    if log.config.compact and not log.config.delete:
        raise ApiError(
            ErrorCode.policy_violation,
            f"Records of partition {log.name} can not be deleted due to the configured policy",
        )
    return log.delete_records_before(log.high_water_mark if offset == HIGH_WATER_MARK else offset)


HANDLER = Typed(requests.DeleteRecordsRequest, responses.DeleteRecordsResponse, handle)
