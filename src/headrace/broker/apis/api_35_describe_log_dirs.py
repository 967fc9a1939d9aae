"""DescribeLogDirs (key 35), versions 1 to 5: the data folder, its disk space, and the sizes of partitions.

Behaviour: there is one folder. Sizes count only records, as in Apache Kafka. There is one replica, so nothing
lags, and nothing moves between folders. Missing partitions are left out.

Version notes: 3 has a top-level error; 4 returns the total and usable bytes of the disk (KIP-827); 5 says
whether the folder is cordoned (KIP-1066), which it never is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kio.schema.describe_log_dirs.v5 import request as requests
from kio.schema.describe_log_dirs.v5 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.DescribeLogDirsRequest, _context: Context
) -> responses.DescribeLogDirsResponse:
    """The data folder, with the requested partitions or all of them."""
    folder = broker.settings.data_dir.absolute()
    if request.topics is None:
        asked = {name: range(len(topic.partitions)) for name, topic in broker.logs.topics.items()}
        topics = _topics(broker, asked.items())
    else:
        topics = _topics(broker, ((each.topic, each.partitions) for each in request.topics))
    error, total, usable = ErrorCode.none, -1, -1
    try:
        room = os.statvfs(folder)
        total, usable = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    except OSError:
        error, topics = ErrorCode.kafka_storage_error, ()
    result = responses.DescribeLogDirsResult(
        error_code=error,
        log_dir=str(folder),
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=False,
    )
    return responses.DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(result,)
    )


def _topics(
    broker: Broker, asked: Iterable[tuple[str, Iterable[int]]]
) -> tuple[responses.DescribeLogDirsTopic, ...]:
    found: dict[str, set[int]] = {}
    for name, indexes in asked:
        topic = broker.logs.topics.get(name)
        held = {index for index in indexes if broker.partition(topic, index) is not None}
        if held:
            found.setdefault(name, set()).update(held)
    return tuple(
        responses.DescribeLogDirsTopic(
            name=name,
            partitions=tuple(
                responses.DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=broker.logs.topics[name].partitions[index].size_bytes,
                    offset_lag=0,
                    is_future_key=False,
                )
                for index in sorted(indexes)
            ),
        )
        for name, indexes in found.items()
    )


HANDLER = Typed(requests.DescribeLogDirsRequest, responses.DescribeLogDirsResponse, handle)
