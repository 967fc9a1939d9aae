"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where the records of a leader epoch end.

Behaviour: the largest epoch of the log that is not above the one asked for, and the offset behind its
last record; for the newest epoch that is the end of the log. -1 and -1, without an error, for an epoch
that the log does not know of. Consumers ask in order to find out whether what they have read is still
there (KIP-320); there are no followers.

Version notes: 2 knows the client's view of the current epoch (KIP-320), 3 who asks (KIP-392), 4 is
flexible. librdkafka asks with version 2.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.leader_epoch_check import check_leader_epoch


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """As many answers as questions, in their order."""
    return context.reply(
        topics=tuple(
            context.make(
                "OffsetForLeaderTopicResult",
                topic=topic.topic,
                partitions=tuple(_answer(broker, context, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _answer(broker: Broker, context: Context, name: str, asked: Any) -> Any:
    code = ErrorCode.none
    leader_epoch, end_offset = -1, -1
    try:
        log = broker.partition(broker.find_topic(name), asked.partition)
        if log is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        check_leader_epoch(log, asked.current_leader_epoch)
        leader_epoch, end_offset = log.epochs.end_offset_for(asked.leader_epoch, log.end_offset)
    except ApiError as error:
        code = error.code
    return context.make(
        "EpochEndOffset",
        error_code=code,
        partition=asked.partition,
        leader_epoch=leader_epoch,
        end_offset=end_offset,
    )


API = Api(key=23, name="OffsetForLeaderEpoch", versions=(2, 4), handle=handle)
