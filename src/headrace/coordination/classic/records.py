"""Settled generations of classic groups as records of `__consumer_offsets`, in Kafka's own format.

Byte format, key: int16 type 2, group. Value: int16 version, then, in version 3: protocol type, int32
generation, protocol or null, leader or null, int64 time at which the group entered its state, and the
members: id, group.instance.id or null, client id, client host, int32 rebalance timeout, int32 session
timeout, subscription for the chosen protocol, assignment. The rebalance timeout exists since version 1, the
time since 2, group.instance.id since 3. Version 4 is version 3 in flexible encoding. A record without a value
deletes the group.

Invariants: every value decodes to what was encoded. All versions that Kafka ever wrote can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.coordination.decision import Record
from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter

GROUP_METADATA_KEY: Final = 2

_VERSION: Final = 3
_WITH_REBALANCE_TIMEOUT: Final = 1
_WITH_STATE_TIME: Final = 2
_WITH_INSTANCE_ID: Final = 3
_FLEXIBLE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member in the record of its group. Very old records have no rebalance timeout (-1)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A generation as it is written: stable if it has members, else empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


def _key(group_id: str) -> bytes:
    return FieldWriter().int16(GROUP_METADATA_KEY).string(group_id).done()


def group_record(group_id: str, group: StoredGroup) -> Record:
    """The record of a settled generation."""
    writer = FieldWriter().int16(_VERSION).string(group.protocol_type).int32(group.generation)
    writer.nullable_string(group.protocol).nullable_string(group.leader)
    writer.int64(group.state_since_ms).array_length(len(group.members))
    for member in group.members:
        writer.string(member.member_id).nullable_string(member.instance_id)
        writer.string(member.client_id).string(member.client_host)
        writer.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        writer.octets(member.subscription).octets(member.assignment)
    return Record(key=_key(group_id), value=writer.done())


def tombstone(group_id: str) -> Record:
    """The record that deletes a group."""
    return Record(key=_key(group_id), value=None)


def read_key(key: bytes) -> str:
    """The group that a key names. Raises CorruptRecordError."""
    reader = FieldReader(key)
    kind = reader.int16()
    if kind != GROUP_METADATA_KEY:
        raise CorruptRecordError(f"a key of type {kind} does not belong to a classic group")
    return reader.string()


def _read_member(reader: FieldReader, version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _WITH_INSTANCE_ID else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= _WITH_REBALANCE_TIMEOUT else -1
    member = StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=reader.int32(),
        subscription=reader.octets(),
        assignment=reader.octets(),
    )
    reader.tagged_fields()
    return member


def read_value(value: bytes) -> StoredGroup:
    """The value of a group, of any version. Raises CorruptRecordError."""
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= _FLEXIBLE:
        raise CorruptRecordError(f"a group has the unknown version {version}")
    if version >= _FLEXIBLE:
        reader.become_flexible()
    return StoredGroup(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_since_ms=reader.int64() if version >= _WITH_STATE_TIME else -1,
        members=tuple(_read_member(reader, version) for _ in range(reader.array_length())),
    )
