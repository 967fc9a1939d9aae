"""How many bytes each partition takes on disk, requested from every broker (DescribeLogDirs, key 35).

librdkafka's admin client lacks this request, so it is sent over a plain socket, in version 1, which every
Kafka since 1.0 supports. Invariants: the largest replica of a partition counts; if a broker does not answer,
only its partitions' sizes are missing, because the rest is still worth showing. Never waits longer than its
timeout for a broker.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterable
from typing import Any, Final

from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.serial import entity_reader
from kio.serial.errors import SerialError

_log = logging.getLogger(__name__)
_KEY: Final = 35
_VERSION: Final = 1
_CORRELATION: Final = 1
_CLIENT: Final = b"headrace-sizes"
# A null array: all topics of all folders.
_EVERYTHING: Final = struct.pack(">i", -1)
_MOST_BYTES: Final = 64 * 1024 * 1024
_read: Final = entity_reader(DescribeLogDirsResponse)

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


def _ask(host: str, port: int, timeout_seconds: float) -> Any:
    header = struct.pack(">hhih", _KEY, _VERSION, _CORRELATION, len(_CLIENT)) + _CLIENT
    request = header + _EVERYTHING
    with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 4 <= size <= _MOST_BYTES:
            raise ValueError(f"a response of {size} bytes")
        answer = _receive(connection, size)
    reply, _end = _read(answer, 4)
    return reply


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(size - len(received), 65_536))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return bytes(received)
