"""A transaction as a record of `__transaction_state`, in Kafka's own format.

Byte format, key: int16 type 0, transactional id. Value: int16 version 1, then int64 producer id, int16
epoch, int32 timeout, int8 state (`states.State`), the partitions by topic (null in the state Empty), int64
time of the last change, int64 time of the beginning (-1 for none). Tagged fields: 0 int64 previous producer
id, 1 int64 next producer id, 2 int16 version of the client's protocol; left out if -1, -1 and 0. Version 0
has plain lengths and no tagged fields. A record without a value deletes the id.

The tagged field 10001 is our own: the int16 previous epoch, left out if -1. Kafka forgets this epoch when a
coordinator restarts, and then mistakes a repeated InitProducerId (KIP-360) for a fenced producer. Its readers
skip unknown tagged fields (KIP-915).

Invariants: every value decodes to what was encoded. Both versions can be read.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.coordination.decision import Record
from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter
from headrace.coordination.transactions.states import State

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NOT_BEGUN: Final = -1

_UTF16: Final = struct.Struct(">H")
_KEY_TYPE: Final = 0
_VERSION: Final = 1
_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_LAST_EPOCH_TAG: Final = 10_001


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of a transactional id.

    `last_producer_epoch` is the previous epoch of the producer, with which it may repeat a request.
    `next_producer_id` is the id for the next transaction if epochs are used up.
    """

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NOT_BEGUN
    updated_ms: int
    client_version: int = 0


def key_of(transactional_id: str) -> bytes:
    return FieldWriter().int16(_KEY_TYPE).string(transactional_id).done()


def transaction_record(transaction: Transaction) -> Record:
    """The record of the current state of a transaction."""
    writer = (
        FieldWriter(flexible=True)
        .int16(_VERSION)
        .int64(transaction.producer_id)
        .int16(transaction.producer_epoch)
        .int32(transaction.timeout_ms)
        .int8(transaction.state)
    )
    if transaction.state is State.EMPTY:
        writer.array_length(None)
    else:
        by_topic = defaultdict(list)
        for topic, partition in sorted(transaction.partitions):
            by_topic[topic].append(partition)
        writer.array_length(len(by_topic))
        for topic, partitions in by_topic.items():
            writer.string(topic).array_length(len(partitions))
            for partition in partitions:
                writer.int32(partition)
            writer.tagged_fields({})
    writer.int64(transaction.updated_ms).int64(transaction.started_ms).tagged_fields(_tags(transaction))
    return Record(key=key_of(transaction.transactional_id), value=writer.done())


def tombstone(transactional_id: str) -> Record:
    """The record that deletes an id."""
    return Record(key=key_of(transactional_id), value=None)


def _tags(transaction: Transaction) -> dict[int, bytes]:
    tags = {}
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags[_PREVIOUS_ID_TAG] = FieldWriter().int64(transaction.previous_producer_id).done()
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags[_NEXT_ID_TAG] = FieldWriter().int64(transaction.next_producer_id).done()
    if transaction.client_version:
        tags[_CLIENT_VERSION_TAG] = FieldWriter().int16(transaction.client_version).done()
    if transaction.last_producer_epoch != NO_EPOCH:
        tags[_LAST_EPOCH_TAG] = FieldWriter().int16(transaction.last_producer_epoch).done()
    return tags


def read_key(key: bytes) -> str | None:
    """The transactional id; None for a type that only a newer Kafka knows. Raises CorruptRecordError."""
    reader = FieldReader(key)
    return reader.string() if reader.int16() == _KEY_TYPE else None


def read_value(transactional_id: str, value: bytes) -> Transaction:
    """Raises CorruptRecordError."""
    reader = FieldReader(value)
    version = reader.int16()
    if version not in (0, _VERSION):
        raise CorruptRecordError(f"a transaction has the unknown version {version}")
    if version == _VERSION:
        reader.become_flexible()
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = _state(reader.int8())
    partitions = set()
    for _ in range(reader.array_length()):
        topic = reader.string()
        partitions |= {TopicPartition(topic, reader.int32()) for _ in range(reader.array_length())}
        reader.tagged_fields()
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = reader.tagged_fields()
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        previous_producer_id=_int64(tags, _PREVIOUS_ID_TAG),
        next_producer_id=_int64(tags, _NEXT_ID_TAG),
        producer_epoch=producer_epoch,
        last_producer_epoch=_int16(tags, _LAST_EPOCH_TAG, NO_EPOCH),
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset(partitions),
        started_ms=started_ms,
        updated_ms=updated_ms,
        client_version=_int16(tags, _CLIENT_VERSION_TAG, 0),
    )


def _state(number: int) -> State:
    try:
        return State(number)
    except ValueError:
        raise CorruptRecordError(f"a transaction has the unknown state {number}") from None


def _int64(tags: dict[int, bytes], tag: int) -> int:
    return FieldReader(tags[tag]).int64() if tag in tags else NO_PRODUCER_ID


def _int16(tags: dict[int, bytes], tag: int, default: int) -> int:
    return FieldReader(tags[tag]).int16() if tag in tags else default


def shard_of(transactional_id: str, shards: int) -> int:
    """The partition that an id belongs to, by the hash of Java's strings."""
    number = 0
    units = transactional_id.encode("utf-16-be", "surrogatepass")
    for (unit,) in _UTF16.iter_unpack(units):
        number = (31 * number + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    # In Java the smallest integer has no absolute value; Kafka uses 0.
    return (0 if signed == -(1 << 31) else abs(signed)) % shards
