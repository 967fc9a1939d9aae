"""Produce (key 0), versions 3 to 13, hand-written: record sets are views of the request.

Version notes: 5 adds the log start offset to the reply; 8 adds errors of single records (KIP-467); 9 is the
first flexible version; 10 can name the leader to go to (KIP-951), which a single node never has to; 12 is for
transactions without AddPartitionsToTxn (KIP-890); 13 names topics by id (KIP-516).

Invariants: no record is copied or looked at. `kio` reads and writes the same bytes; the tests hold both
against each other. Never decides anything.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.wire.reader import Reader
from headrace.wire.varints import array_length, string

FLEXIBLE_FROM: Final = 9
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 13

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INDEX: Final = struct.Struct(">i")
_OUTCOME: Final = struct.Struct(">ihqq")
_OUTCOME_WITH_START: Final = struct.Struct(">ihqqq")
# No record errors, no message, no tagged fields.
_NO_ERRORS_COMPACT: Final = b"\x01\x00\x00"
_NO_ERRORS: Final = b"\x00\x00\x00\x00\xff\xff"
_NO_THROTTLE: Final = b"\x00\x00\x00\x00"

TopicKey = str | uuid.UUID


class PartitionData(NamedTuple):
    partition: int
    records: memoryview | None


class TopicData(NamedTuple):
    """The topic by name, or by id from version 13 on."""

    topic: TopicKey
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class Outcome(NamedTuple):
    """The result for one record set. `record_errors` are (index, message) pairs."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None


def read_request(body: memoryview, version: int) -> ProduceRequest:
    """Raises MalformedRequestError."""
    reader = Reader(body, flexible=version >= FLEXIBLE_FROM)
    transactional_id = reader.string()
    acks, timeout_ms = reader.take(_ACKS_TIMEOUT)
    by_id = version >= _TOPIC_IDS_FROM
    topics = []
    for _ in range(reader.array_length()):
        topic: TopicKey = reader.topic_id() if by_id else reader.string() or ""
        partitions = []
        for _ in range(reader.array_length()):
            (index,) = reader.take(_INDEX)
            partitions.append(PartitionData(index, reader.records()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicData(topic, partitions))
    reader.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def write_reply(topics: Sequence[tuple[TopicKey, Sequence[Outcome]]], version: int) -> bytes:
    """The body of the reply, in the order of the request."""
    compact = version >= FLEXIBLE_FROM
    parts = [array_length(len(topics), compact=compact)]
    for topic, outcomes in topics:
        parts.append(topic.bytes if isinstance(topic, uuid.UUID) else string(topic, compact=compact))
        parts.append(array_length(len(outcomes), compact=compact))
        for outcome in outcomes:
            if version >= _LOG_START_FROM:
                parts.append(_OUTCOME_WITH_START.pack(*outcome[:5]))
            else:
                parts.append(_OUTCOME.pack(*outcome[:4]))
            if version < _RECORD_ERRORS_FROM:
                continue
            if not outcome.record_errors and outcome.error_message is None:
                parts.append(_NO_ERRORS_COMPACT if compact else _NO_ERRORS)
            else:
                parts.append(_errors(outcome, compact=compact))
        if compact:
            parts.append(b"\x00")
    parts.append(_NO_THROTTLE)
    if compact:
        parts.append(b"\x00")
    return b"".join(parts)


def _errors(outcome: Outcome, *, compact: bool) -> bytes:
    parts = [array_length(len(outcome.record_errors), compact=compact)]
    for index, message in outcome.record_errors:
        parts.append(_INDEX.pack(index))
        parts.append(string(message, compact=compact))
        if compact:
            parts.append(b"\x00")
    parts.append(string(outcome.error_message, compact=compact))
    if compact:
        parts.append(b"\x00")
    return b"".join(parts)
