"""A proxy that answers Fetch itself with as little work as possible, and forwards everything else.

It sits in front of an embedded broker and reads the segment file of one of its partitions. The starts of all
batches are known in advance, and so are the answers, except for their correlation ids. Each connection has a
thread with blocking sockets, which looks up the offset, then sends what precedes the records, the records by
`sendfile`, and what follows them. Whatever it does not expect (the end of the partition, another request)
goes to the broker, in whose answers it substitutes its own port.

    python benchmarks/side_by_side/prepared_fetch.py PORT BROKER_PORT SEGMENT_FILE
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Final, NamedTuple

from headrace.wire.errors import WireError
from headrace.wire.fetch import FLEXIBLE_FROM, FetchRequest, PartitionReply, read_request, write_reply
from headrace.wire.request_header import RequestHeader, body_of, read_request_header, reply_header

HOST: Final = "127.0.0.1"
FETCH: Final = b"\x00\x01"
SIZE: Final = struct.Struct(">i")
OFFSET: Final = struct.Struct(">q")
READ_COMMITTED: Final = 1
SEND_BUFFER_BYTES: Final = 102_400
RECEIVED_AT_ONCE: Final = 64 * 1024
# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta: the start of a batch.
BATCH_START: Final = struct.Struct(">qiibIhi")
LENGTH_END: Final = 12
# An offset that no partition has.
MARK: Final = 0x0123456789ABCDEF


class Answer(NamedTuple):
    """A reply: before the correlation id, after it, the records' place in the file, after the records."""

    size_of_frame: bytes
    head: bytes
    position: int
    size: int
    tail: bytes


class Kind(NamedTuple):
    """Fetch requests that differ only in correlation id and offset, with the answers to all of them."""

    example: bytes
    offset_at: int
    answers: dict[int, Answer]

    def fits(self, frame: bytes) -> bool:
        behind = self.offset_at + OFFSET.size
        return (
            len(frame) == len(self.example)
            and frame[:4] == self.example[:4]
            and frame[8 : self.offset_at] == self.example[8 : self.offset_at]
            and frame[behind:] == self.example[behind:]
        )


class Partition:
    """The file, and where its batches start."""

    def __init__(self, file: Path) -> None:
        self.descriptor = os.open(file, os.O_RDONLY)
        self.size = os.fstat(self.descriptor).st_size
        self.end_offset = 0
        self.positions: dict[int, int] = {}
        self.kinds: list[Kind] = []
        position = 0
        while position < self.size:
            start = os.pread(self.descriptor, BATCH_START.size, position)
            base, length, _, _, _, _, delta = BATCH_START.unpack(start)
            self.positions[base] = position
            self.end_offset = base + delta + 1
            position += LENGTH_END + length

    def answers(self, request: FetchRequest, version: int) -> dict[int, Answer]:
        """The answers to requests like this one, for each batch."""
        ((topic, (fetch,)),) = request.topics
        most = min(request.max_bytes, fetch.max_bytes)
        aborted = () if request.isolation_level == READ_COMMITTED else None
        end = self.end_offset
        found = {}
        for offset, position in self.positions.items():
            size = min(most, self.size - position)
            reply = PartitionReply(fetch.partition, 0, end, end, 0, aborted, None, size)
            head, _, tail = write_reply([(topic, [reply])], version)
            length = len(head) + size + len(tail)
            header = reply_header(0, length, flexible=version >= FLEXIBLE_FROM)
            # The header starts with the size and the correlation id.
            found[offset] = Answer(header[:4], header[8:] + head, position, size, bytes(tail))
        return found


class GoBetween:
    """A client's connection, and one to the broker."""

    def __init__(self, client: socket.socket, partition: Partition, port: int, broker_port: int) -> None:
        self._client = client
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._broker = socket.create_connection((HOST, broker_port))
        self._partition = partition
        # In every version, an address in a reply is a host followed by a port.
        self._addresses = (address(broker_port), address(port))

    def run(self) -> None:
        held = b""
        with self._client, self._broker:
            while data := self._client.recv(RECEIVED_AT_ONCE):
                held += data
                while len(held) >= SIZE.size and len(held) >= (end := SIZE.size + SIZE.unpack_from(held)[0]):
                    self._answer(held[SIZE.size : end])
                    held = held[end:]

    def _answer(self, frame: bytes) -> None:
        kind = self._kind(frame) if frame[:2] == FETCH else None
        answer = kind and kind.answers.get(OFFSET.unpack_from(frame, kind.offset_at)[0])
        if answer:
            self._send(answer, frame[4:8])
        else:
            self._pass_on(frame)

    def _send(self, answer: Answer, correlation: bytes) -> None:
        size_of_frame, head, position, size, tail = answer
        client = self._client
        client.send(size_of_frame + correlation + head)
        end = position + size
        while position < end:
            position += os.sendfile(client.fileno(), self._partition.descriptor, position, end - position)
        if tail:
            client.send(tail)

    def _pass_on(self, frame: bytes) -> None:
        self._broker.sendall(SIZE.pack(len(frame)) + frame)
        (size,) = SIZE.unpack(self._broker.recv(SIZE.size, socket.MSG_WAITALL))
        reply = self._broker.recv(size, socket.MSG_WAITALL)
        self._client.sendall(SIZE.pack(size) + reply.replace(*self._addresses))

    def _kind(self, frame: bytes) -> Kind | None:
        """Learned from the first request of a kind.

        To find the position of the offset, a marker is tried at each position until it is read as the offset.
        No session is started: the client is offered none, and names its partition in every request.
        """
        kinds = self._partition.kinds
        for kind in kinds:
            if kind.fits(frame):
                return kind
        header = read_request_header(memoryview(frame))
        request = read(frame, header)
        if request is None or request.session_id:
            return None
        for position in range(header.end, len(frame) - OFFSET.size):
            marked = bytearray(frame)
            OFFSET.pack_into(marked, position, MARK)
            other = read(bytes(marked), header)
            if other is not None and other.topics[0][1][0].offset == MARK:
                kinds.append(Kind(frame, position, self._partition.answers(request, header.version)))
                return kinds[-1]
        return None


def read(frame: bytes, header: RequestHeader) -> FetchRequest | None:
    """The request, if it is one and has a single partition."""
    flexible = header.version >= FLEXIBLE_FROM
    try:
        request = read_request(body_of(memoryview(frame), header, flexible=flexible), header.version)
    except WireError:
        return None
    return request if [len(partitions) for _topic, partitions in request.topics] == [1] else None


def address(port: int) -> bytes:
    return HOST.encode() + SIZE.pack(port)


def main(port: int, broker_port: int, file: Path) -> None:
    partition = Partition(file)
    with socket.create_server((HOST, port)) as listener:
        # As in the embedded broker and Apache Kafka: how the bytes arrive matters to librdkafka.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            go_between = GoBetween(client, partition, port, broker_port)
            threading.Thread(target=go_between.run, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
