"""How many bytes each partition takes on disk, requested from every broker (DescribeLogDirs, key 35).

librdkafka's admin client lacks this request, so it is sent over a plain socket, in version 1, which every
Kafka since 1.0 supports. Invariants: the largest replica of a partition counts; if a broker does not answer,
only its partitions' sizes are missing, because the rest is still worth showing. Never waits longer than its
timeout for a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.serial.errors import SerialError

from headrace.client.broker_connection import BrokerConnection

_log = logging.getLogger(__name__)
# No list of topics means all of them.
_EVERYTHING: Final = DescribeLogDirsRequest(topics=None)

Place = tuple[str, int]


def partition_sizes(brokers: Iterable[tuple[str, int]], timeout_seconds: float) -> dict[Place, int]:
    """Bytes by topic and partition, for the partitions that a broker reported."""
    sizes: dict[Place, int] = {}
    for host, port in brokers:
        try:
            reply = _ask(host, port, timeout_seconds)
        except (OSError, SerialError, ValueError) as error:
            _log.warning("%s:%d did not report the sizes of its partitions: %s", host, port, error)
            continue
        for folder in reply.results:
            for topic in folder.topics:
                for partition in topic.partitions:
                    # A replica being moved between folders is not the partition yet.
                    if not partition.is_future_key:
                        place = (str(topic.name), int(partition.partition_index))
                        sizes[place] = max(sizes.get(place, 0), int(partition.partition_size))
    return sizes


def _ask(host: str, port: int, timeout_seconds: float) -> DescribeLogDirsResponse:
    connection = BrokerConnection(host, port, timeout_seconds=timeout_seconds)
    try:
        connection.send(_EVERYTHING)
        return connection.receive(DescribeLogDirsResponse)
    finally:
        connection.close()
