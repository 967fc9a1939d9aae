"""DescribeLogDirs (key 35), versions 1 to 5: the data folder, its room, and the size of its partitions.

Behaviour: one folder. Sizes are of the records alone, as with Apache Kafka. Nothing lags, as there is one
replica, and nothing moves between folders. Partitions that are not there are left out.

Version notes: 3 has an error for the whole reply; 4 gives the size of the disk and what is free (KIP-827); 5
says whether the folder takes new partitions (KIP-1066), which it always does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """The one folder, with the partitions that are asked for, or all."""
    folder = broker.settings.data_dir.absolute()
    if request.topics is None:
        asked = {name: range(len(topic.partitions)) for name, topic in broker.logs.topics.items()}
        topics = _topics(broker, asked.items(), context)
    else:
        topics = _topics(broker, ((each.topic, each.partitions) for each in request.topics), context)
    error, total, usable = ErrorCode.none, -1, -1
    try:
        room = os.statvfs(folder)
        total, usable = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    except OSError:
        error, topics = ErrorCode.kafka_storage_error, ()
    result = context.make(
        "DescribeLogDirsResult",
        error_code=error,
        log_dir=str(folder),
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=False,
    )
    return context.reply(error_code=ErrorCode.none, results=(result,))


def _topics(broker: Broker, asked: Iterable[tuple[str, Iterable[int]]], context: Context) -> tuple[Any, ...]:
    found: dict[str, set[int]] = {}
    for name, indexes in asked:
        topic = broker.logs.topics.get(name)
        held = {index for index in indexes if broker.partition(topic, index) is not None}
        if held:
            found.setdefault(name, set()).update(held)
    return tuple(
        context.make(
            "DescribeLogDirsTopic",
            name=name,
            partitions=tuple(
                context.make(
                    "DescribeLogDirsPartition",
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


API = Api(key=35, name="DescribeLogDirs", versions=(1, 5), handle=handle)
