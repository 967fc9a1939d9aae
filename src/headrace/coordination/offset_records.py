"""Committed offsets as records of `__consumer_offsets`, in Kafka's own format.

Byte format, key: int16 type 1 (0 in old logs), group, topic, int32 partition. Value: int16 version, then, in
version 4: int64 offset, int32 leader epoch, metadata, int64 commit time, and, if known, the topic's id as
tagged field 0. Version 1 has no leader epoch and ends with the time of expiry; we write it only if the client
asked for its own retention (OffsetCommit 2 to 4). Versions 0 and 2 have neither. Version 3 is version 4 in
plain encoding, without the id. A record without a value deletes the offset.

Invariants: every value decodes to what was encoded. All versions that Kafka ever wrote can be read.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Final

from headrace.coordination.decision import Record
from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter
from headrace.wire.varints import string

OFFSET_COMMIT_KEYS: Final = (0, 1)
NO_LEADER_EPOCH: Final = -1

_VALUE_START: Final = struct.Struct(">hqi")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_WITH_EXPIRY: Final = 1
_WITH_LEADER_EPOCH: Final = 3
_FLEXIBLE: Final = 4
_TOPIC_ID_TAG: Final = 0
# One tagged field: the count, the tag, the size.
_TOPIC_ID_FIELD: Final = bytes((1, _TOPIC_ID_TAG, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetKey:
    """The group and partition of an offset."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The next offset to read, and its metadata. `expires_ms` only if the client asked for it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int
    expires_ms: int | None = None
    topic_id: uuid.UUID | None = None


def _text(value: str) -> bytes:
    encoded = value.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _key(group_id: str, topic: str, partition: int) -> bytes:
    return b"\x00\x01" + _text(group_id) + _text(topic) + _INT32.pack(partition)


def commit_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> Record:
    """The record of a commit."""
    if committed.expires_ms is not None:
        value = (
            FieldWriter()
            .int16(_WITH_EXPIRY)
            .int64(committed.offset)
            .string(committed.metadata)
            .int64(committed.committed_ms)
            .int64(committed.expires_ms)
            .done()
        )
    else:
        topic_id = committed.topic_id
        value = (
            _VALUE_START.pack(_FLEXIBLE, committed.offset, committed.leader_epoch)
            + string(committed.metadata, compact=True)
            + _INT64.pack(committed.committed_ms)
            + (b"\x00" if topic_id is None else _TOPIC_ID_FIELD + topic_id.bytes)
        )
    return Record(key=_key(group_id, topic, partition), value=value)


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The record that deletes an offset."""
    return Record(key=_key(group_id, topic, partition), value=None)


def read_key(key: bytes) -> OffsetKey:
    """The key of an offset. Raises CorruptRecordError."""
    reader = FieldReader(key)
    kind = reader.int16()
    if kind not in OFFSET_COMMIT_KEYS:
        raise CorruptRecordError(f"a key of type {kind} does not belong to an offset")
    return OffsetKey(group_id=reader.string(), topic=reader.string(), partition=reader.int32())


def read_value(value: bytes) -> CommittedOffset:
    """The value of an offset, of any version. Raises CorruptRecordError."""
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= _FLEXIBLE:
        raise CorruptRecordError(f"an offset has the unknown version {version}")
    if version >= _FLEXIBLE:
        reader.become_flexible()
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= _WITH_LEADER_EPOCH else NO_LEADER_EPOCH
    metadata = reader.string()
    committed_ms = reader.int64()
    expires_ms = reader.int64() if version == _WITH_EXPIRY else -1
    topic_id = reader.tagged_fields().get(_TOPIC_ID_TAG)
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        committed_ms=committed_ms,
        expires_ms=None if expires_ms == -1 else expires_ms,
        topic_id=None if topic_id is None or len(topic_id) != 16 else uuid.UUID(bytes=topic_id),
    )
