"""Fetch (key 1), versions 4 to 18, hand-written: records go from file to socket unchanged.

Version notes: 5 adds the log start offset; 7 fetch sessions (KIP-227); 9 the leader epoch (KIP-320); 11 the
rack and the preferred replica (KIP-392); 12 is the first flexible version; 13 names topics by id (KIP-516);
15 moves the replica's id into a tagged field (KIP-903); 17 and 18 add tagged fields for replicas, which a
single node does not have.

Invariants: a reply is a list of pieces, in which records are parts of files. `kio` reads and writes the same
bytes; tests compare both. Never decides anything.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.wire.pieces import Piece
from headrace.wire.produce import TopicKey
from headrace.wire.reader import Reader
from headrace.wire.varints import array_length, string

FLEXIBLE_FROM: Final = 12
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_TOPIC_IDS_FROM: Final = 13
_NO_REPLICA_ID_FROM: Final = 15

_REPLICA: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_INDEX: Final = struct.Struct(">i")
# Per version: partition, [leader epoch], offset, [last fetched epoch], [log start offset], max bytes.
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")

_HEAD: Final = struct.Struct(">i")
_HEAD_WITH_SESSION: Final = struct.Struct(">ihi")
_STATE: Final = struct.Struct(">ihqq")
_STATE_WITH_START: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_NO_REPLICA: Final = b"\xff\xff\xff\xff"


class PartitionFetch(NamedTuple):
    """`leader_epoch` and `last_epoch` are -1 if the client does not know them."""

    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


class FetchRequest(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[PartitionFetch]]]
    forgotten: list[tuple[TopicKey, list[int]]]


class PartitionReply(NamedTuple):
    """`records` is a buffer or a part of a file, with `size` bytes."""

    partition: int
    error_code: int
    high_water_mark: int
    last_stable_offset: int
    log_start_offset: int
    # None for readers of all records, a list for readers of committed records.
    aborted: Sequence[tuple[int, int]] | None = None
    records: Piece | None = None
    size: int = 0


def read_request(body: memoryview, version: int) -> FetchRequest:
    """Raises MalformedRequestError."""
    reader = Reader(body, flexible=version >= FLEXIBLE_FROM)
    if version < _NO_REPLICA_ID_FROM:
        reader.take(_REPLICA)
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.take(_LIMITS)
    session_id, session_epoch = reader.take(_SESSION) if version >= _SESSIONS_FROM else (0, -1)
    topics = []
    for _ in range(reader.array_length()):
        topic = _topic(reader, version)
        partitions = []
        for _ in range(reader.array_length()):
            partitions.append(_partition(reader, version))
            reader.skip_tags()
        reader.skip_tags()
        topics.append((topic, partitions))
    forgotten = []
    if version >= _SESSIONS_FROM:
        for _ in range(reader.array_length()):
            topic = _topic(reader, version)
            indexes = [reader.take(_INDEX)[0] for _ in range(reader.array_length())]
            reader.skip_tags()
            forgotten.append((topic, indexes))
    if version >= _RACK_FROM:
        reader.string()
    reader.skip_tags()
    return FetchRequest(
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten
    )


def write_reply(
    topics: Sequence[tuple[TopicKey, Sequence[PartitionReply]]],
    version: int,
    *,
    error_code: int = 0,
    session_id: int = 0,
) -> list[Piece]:
    """The body of the reply as buffers and parts of files, in order."""
    compact = version >= FLEXIBLE_FROM
    pieces: list[Piece] = []
    head = bytearray(
        _HEAD_WITH_SESSION.pack(0, error_code, session_id) if version >= _SESSIONS_FROM else _HEAD.pack(0)
    )
    head += array_length(len(topics), compact=compact)
    for topic, partitions in topics:
        head += topic.bytes if isinstance(topic, uuid.UUID) else string(topic, compact=compact)
        head += array_length(len(partitions), compact=compact)
        for partition in partitions:
            if version >= _LOG_START_FROM:
                head += _STATE_WITH_START.pack(*partition[:5])
            else:
                head += _STATE.pack(*partition[:4])
            head += _aborted(partition.aborted, compact=compact)
            if version >= _RACK_FROM:
                head += _NO_REPLICA
            head += array_length(partition.size, compact=compact)
            if partition.size and (records := partition.records) is not None:
                pieces.append(head)
                pieces.append(records)
                head = bytearray()
            if compact:
                head += b"\x00"
        if compact:
            head += b"\x00"
    if compact:
        head += b"\x00"
    pieces.append(head)
    return pieces


def _topic(reader: Reader, version: int) -> TopicKey:
    return reader.topic_id() if version >= _TOPIC_IDS_FROM else reader.string() or ""


def _partition(reader: Reader, version: int) -> PartitionFetch:
    if version >= FLEXIBLE_FROM:
        index, epoch, offset, last_epoch, _start, max_bytes = reader.take(_PARTITION_V12)
        return PartitionFetch(index, epoch, offset, last_epoch, max_bytes)
    if version >= _LEADER_EPOCH_FROM:
        index, epoch, offset, _start, max_bytes = reader.take(_PARTITION_V9)
        return PartitionFetch(index, epoch, offset, -1, max_bytes)
    if version >= _LOG_START_FROM:
        index, offset, _start, max_bytes = reader.take(_PARTITION_V5)
        return PartitionFetch(index, -1, offset, -1, max_bytes)
    index, offset, max_bytes = reader.take(_PARTITION_V4)
    return PartitionFetch(index, -1, offset, -1, max_bytes)


def _aborted(aborted: Sequence[tuple[int, int]] | None, *, compact: bool) -> bytes:
    if aborted is None:
        return b"\x00" if compact else b"\xff\xff\xff\xff"
    encoded = array_length(len(aborted), compact=compact)
    for producer_id, first_offset in aborted:
        encoded += _ABORTED.pack(producer_id, first_offset)
        if compact:
            encoded += b"\x00"
    return encoded
