"""Settled generations of classic groups as records of `__consumer_offsets`, in Kafka's own format.

Byte format, key: int16 type 2, group. Value: int16 version, then version 3: protocol type, int32 generation,
protocol or null, leader or null, int64 time since when the group is in its state, and the members: id,
group.instance.id or null, client id, client host, int32 rebalance timeout, int32 session timeout, the
subscription that the chosen protocol was offered with, the assignment. Version 0 has no rebalance timeout
(from 1), no time (from 2), no group.instance.id (from 3); version 4 is version 3 in flexible encoding. No
value: the group is deleted.

Invariants: what is encoded here decodes to the same; all versions that Kafka ever wrote can be read.
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
    """A member as its group's record holds it. A rebalance timeout of -1 comes from very old records."""

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
    """A generation as it is written: with members it is stable, without it is empty."""

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
        raise CorruptRecordError(f"a key of type {kind} is not that of a classic group")
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
        raise CorruptRecordError(f"a group of version {version}, which is not known")
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
