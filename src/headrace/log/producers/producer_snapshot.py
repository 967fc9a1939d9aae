"""The snapshot file of a partition's idempotent producers: `<offset>.snapshot`, in Apache Kafka's format.

Byte format, all big-endian:

    0 version i16 (1) | 2 crc u32 | 6 number of producers i32, then for each of them 46 bytes:
    producer_id i64 | epoch i16 | last_sequence i32 | last_offset i64 | offset_delta i32 | timestamp i64
    coordinator_epoch i32 | transaction_first_offset i64

    then our own part, which Kafka's reader ignores: the batches before the newest of each producer:
    number of batches i32, then for each of them 32 bytes, oldest first:
    producer_id i64 | last_sequence i32 | last_offset i64 | offset_delta i32 | timestamp i64

The CRC-32C covers everything after itself. -1 means "no batch" (last_sequence, last_offset) and "no open
transaction". Kafka remembers only the newest batch of a producer; a producer that had several requests in
flight when the broker stopped then resends batches that are no longer known, and gets an out-of-order error.
Hence our part; Kafka's files end before it. The offset in the name is the log's end when the snapshot was
taken; later batches are replayed.

Crash behaviour: a truncated or damaged file fails its checksum (CorruptSnapshotError); the caller deletes it
and uses the one before, or replays the log from its start. Nothing here touches a file.

Who may call: ProducerState, and tools that read a partition's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

VERSION: Final = 1

_HEAD: Final = Struct(">hIi")
_PRODUCER: Final = Struct(">qhiqiqiq")
_COUNT: Final = Struct(">i")
_BATCH: Final = Struct(">qiqiq")
_CHECKED_FROM: Final = 6


class CorruptSnapshotError(Exception):
    """The bytes are not a complete producer snapshot."""


class ProducerSnapshot(NamedTuple):
    """Kafka's part for one producer, in byte order."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


class BatchSnapshot(NamedTuple):
    """Our part for a batch before the newest, in byte order."""

    producer_id: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


def encode(producers: Sequence[ProducerSnapshot], batches: Sequence[BatchSnapshot] = ()) -> bytes:
    """The content of a snapshot file."""
    content = bytearray(_HEAD.pack(VERSION, 0, len(producers)))
    for producer in producers:
        content += _PRODUCER.pack(*producer)
    if batches:
        content += _COUNT.pack(len(batches))
        for batch in batches:
            content += _BATCH.pack(*batch)
    with memoryview(content) as view:
        checksum = crc32c(view[_CHECKED_FROM:])
    _HEAD.pack_into(content, 0, VERSION, checksum, len(producers))
    return bytes(content)


def decode(content: bytes) -> tuple[list[ProducerSnapshot], list[BatchSnapshot]]:
    """The producers in a snapshot file, and their batches before the newest. Raises CorruptSnapshotError."""
    if len(content) < _HEAD.size:
        raise CorruptSnapshotError(f"a producer snapshot of {len(content)} bytes")
    version, checksum, count = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshotError(f"a producer snapshot of the unknown version {version}")
    if crc32c(content[_CHECKED_FROM:]) != checksum:
        raise CorruptSnapshotError("the checksum of the producer snapshot is wrong")
    end = _HEAD.size + count * _PRODUCER.size
    if count < 0 or end > len(content):
        raise CorruptSnapshotError(f"{len(content)} bytes cannot be {count} producers")
    producers = [ProducerSnapshot(*fields) for fields in _PRODUCER.iter_unpack(content[_HEAD.size : end])]
    return producers, _batches(content[end:])


def _batches(part: bytes) -> list[BatchSnapshot]:
    """Our own part; nothing if Kafka wrote the file."""
    if not part:
        return []
    count = _COUNT.unpack_from(part)[0] if len(part) >= _COUNT.size else -1
    if len(part) != _COUNT.size + count * _BATCH.size:
        raise CorruptSnapshotError(f"{len(part)} bytes cannot be {count} batches")
    return [BatchSnapshot(*fields) for fields in _BATCH.iter_unpack(part[_COUNT.size :])]
