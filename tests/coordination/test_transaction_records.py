"""Transactions as records: Kafka's bytes, both versions, and what is not one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.fields import CorruptRecordError, FieldWriter
from headrace.coordination.transactions.records import (
    TopicPartition,
    Transaction,
    read_key,
    read_value,
    shard_of,
    tombstone,
    transaction_record,
)
from headrace.coordination.transactions.states import State

IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
TIMES = st.integers(-1, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "long" * 60]), st.integers(0, 2**31 - 1)), max_size=9
)
TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=st.text(max_size=200),
    producer_id=IDS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    producer_epoch=EPOCHS,
    last_producer_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from([state for state in State if state is not State.EMPTY]),
    partitions=PARTITIONS,
    started_ms=TIMES,
    updated_ms=TIMES,
    client_version=st.integers(0, 2),
)
EXAMPLE = Transaction(
    transactional_id="t1",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({TopicPartition("b", 0), TopicPartition("a", 2), TopicPartition("a", 1)}),
    started_ms=10,
    updated_ms=11,
)
PLAIN = "0001 0000000000000007 0003 0000ea60 01 03 0261 03 00000001 00000002 00 0262 02 00000000 00"
TIMESTAMPS = "000000000000000b 000000000000000a"


@given(TRANSACTIONS)
def test_what_is_written_reads_back(transaction: Transaction) -> None:
    record = transaction_record(transaction)
    assert record.value is not None
    assert read_key(record.key) == transaction.transactional_id
    assert read_value(transaction.transactional_id, record.value) == transaction


def test_the_bytes_are_those_of_kafka() -> None:
    record = transaction_record(EXAMPLE)
    assert record.key == bytes.fromhex("0000 0002 7431")
    assert record.value == bytes.fromhex(f"{PLAIN} {TIMESTAMPS} 00")


def test_tagged_fields_are_left_out_where_they_say_nothing() -> None:
    transaction = Transaction(
        transactional_id="t1",
        producer_id=7,
        previous_producer_id=6,
        next_producer_id=8,
        producer_epoch=3,
        last_producer_epoch=2,
        timeout_ms=1,
        state=State.EMPTY,
        updated_ms=11,
        client_version=2,
    )
    record = transaction_record(transaction)
    assert record.value == bytes.fromhex(
        "0001 0000000000000007 0003 00000001 00 00 000000000000000b ffffffffffffffff"
        "04 00 08 0000000000000006 01 08 0000000000000008 02 02 0002 914e 02 0002"
    )
    assert read_value("t1", record.value) == transaction


def test_version_0_can_be_read() -> None:
    value = (
        FieldWriter()
        .int16(0)
        .int64(7)
        .int16(3)
        .int32(60_000)
        .int8(1)
        .array_length(2)
        .string("a")
        .array_length(2)
        .int32(1)
        .int32(2)
        .string("b")
        .array_length(1)
        .int32(0)
        .int64(11)
        .int64(10)
        .done()
    )
    assert read_value("t1", value) == EXAMPLE


def test_fields_of_a_newer_kafka_are_passed_over() -> None:
    value = bytes.fromhex(f"{PLAIN} {TIMESTAMPS} 02 03 02 0005 63 01 ff")
    assert read_value("t1", value) == EXAMPLE


def test_keys_of_other_types_are_not_ours() -> None:
    assert read_key(bytes.fromhex("0005 0002 7431")) is None
    assert read_key(tombstone("t1").key) == "t1"
    assert tombstone("t1").value is None


@pytest.mark.parametrize(
    "value", ["0002", "", f"{PLAIN} {TIMESTAMPS}", f"{PLAIN.replace('ea60 01', 'ea60 09')} {TIMESTAMPS} 00"]
)
def test_values_that_cannot_be_read(value: str) -> None:
    with pytest.raises(CorruptRecordError):
        read_value("t1", bytes.fromhex(value))


@pytest.mark.parametrize(
    ("transactional_id", "hashed"),
    [("", 0), ("a", 97), ("abc", 96354), ("polygenelubricants", 0), ("hello world", 1794106052)],
)
def test_the_shard_goes_by_the_hash_of_java(transactional_id: str, hashed: int) -> None:
    assert shard_of(transactional_id, 50) == hashed % 50
    assert shard_of(transactional_id, 2**31) == hashed
