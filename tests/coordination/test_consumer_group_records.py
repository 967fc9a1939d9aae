"""Records of consumer groups: the bytes that Kafka writes, and back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.consumer.records import (
    RecordKey,
    RecordType,
    Value,
    read_key,
    read_value,
    record,
)
from headrace.coordination.consumer.values import (
    AssignmentEpoch,
    ClassicProtocols,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
    TargetAssignment,
)
from headrace.coordination.fields import CorruptRecordError

TOPIC = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
TOPIC_BYTES = "0102030405060708090a0b0c0d0e0f10"

EXAMPLES: list[tuple[RecordKey, Value, str, str]] = [
    (
        RecordKey(type=RecordType.GROUP, group_id="g"),
        GroupEpoch(epoch=7, metadata_hash=0),
        "0003 0001 67",
        "0000 00000007 00",
    ),
    (
        RecordKey(type=RecordType.GROUP, group_id="g"),
        GroupEpoch(epoch=7, metadata_hash=-2),
        "0003 0001 67",
        "0000 00000007 01 00 08 fffffffffffffffe",
    ),
    (
        RecordKey(type=RecordType.MEMBER, group_id="g", name="m"),
        MemberMetadata(
            instance_id=None,
            rack_id="r",
            client_id="c",
            client_host="/h",
            topic_names=frozenset({"b", "a"}),
            topic_expression="",
            rebalance_timeout_ms=5,
            server_assignor="uniform",
        ),
        "0005 0001 67 0001 6d",
        "0000 00 0272 0263 032f68 03 0261 0262 01 00000005 08 756e69666f726d 00",
    ),
    (
        RecordKey(type=RecordType.MEMBER, group_id="g", name="m"),
        MemberMetadata(
            instance_id="i",
            topic_expression="x",
            classic=ClassicProtocols(session_timeout_ms=9, protocols=(("range", b"\x01\x02"),)),
        ),
        "0005 0001 67 0001 6d",
        # The tagged struct: that it is there, the timeout, one protocol, no further tags.
        "0000 0269 00 01 01 01 0278 ffffffff 00 01 00 11 01 00000009 02 0672616e6765 030102 00 00",
    ),
    (
        RecordKey(type=RecordType.TARGET, group_id="g"),
        AssignmentEpoch(epoch=3, timestamp_ms=255),
        "0006 0001 67",
        "0000 00000003 01 00 08 00000000000000ff",
    ),
    (
        RecordKey(type=RecordType.TARGET_MEMBER, group_id="g", name="m"),
        TargetAssignment(partitions={TOPIC: frozenset({1, 0})}),
        "0007 0001 67 0001 6d",
        f"0000 02 {TOPIC_BYTES} 03 00000000 00000001 00 00",
    ),
    (
        RecordKey(type=RecordType.CURRENT, group_id="g", name="m"),
        CurrentAssignment(
            member_epoch=5,
            previous_epoch=4,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={TOPIC: {2: 5}},
            revoking={TOPIC: {3: 4}},
        ),
        "0008 0001 67 0001 6d",
        f"0000 00000005 00000004 01 02 {TOPIC_BYTES} 02 00000002 01 00 05 02 00000005"
        f" 02 {TOPIC_BYTES} 02 00000003 01 00 05 02 00000004 00",
    ),
    (
        RecordKey(type=RecordType.EXPRESSION, group_id="g", name="a.*"),
        ResolvedExpression(topics=frozenset({"ab"}), version=1, timestamp_ms=2),
        "0010 0001 67 0003 612e2a",
        "0000 02 036162 0000000000000001 0000000000000002 00",
    ),
]


@pytest.mark.parametrize(("key", "value", "key_bytes", "value_bytes"), EXAMPLES)
def test_the_bytes_are_those_of_kafkas_schemas(
    key: RecordKey, value: Value, key_bytes: str, value_bytes: str
) -> None:
    written = record(key, value)
    assert written.key.hex() == key_bytes.replace(" ", "")
    assert written.value is not None
    assert written.value.hex() == value_bytes.replace(" ", "")
    assert read_key(written.key) == key
    assert read_value(key, written.value) == value


def test_a_tombstone_has_no_value() -> None:
    assert record(RecordKey(type=RecordType.GROUP, group_id="g"), None).value is None


def test_before_partitions_had_epochs_that_of_the_member_stands_for_them() -> None:
    key = RecordKey(type=RecordType.CURRENT, group_id="g", name="m")
    old = bytes.fromhex(f"0000 00000005 00000004 00 02 {TOPIC_BYTES} 02 00000002 00 01 00")
    assert read_value(key, old) == CurrentAssignment(
        member_epoch=5, previous_epoch=4, assigned={TOPIC: {2: 5}}
    )


def test_a_state_of_a_newer_kafka_is_unknown() -> None:
    key = RecordKey(type=RecordType.CURRENT, group_id="g", name="m")
    found = read_value(key, bytes.fromhex("0000 00000005 00000004 09 01 01 00"))
    assert isinstance(found, CurrentAssignment)
    assert found.state is MemberState.UNKNOWN


def test_topics_as_kafka_4_0_wrote_them_are_passed_over() -> None:
    key = read_key(bytes.fromhex("0004 0001 67"))
    assert key == RecordKey(type=RecordType.TOPICS, group_id="g")
    assert read_value(key, bytes.fromhex(f"0000 02 {TOPIC_BYTES} 0261 00000002 01 00 00")) is None


@pytest.mark.parametrize("key", ["", "0002 0001 67", "0005 0001 67", "0003 0002 67"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(CorruptRecordError):
        read_key(bytes.fromhex(key))


@pytest.mark.parametrize("value", ["", "0001 00000007 00", "0000 0000", "0000 00000007 05"])
def test_other_values_are_refused(value: str) -> None:
    with pytest.raises(CorruptRecordError):
        read_value(RecordKey(type=RecordType.GROUP, group_id="g"), bytes.fromhex(value))


text = st.text(max_size=6)
nullable = st.none() | text
topic_ids = st.uuids()
numbers = st.integers(0, 2**31 - 1)
epochs = st.dictionaries(topic_ids, st.dictionaries(numbers, numbers, min_size=1, max_size=4), max_size=3)
int64 = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberMetadata,
    instance_id=nullable,
    rack_id=nullable,
    client_id=text,
    client_host=text,
    topic_names=st.frozensets(text, max_size=4),
    topic_expression=text,
    rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
    server_assignor=nullable,
    classic=st.none()
    | st.builds(
        ClassicProtocols,
        session_timeout_ms=numbers,
        protocols=st.lists(st.tuples(text, st.binary(max_size=200)), max_size=3).map(tuple),
    ),
)
values: st.SearchStrategy[tuple[RecordType, Value]] = st.one_of(
    st.tuples(st.just(RecordType.GROUP), st.builds(GroupEpoch, epoch=numbers, metadata_hash=int64)),
    st.tuples(st.just(RecordType.MEMBER), members),
    st.tuples(st.just(RecordType.TARGET), st.builds(AssignmentEpoch, epoch=numbers, timestamp_ms=int64)),
    st.tuples(
        st.just(RecordType.TARGET_MEMBER),
        st.builds(
            TargetAssignment,
            partitions=st.dictionaries(topic_ids, st.frozensets(numbers, min_size=1, max_size=4), max_size=3),
        ),
    ),
    st.tuples(
        st.just(RecordType.CURRENT),
        st.builds(
            CurrentAssignment,
            member_epoch=st.integers(-2, 2**31 - 1),
            previous_epoch=st.integers(-2, 2**31 - 1),
            state=st.sampled_from(MemberState),
            assigned=epochs,
            revoking=epochs,
        ),
    ),
    st.tuples(
        st.just(RecordType.EXPRESSION),
        st.builds(
            ResolvedExpression, topics=st.frozensets(text, max_size=4), version=int64, timestamp_ms=int64
        ),
    ),
)


@given(values, text, text)
def test_what_is_written_is_read(value: tuple[RecordType, Value], group_id: str, name: str) -> None:
    kind, content = value
    named = kind not in (RecordType.GROUP, RecordType.TARGET)
    key = RecordKey(type=kind, group_id=group_id, name=name if named else "")
    written = record(key, content)
    assert written.value is not None
    assert read_key(written.key) == key
    assert read_value(key, written.value) == content


@given(values, st.data())
def test_a_value_that_is_cut_off_is_refused_or_something_else(
    value: tuple[RecordType, Value], data: st.DataObject
) -> None:
    kind, content = value
    key = RecordKey(type=kind, group_id="g")
    written = record(key, content).value
    assert written is not None
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    with pytest.raises(CorruptRecordError):
        read_value(key, cut)
