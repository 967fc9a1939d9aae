"""The file that remembers a partition's idempotent producers: `<offset>.snapshot`, in Apache Kafka's format.

Byte format, all big-endian:

    0 version i16 (1) | 2 crc u32 | 6 number of producers i32, then for each of them 46 bytes:
    producer_id i64 | epoch i16 | last_sequence i32 | last_offset i64 | offset_delta i32 | timestamp i64
    coordinator_epoch i32 | transaction_first_offset i64

The CRC-32C covers everything behind itself. Only the newest batch of each producer is remembered, as
Kafka does; -1 stands for "no batch" (last_sequence, last_offset) and for "no open transaction". The
name's offset is the log's end when the snapshot was taken: what was appended behind it is replayed from
the batches.

Crash behaviour: a file that was cut off or damaged fails its checksum (CorruptSnapshotError); the caller
deletes it and takes the one before, or replays the log from its start. Nothing here touches a file.

Who may call: ProducerState, and tools that read a partition's folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

VERSION: Final = 1

_HEAD: Final = Struct(">hIi")
_PRODUCER: Final = Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6


class CorruptSnapshotError(Exception):
    """The bytes are not a whole producer snapshot."""


class ProducerSnapshot(NamedTuple):
    """What the file says of one producer, in the order of the bytes."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode(producers: Iterable[ProducerSnapshot]) -> bytes:
    """The content of a snapshot file."""
    entries = [_PRODUCER.pack(*producer) for producer in producers]
    content = bytearray(_HEAD.pack(VERSION, 0, len(entries)))
    for entry in entries:
        content += entry
    with memoryview(content) as view:
        checksum = crc32c(view[_CHECKED_FROM:])
    _HEAD.pack_into(content, 0, VERSION, checksum, len(entries))
    return bytes(content)


def decode(content: bytes) -> list[ProducerSnapshot]:
    """The producers in a snapshot file. Raises CorruptSnapshotError."""
    if len(content) < _HEAD.size:
        raise CorruptSnapshotError(f"a producer snapshot of {len(content)} bytes")
    version, checksum, count = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshotError(f"a producer snapshot of the unknown version {version}")
    if crc32c(content[_CHECKED_FROM:]) != checksum:
        raise CorruptSnapshotError("the checksum of the producer snapshot is wrong")
    if len(content) != _HEAD.size + count * _PRODUCER.size:
        raise CorruptSnapshotError(f"{len(content)} bytes cannot be {count} producers")
    return [ProducerSnapshot(*fields) for fields in _PRODUCER.iter_unpack(content[_HEAD.size :])]
