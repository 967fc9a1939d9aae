"""Groups of the consumer protocol (KIP-848) as records of `__consumer_offsets`, in Kafka's own format.

Byte format, key: int16 type, group, and for some a name. Value: int16 version 0, then flexible encoding
(KIP-482):

| type | name | value |
|---|---|---|
| 3 | | int32 group epoch; tag 0: int64 hash of the topics |
| 4 | | topics with partition counts; written until Kafka 4.0, since then only its tombstone (KIP-1101) |
| 5 | member | instance, rack, client, host, topics, expression, int32 timeout, assignor; tag 0: see below |
| 6 | | int32 assignment epoch; tag 0: int64 time (KIP-1263) |
| 7 | member | target: topics as id and partitions |
| 8 | member | int32 epoch, int32 previous epoch, int8 state, assigned, revoking; tag 0 of a topic: epochs |
| 16 | expression | topics, int64 version, int64 time |

Tag 0 of type 5 contains the protocols of a member that speaks the classic protocol. The epochs of type 8 are
those in which the member got each partition (KIP-1251).

Invariants: every value decodes to what was encoded. Records of all versions of Kafka that have this protocol
can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from headrace.coordination.consumer.values import (
    AssignmentEpoch,
    ClassicProtocols,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    PartitionEpochs,
    ResolvedExpression,
    TargetAssignment,
)
from headrace.coordination.decision import Record
from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter

_VERSION: Final = 0
_KNOWN_STATES: Final = frozenset(MemberState)


class RecordType(IntEnum):
    """The types of keys that belong to consumer groups."""

    GROUP = 3
    TOPICS = 4
    MEMBER = 5
    TARGET = 6
    TARGET_MEMBER = 7
    CURRENT = 8
    EXPRESSION = 16


CONSUMER_GROUP_KEYS: Final = tuple(int(kind) for kind in RecordType)
_NAMED: Final = frozenset(
    (RecordType.MEMBER, RecordType.TARGET_MEMBER, RecordType.CURRENT, RecordType.EXPRESSION)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKey:
    """What a record is about. The name is a member id or an expression, or empty if the type has none."""

    type: RecordType
    group_id: str
    name: str = ""


Value = (
    GroupEpoch | MemberMetadata | AssignmentEpoch | TargetAssignment | CurrentAssignment | ResolvedExpression
)


def record(key: RecordKey, value: Value | None) -> Record:
    """The record of a value; without one, a tombstone."""
    encoded_key = FieldWriter().int16(key.type).string(key.group_id)
    if key.type in _NAMED:
        encoded_key.string(key.name)
    if value is None:
        return Record(key=encoded_key.done(), value=None)
    writer = FieldWriter(flexible=True).int16(_VERSION)
    _WRITE[key.type](writer, value)
    return Record(key=encoded_key.done(), value=writer.done())


def read_key(key: bytes) -> RecordKey:
    """Raises CorruptRecordError."""
    reader = FieldReader(key)
    kind = reader.int16()
    if kind not in CONSUMER_GROUP_KEYS:
        raise CorruptRecordError(f"a key of type {kind} does not belong to a consumer group")
    found = RecordType(kind)
    return RecordKey(type=found, group_id=reader.string(), name=reader.string() if found in _NAMED else "")


def read_value(key: RecordKey, value: bytes) -> Value | None:
    """None for type 4, which a hash has replaced. Raises CorruptRecordError."""
    reader = FieldReader(value, flexible=True)
    version = reader.int16()
    if version != _VERSION:
        raise CorruptRecordError(f"a value of type {key.type} has the unknown version {version}")
    read = _READ.get(key.type)
    return None if read is None else read(reader)


def _write_group(writer: FieldWriter, value: GroupEpoch) -> None:
    tags = {0: FieldWriter().int64(value.metadata_hash).done()} if value.metadata_hash else {}
    writer.int32(value.epoch).tagged_fields(tags)


def _read_group(reader: FieldReader) -> GroupEpoch:
    epoch = reader.int32()
    return GroupEpoch(epoch=epoch, metadata_hash=_tagged_int64(reader.tagged_fields()))


def _write_member(writer: FieldWriter, value: MemberMetadata) -> None:
    writer.nullable_string(value.instance_id).nullable_string(value.rack_id)
    writer.string(value.client_id).string(value.client_host)
    _write_names(writer, value.topic_names)
    writer.nullable_string(value.topic_expression).int32(value.rebalance_timeout_ms)
    writer.nullable_string(value.server_assignor)
    writer.tagged_fields({} if value.classic is None else {0: _classic(value.classic)})


def _classic(classic: ClassicProtocols) -> bytes:
    # A nullable struct begins with a byte that says whether it is there.
    writer = FieldWriter(flexible=True).int8(1).int32(classic.session_timeout_ms)
    writer.array_length(len(classic.protocols))
    for name, metadata in classic.protocols:
        writer.string(name).octets(metadata).tagged_fields({})
    return writer.tagged_fields({}).done()


def _read_classic(encoded: bytes) -> ClassicProtocols | None:
    reader = FieldReader(encoded, flexible=True)
    if reader.int8() < 0:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.array_length()):
        protocols.append((reader.string(), reader.octets()))
        reader.tagged_fields()
    reader.tagged_fields()
    return ClassicProtocols(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def _read_member(reader: FieldReader) -> MemberMetadata:
    fields: dict[str, Any] = {
        "instance_id": reader.nullable_string(),
        "rack_id": reader.nullable_string(),
        "client_id": reader.string(),
        "client_host": reader.string(),
        "topic_names": _read_names(reader),
        "topic_expression": reader.nullable_string() or "",
        "rebalance_timeout_ms": reader.int32(),
        "server_assignor": reader.nullable_string(),
    }
    classic = reader.tagged_fields().get(0)
    return MemberMetadata(**fields, classic=None if classic is None else _read_classic(classic))


def _write_target(writer: FieldWriter, value: AssignmentEpoch) -> None:
    tags = {0: FieldWriter().int64(value.timestamp_ms).done()} if value.timestamp_ms else {}
    writer.int32(value.epoch).tagged_fields(tags)


def _read_target(reader: FieldReader) -> AssignmentEpoch:
    epoch = reader.int32()
    return AssignmentEpoch(epoch=epoch, timestamp_ms=_tagged_int64(reader.tagged_fields()))


def _write_target_member(writer: FieldWriter, value: TargetAssignment) -> None:
    writer.array_length(len(value.partitions))
    for topic_id in sorted(value.partitions, key=lambda topic_id: topic_id.bytes):
        writer.identifier(topic_id)
        _write_numbers(writer, sorted(value.partitions[topic_id]))
        writer.tagged_fields({})
    writer.tagged_fields({})


def _read_target_member(reader: FieldReader) -> TargetAssignment:
    partitions: dict[UUID, frozenset[int]] = {}
    for _ in range(reader.array_length()):
        topic_id = reader.identifier()
        numbers = frozenset(_read_numbers(reader))
        reader.tagged_fields()
        if numbers:
            partitions[topic_id] = numbers
    reader.tagged_fields()
    return TargetAssignment(partitions=partitions)


def _write_current(writer: FieldWriter, value: CurrentAssignment) -> None:
    writer.int32(value.member_epoch).int32(value.previous_epoch).int8(value.state)
    _write_epochs(writer, value.assigned)
    _write_epochs(writer, value.revoking)
    writer.tagged_fields({})


def _write_epochs(writer: FieldWriter, partitions: PartitionEpochs) -> None:
    writer.array_length(len(partitions))
    for topic_id in sorted(partitions, key=lambda topic_id: topic_id.bytes):
        epochs = partitions[topic_id]
        numbers = sorted(epochs)
        writer.identifier(topic_id)
        _write_numbers(writer, numbers)
        tagged = FieldWriter(flexible=True)
        _write_numbers(tagged, [epochs[number] for number in numbers])
        writer.tagged_fields({0: tagged.done()})


def _read_current(reader: FieldReader) -> CurrentAssignment:
    member_epoch = reader.int32()
    previous_epoch = reader.int32()
    state = reader.int8()
    assigned = _read_epochs(reader, member_epoch)
    revoking = _read_epochs(reader, member_epoch)
    reader.tagged_fields()
    return CurrentAssignment(
        member_epoch=member_epoch,
        previous_epoch=previous_epoch,
        state=MemberState(state) if state in _KNOWN_STATES else MemberState.UNKNOWN,
        assigned=assigned,
        revoking=revoking,
    )


def _read_epochs(reader: FieldReader, member_epoch: int) -> PartitionEpochs:
    """Records from before Kafka 4.3 have no epochs of partitions: use the member epoch."""
    partitions: dict[UUID, Mapping[int, int]] = {}
    for _ in range(reader.array_length()):
        topic_id = reader.identifier()
        numbers = _read_numbers(reader)
        tagged = reader.tagged_fields().get(0)
        epochs = [] if tagged is None else _read_numbers(FieldReader(tagged, flexible=True))
        if len(epochs) != len(numbers):
            epochs = [member_epoch] * len(numbers)
        if numbers:
            partitions[topic_id] = dict(zip(numbers, epochs, strict=True))
    return partitions


def _write_expression(writer: FieldWriter, value: ResolvedExpression) -> None:
    _write_names(writer, value.topics)
    writer.int64(value.version).int64(value.timestamp_ms).tagged_fields({})


def _read_expression(reader: FieldReader) -> ResolvedExpression:
    topics = _read_names(reader)
    version = reader.int64()
    timestamp_ms = reader.int64()
    reader.tagged_fields()
    return ResolvedExpression(topics=topics, version=version, timestamp_ms=timestamp_ms)


def _write_names(writer: FieldWriter, names: frozenset[str]) -> None:
    writer.array_length(len(names))
    for name in sorted(names):
        writer.string(name)


def _read_names(reader: FieldReader) -> frozenset[str]:
    return frozenset(reader.string() for _ in range(reader.array_length()))


def _write_numbers(writer: FieldWriter, numbers: list[int]) -> None:
    writer.array_length(len(numbers))
    for number in numbers:
        writer.int32(number)


def _read_numbers(reader: FieldReader) -> list[int]:
    return [reader.int32() for _ in range(reader.array_length())]


def _tagged_int64(tags: dict[int, bytes]) -> int:
    encoded = tags.get(0)
    return 0 if encoded is None else FieldReader(encoded).int64()


_WRITE: Final[Mapping[RecordType, Callable[[FieldWriter, Any], None]]] = {
    RecordType.GROUP: _write_group,
    RecordType.MEMBER: _write_member,
    RecordType.TARGET: _write_target,
    RecordType.TARGET_MEMBER: _write_target_member,
    RecordType.CURRENT: _write_current,
    RecordType.EXPRESSION: _write_expression,
}
_READ: Final[Mapping[RecordType, Callable[[FieldReader], Value]]] = {
    RecordType.GROUP: _read_group,
    RecordType.MEMBER: _read_member,
    RecordType.TARGET: _read_target,
    RecordType.TARGET_MEMBER: _read_target_member,
    RecordType.CURRENT: _read_current,
    RecordType.EXPRESSION: _read_expression,
}
