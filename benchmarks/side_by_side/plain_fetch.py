"""Reads a partition with Fetch requests over a plain socket and looks only at batch headers.

It does almost no work per record, so its rate is what the broker can serve, while a real client would be busy
with records. Uses Fetch version 4, the oldest that Apache Kafka 4 accepts, because it names topics, and sends
one request at a time, like librdkafka.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, Self

from side_by_side.engines import HOST

VERSION: Final = 4
MAX_BYTES: Final = 1024 * 1024  # librdkafka's fetch.message.max.bytes
ROOM: Final = MAX_BYTES + 4096  # for what precedes the records
# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta: the start of a batch.
BATCH_START: Final = struct.Struct(">qiibIhi")
LENGTH_END: Final = 12


class PlainFetcher:
    """A connection that reads one partition from its start."""

    def __init__(self, port: int, topic: str) -> None:
        name = topic.encode()
        body = struct.pack(">iiiibih", -1, 500, 1, MAX_BYTES, 0, 1, len(name)) + name
        header = struct.pack(">hhih", 1, VERSION, 7, -1)
        # Followed by the partition, the offset, the maximum number of bytes.
        self._request = header + body + struct.pack(">ii", 1, 0)
        # Followed by high-water mark, last stable offset, aborted transactions, size of the records.
        self._answer_start = 4 + 4 + 4 + 2 + len(name) + 4
        self._buffer = bytearray(ROOM)
        self._socket = socket.create_connection((HOST, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def read_until(self, end: int) -> int:
        """Fetch from offset 0 until `end`; returns how many bytes of batches that took."""
        offset = size = 0
        while offset < end:
            offset, more = self._fetch(offset)
            size += more
        return size

    def _fetch(self, offset: int) -> tuple[int, int]:
        """The offset after the last complete batch, and the bytes up to there."""
        request = self._request + struct.pack(">qi", offset, MAX_BYTES)
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(length)
        _, error, _, _, aborted, size = struct.unpack_from(">ihqqii", answer, self._answer_start)
        if error or aborted > 0:
            raise RuntimeError(f"Fetch at {offset}: error {error}, {aborted} aborted transactions")
        position = begin = self._answer_start + 30
        while position + BATCH_START.size <= begin + size:
            base, batch, _, _, _, _, delta = BATCH_START.unpack_from(answer, position)
            if position + LENGTH_END + batch > begin + size:
                break
            position += LENGTH_END + batch
            offset = base + delta + 1
        return offset, position - begin

    def _receive(self, size: int) -> memoryview:
        if size > len(self._buffer):
            raise RuntimeError(f"a response of {size} bytes; at most {len(self._buffer)} were expected")
        view = memoryview(self._buffer)[:size]
        received = 0
        while received < size:
            count = self._socket.recv_into(view[received:])
            if not count:
                raise RuntimeError("the broker closed the connection")
            received += count
        return view
