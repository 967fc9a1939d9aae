"""OffsetForLeaderEpoch (key 23), versions 2 to 4: the end offset of a leader epoch.

Behaviour: returns the largest epoch in the log that is not above the requested one, and the offset after its
last record; for the newest epoch that is the end of the log. Returns -1 and -1, without an error, for an
epoch that the log does not know. Consumers use it to detect truncation (KIP-320); there are no followers.

Version notes: 2 carries the client's view of the current epoch (KIP-320), 3 the replica id (KIP-392), 4 is
flexible. librdkafka uses version 2.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4 import request as requests
from kio.schema.offset_for_leader_epoch.v4 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.leader_epoch_check import check_leader_epoch
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.OffsetForLeaderEpochRequest, _context: Context
) -> responses.OffsetForLeaderEpochResponse:
    """One result for each partition, in order."""
    return responses.OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            responses.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(broker, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _answer(broker: Broker, name: str, asked: requests.OffsetForLeaderPartition) -> responses.EpochEndOffset:
    code = ErrorCode.none
    leader_epoch, end_offset = -1, -1
    try:
        log = broker.partition(broker.find_topic(name), asked.partition)
        if log is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        check_leader_epoch(log, asked.current_leader_epoch)
        leader_epoch, end_offset = log.end_of_epoch(asked.leader_epoch)
    except ApiError as error:
        code = error.code
    return responses.EpochEndOffset(
        error_code=code,
        partition=asked.partition,
        leader_epoch=leader_epoch,
        end_offset=end_offset,
    )


HANDLER = Typed(requests.OffsetForLeaderEpochRequest, responses.OffsetForLeaderEpochResponse, handle)
