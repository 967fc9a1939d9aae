"""Records there and back; agreement with kafka-python and kio, which others wrote; damaged batches."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kio.records.readers import read_batch

from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import HEADER_SIZE, BatchHeader, read_header, scan, write_header
from headrace.wire.records import (
    Record,
    build_batch,
    encode_record,
    payload,
    read_outlines,
    read_records,
    read_varint,
    write_varint,
)

NOW = 1_750_000_000_000
content = st.none() | st.binary(max_size=200)
headers = st.lists(
    st.tuples(st.text(max_size=10).map(str.encode), st.none() | st.binary(max_size=20)), max_size=3
).map(tuple)
record_parts = st.tuples(st.integers(-(2**40), 2**40), content, content, headers)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    parts = draw(st.lists(record_parts, min_size=1, max_size=20))
    return [Record(index, *part) for index, part in enumerate(parts)]


@given(records=record_lists(), compression=st.integers(0, 4))
def test_there_and_back(records: list[Record], compression: int) -> None:
    batch = build_batch(records, base_timestamp=NOW, compression=compression)
    (header,) = scan(batch)
    assert list(read_records(batch, header)) == records
    assert header.compression == compression
    assert (header.record_count, header.last_offset_delta) == (len(records), len(records) - 1)
    assert header.max_timestamp == NOW + max(record.timestamp_delta for record in records)


@given(records=record_lists())
def test_outlines_say_what_the_records_say(records: list[Record]) -> None:
    data = b"".join(map(encode_record, records))
    for outline, record in zip(read_outlines(data, len(records)), records, strict=True):
        offset_delta, timestamp_delta, key_size, value_size = outline
        assert (offset_delta, timestamp_delta) == (record.offset_delta, record.timestamp_delta)
        assert key_size == (-1 if record.key is None else len(record.key))
        assert value_size == (-1 if record.value is None else len(record.value))


def test_all_fields_of_the_header() -> None:
    batch = build_batch(
        [Record(0), Record(1)],
        base_offset=7,
        base_timestamp=NOW,
        max_timestamp=NOW + 5,
        leader_epoch=3,
        producer_id=11,
        producer_epoch=2,
        base_sequence=9,
        log_append_time=True,
        transactional=True,
        control=True,
    )
    header = read_header(batch)
    assert header[:5] == (7, len(batch) - 12, 3, 2, header.crc)
    assert header[5:13] == (0x38, 1, NOW, NOW + 5, 11, 2, 9, 2)


def test_a_batch_behind_others_in_the_buffer() -> None:
    first = build_batch([Record(0, value=b"a")])
    both = first + build_batch([Record(0, value=b"b")], compression=1)
    one, two = scan(both)
    assert [record.value for record in read_records(both, one)] == [b"a"]
    assert [record.value for record in read_records(memoryview(both), two)] == [b"b"]


@given(records=record_lists(), compression=st.sampled_from([0, 1]))
def test_kafka_python_reads_what_we_write(records: list[Record], compression: int) -> None:
    batch = build_batch(records, base_offset=100, base_timestamp=NOW, compression=compression)
    read = DefaultRecordBatch(bytes(batch))
    assert read.validate_crc()
    for theirs, ours in zip(read, records, strict=True):
        assert theirs.offset == 100 + ours.offset_delta
        assert theirs.timestamp == NOW + ours.timestamp_delta
        assert (theirs.key, theirs.value) == (ours.key, ours.value)
        assert [(key.encode(), value) for key, value in theirs.headers] == list(ours.headers)


@given(records=record_lists(), compression=st.sampled_from([0, 1]))
def test_we_read_what_kafka_python_writes(records: list[Record], compression: int) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, False, 12, 3, 40, 1 << 20)
    for record in records:
        their_headers = [(key.decode(), value) for key, value in record.headers]
        timestamp = NOW + record.timestamp_delta
        builder.append(record.offset_delta, timestamp, record.key, record.value, their_headers)
    batch = bytes(builder.build())
    (header,) = scan(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, 40)
    shift = NOW - header.base_timestamp
    assert [
        record._replace(timestamp_delta=record.timestamp_delta - shift)
        for record in read_records(batch, header)
    ] == records
    if compression == 0:
        assert payload(batch, header) == b"".join(
            encode_record(record._replace(timestamp_delta=record.timestamp_delta + shift))
            for record in records
        )


@given(records=record_lists())
def test_kio_reads_what_we_write(records: list[Record]) -> None:
    moderate = [record._replace(timestamp_delta=record.timestamp_delta % 1_000) for record in records]
    batch = build_batch(moderate, base_offset=5, base_timestamp=NOW)
    read, size = read_batch(bytes(batch), 0)
    assert size == len(batch)
    assert [(theirs.offset, theirs.key, theirs.value) for theirs in read.records] == [
        (5 + ours.offset_delta, ours.key, ours.value) for ours in moderate
    ]
    assert [
        tuple((header.key or b"", header.value) for header in theirs.headers) for theirs in read.records
    ] == [ours.headers for ours in moderate]


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varints_there_and_back(value: int) -> None:
    data = bytearray()
    write_varint(data, value)
    assert read_varint(bytes(data), 0) == (value, len(data))
    assert len(data) <= 5


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_long_varints_there_and_back(value: int) -> None:
    data = bytearray()
    write_varint(data, value)
    assert read_varint(bytes(data), 0, 64) == (value, len(data))
    assert len(data) <= 10


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\x1f", b"\xff" * 6, b"\x80" * 20])
def test_varints_that_end_too_early_or_are_too_long(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        read_varint(data, 0)


def with_count(batch: bytearray, count: int) -> BatchHeader:
    return write_header(batch, read_header(batch)._replace(record_count=count))


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("declared", "message"), [(2, "records still remaining in file"), (4, "premature EOF reached")]
)
def test_a_wrong_number_of_records(compression: int, declared: int, message: str) -> None:
    batch = build_batch([Record(index, value=b"v") for index in range(3)], compression=compression)
    with pytest.raises(CorruptBatchError, match=message):
        list(read_records(batch, with_count(batch, declared)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            b"\x14\x00\x00\x00", "Invalid record size: expected 10 bytes", id="longer than the data"
        ),
        pytest.param(b"\x01", "Invalid record size: expected -1 bytes", id="negative length"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00\x00", "expected to read 7 bytes.*read 6", id="longer"),
        pytest.param(b"\x0a\x00\x00\x00\x01\x01\x00", "expected to read 5 bytes.*read 6", id="shorter"),
        pytest.param(b"\x0c\x00\x00\x00\x14\x01\x00", "premature EOF", id="key longer than the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x01", "number of record headers -1", id="negative headers"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x7e", "number of record headers 63", id="too many headers"),
        pytest.param(
            b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "Invalid negative header key size", id="no header key"
        ),
    ],
)
def test_records_whose_lengths_contradict_each_other(data: bytes, message: str) -> None:
    with pytest.raises(CorruptBatchError, match=message):
        read_outlines(data, 1)


@given(data=st.binary(max_size=60), count=st.integers(0, 5))
@settings(max_examples=500)
def test_any_bytes_are_records_or_a_corrupt_batch(data: bytes, count: int) -> None:
    try:
        outlines = read_outlines(data, count)
    except CorruptBatchError:
        return
    batch = bytearray(HEADER_SIZE) + data
    header = write_header(batch, read_header(build_batch([]))._replace(record_count=count))
    records = list(read_records(batch, header))
    assert [record.offset_delta for record in records] == [outline[0] for outline in outlines]


@given(records=record_lists(), at=st.integers(0), flip=st.integers(1, 255))
@settings(max_examples=300)
def test_a_changed_byte_gives_records_or_a_corrupt_batch(records: list[Record], at: int, flip: int) -> None:
    data = bytearray(b"".join(map(encode_record, records)))
    data[at % len(data)] ^= flip
    with suppress(CorruptBatchError):
        assert len(read_outlines(bytes(data), len(records))) == len(records)
