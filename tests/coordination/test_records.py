"""Records of offsets and of classic groups: Kafka's bytes, all its versions, damage."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination import offset_records
from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.records import StoredGroup, StoredMember
from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter, record_type
from headrace.coordination.offset_records import CommittedOffset, OffsetKey

texts = st.text(st.characters(codec="utf-8"), max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
times = st.integers(0, 2**53)

members = st.builds(
    StoredMember,
    member_id=texts,
    instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=int32s,
    session_timeout_ms=int32s,
    subscription=st.binary(max_size=40),
    assignment=st.binary(max_size=40),
)
stored_groups = st.builds(
    StoredGroup,
    protocol_type=texts,
    generation=int32s,
    protocol=st.none() | texts,
    leader=st.none() | texts,
    state_since_ms=times,
    members=st.lists(members, max_size=4).map(tuple),
)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    committed = CommittedOffset(offset=42, leader_epoch=7, metadata="m", committed_ms=1000)
    record = offset_records.commit_record("g", "events", 3, committed)
    assert record.key.hex(" ") == "00 01 00 01 67 00 06 65 76 65 6e 74 73 00 00 00 03"
    assert record.value is not None
    assert record.value.hex(" ") == (
        "00 04 00 00 00 00 00 00 00 2a 00 00 00 07 02 6d 00 00 00 00 00 00 03 e8 00"
    )


def test_an_offset_with_a_retention_of_its_own_is_of_version_1() -> None:
    committed = CommittedOffset(offset=1, metadata="", committed_ms=2, expires_ms=3)
    record = offset_records.commit_record("g", "t", 0, committed)
    assert record.value is not None
    assert record.value.hex(" ") == (
        "00 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03"
    )
    assert offset_records.read_value(record.value) == committed


offsets = st.builds(
    CommittedOffset,
    offset=times,
    leader_epoch=int32s,
    metadata=texts,
    committed_ms=times,
    topic_id=st.none() | st.uuids(),
)


@given(group_id=texts, topic=texts, partition=int32s, committed=offsets)
def test_offsets_are_read_as_they_were_written(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> None:
    record = offset_records.commit_record(group_id, topic, partition, committed)
    assert record.value is not None
    key = OffsetKey(group_id=group_id, topic=topic, partition=partition)
    assert offset_records.read_key(record.key) == key
    assert offset_records.read_value(record.value) == committed
    assert offset_records.tombstone(group_id, topic, partition).key == record.key


def test_offsets_of_old_and_newer_versions_are_read() -> None:
    plain = FieldWriter().int16(0).int64(5).string("x").int64(6).done()
    assert offset_records.read_value(plain) == CommittedOffset(offset=5, metadata="x", committed_ms=6)
    third = FieldWriter().int16(3).int64(5).int32(9).string("x").int64(6).done()
    with_epoch = CommittedOffset(offset=5, leader_epoch=9, metadata="x", committed_ms=6)
    assert offset_records.read_value(third) == with_epoch
    second = FieldWriter().int16(2).int64(5).string("x").int64(6).done()
    assert offset_records.read_value(second) == CommittedOffset(offset=5, metadata="x", committed_ms=6)
    topic_id = uuid.uuid4()
    flexible = (
        FieldWriter(flexible=True)
        .int16(4)
        .int64(5)
        .int32(9)
        .string("x")
        .int64(6)
        .tagged_fields({0: topic_id.bytes, 17: b"from a later version"})
        .done()
    )
    assert offset_records.read_value(flexible) == CommittedOffset(
        offset=5, leader_epoch=9, metadata="x", committed_ms=6, topic_id=topic_id
    )


def test_keys_of_the_oldest_version_are_read() -> None:
    key = FieldWriter().int16(0).string("g").string("t").int32(1).done()
    assert offset_records.read_key(key) == OffsetKey(group_id="g", topic="t", partition=1)


def test_a_group_is_written_as_kafka_writes_it() -> None:
    member = StoredMember(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=2,
        session_timeout_ms=1,
        subscription=b"\x0a",
        assignment=b"",
    )
    group = StoredGroup(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m",
        state_since_ms=3,
        members=(member,),
    )
    record = group_records.group_record("g", group)
    assert record.key.hex(" ") == "00 02 00 01 67"
    assert record.value is not None
    assert record.value.hex(" ") == (
        "00 03 00 08 63 6f 6e 73 75 6d 65 72 00 00 00 01 00 05 72 61 6e 67 65 00 01 6d"
        " 00 00 00 00 00 00 00 03 00 00 00 01"
        " 00 01 6d ff ff 00 01 63 00 02 2f 68 00 00 00 02 00 00 00 01 00 00 00 01 0a 00 00 00 00"
    )


@given(group_id=texts, group=stored_groups)
def test_groups_are_read_as_they_were_written(group_id: str, group: StoredGroup) -> None:
    record = group_records.group_record(group_id, group)
    assert record.value is not None
    assert group_records.read_key(record.key) == group_id
    assert group_records.read_value(record.value) == group
    assert group_records.tombstone(group_id).key == record.key


def test_groups_of_the_oldest_version_are_read() -> None:
    writer = FieldWriter().int16(0).string("consumer").int32(4).nullable_string("range").nullable_string("m")
    writer.array_length(1).string("m").string("c").string("/h").int32(9).octets(b"s").octets(b"a")
    assert group_records.read_value(writer.done()) == StoredGroup(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        state_since_ms=-1,
        members=(
            StoredMember(
                member_id="m",
                instance_id=None,
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=-1,
                session_timeout_ms=9,
                subscription=b"s",
                assignment=b"a",
            ),
        ),
    )


def test_groups_in_flexible_encoding_are_read() -> None:
    writer = FieldWriter(flexible=True).int16(4).string("consumer").int32(4).nullable_string(None)
    writer.nullable_string(None).int64(8).array_length(1).string("m").nullable_string("i").string("c")
    writer.string("/h").int32(7).int32(9).octets(b"s").octets(b"a").tagged_fields({3: b"?"})
    writer.tagged_fields({})
    group = group_records.read_value(writer.done())
    assert group.state_since_ms == 8
    assert group.members[0].instance_id == "i"


READERS = (
    offset_records.read_key,
    offset_records.read_value,
    group_records.read_key,
    group_records.read_value,
)


@given(damaged=st.binary(max_size=60))
def test_damage_is_a_corrupt_record_and_nothing_else(damaged: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(CorruptRecordError):
            read(damaged)


def test_versions_of_the_future_are_refused() -> None:
    for read in (offset_records.read_value, group_records.read_value):
        with pytest.raises(CorruptRecordError, match="version 5"):
            read(b"\x00\x05")


def test_a_key_says_its_type() -> None:
    assert record_type(offset_records.tombstone("g", "t", 0).key) == 1
    assert record_type(group_records.tombstone("g").key) == 2
    with pytest.raises(CorruptRecordError):
        record_type(b"\x00")


@given(
    texts=st.lists(st.none() | texts, max_size=3),
    octets=st.lists(st.none() | st.binary(max_size=300), max_size=3),
    flexible=st.booleans(),
)
def test_fields_are_read_as_they_were_written(
    texts: list[str | None], octets: list[bytes | None], flexible: bool
) -> None:
    writer = FieldWriter(flexible=flexible).int8(-1).array_length(len(texts))
    for text in texts:
        writer.nullable_string(text)
    writer.array_length(len(octets))
    for value in octets:
        writer.nullable_octets(value)
    identifier = uuid.UUID(int=7)
    writer.array_length(None).identifier(identifier).tagged_fields({2: b"two"})
    reader = FieldReader(writer.done(), flexible=flexible)
    assert reader.int8() == -1
    assert [reader.nullable_string() for _ in range(reader.array_length())] == texts
    assert [reader.nullable_octets() for _ in range(reader.array_length())] == octets
    assert reader.array_length() == 0
    assert reader.identifier() == identifier
    assert reader.tagged_fields() == ({2: b"two"} if flexible else {})
