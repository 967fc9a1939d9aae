"""Records of batches as columns: the same as one record after the other, for whatever batches there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.column_reader import INT_BYTES, ColumnReader, padded
from headrace.wire.compression import CODEC_NAMES
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import HEADER_SIZE, scan, write_header
from headrace.wire.record_columns import RecordColumns, Slices, record_columns
from headrace.wire.records import Record, build_batch, read_records, read_varint, write_varint

content = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.binary(max_size=20), content), max_size=3).map(tuple)
records = st.builds(
    Record,
    offset_delta=st.integers(0, 2**20),
    timestamp_delta=st.integers(-(2**40), 2**40),
    key=content,
    value=content,
    headers=headers,
)


def read(buffer: bytes, about_bytes: int = 10**6) -> list[RecordColumns]:
    return list(record_columns(buffer, scan(buffer), most_headers=8, about_bytes=about_bytes))


def content_of(columns: RecordColumns, slices: Slices) -> list[bytes | None]:
    return [
        None if length < 0 else columns.buffer[start : start + length].tobytes()
        for start, length in zip(slices.start.tolist(), slices.length.tolist(), strict=True)
    ]


def as_records(columns: RecordColumns) -> list[tuple[Any, ...]]:
    pairs = [(content_of(columns, key), content_of(columns, value)) for key, value in columns.headers]
    found = [
        tuple((keys[at], values[at]) for keys, values in pairs if keys[at] is not None)
        for at in range(len(columns))
    ]
    return list(
        zip(
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            content_of(columns, columns.key),
            content_of(columns, columns.value),
            found,
            strict=True,
        )
    )


@given(
    st.lists(
        st.tuples(
            st.lists(records, max_size=6),
            st.integers(0, 2**40),
            st.sampled_from(range(len(CODEC_NAMES))),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 500, 10**6]),
)
def test_all_records_are_those_that_are_read_one_by_one(batches: Any, about_bytes: int) -> None:
    buffer = bytearray()
    for members, base, codec, appended in batches:
        buffer += build_batch(
            members,
            base_offset=base,
            base_timestamp=1_700_000_000_000,
            compression=codec,
            log_append_time=appended,
        )
    expected = []
    for header in scan(buffer):
        for each in read_records(buffer, header):
            moment = header.max_timestamp if header.log_append_time else None
            if moment is None:
                moment = header.base_timestamp + each.timestamp_delta
            expected.append((header.base_offset + each.offset_delta, moment, *each[2:]))
    found = [each for columns in read(bytes(buffer), about_bytes) for each in as_records(columns)]
    assert found == expected


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_damaged_records_are_refused_or_read_as_one_by_one(members: list[Record], data: Any) -> None:
    """The checksum is made right, as a hostile producer would."""
    batch = build_batch(members)
    at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    if data.draw(st.booleans()):
        batch[at] = data.draw(st.integers(0, 255))
    else:
        del batch[at:]
    (header,) = scan(bytes(build_batch(members)))
    write_header(batch, header)
    (header,) = scan(bytes(batch))
    try:
        expected = [
            (each.offset_delta, each.timestamp_delta, *each[2:])
            for each in read_records(bytes(batch), header)
        ]
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            read(bytes(batch))
        return
    try:
        (found,) = read(bytes(batch))
    except CorruptBatchError:
        # Stricter: a number of 64 bits that is written with more, and more headers than are allowed.
        return
    assert as_records(found) == expected


def test_a_wrong_checksum_is_refused() -> None:
    batch = build_batch([Record(offset_delta=0, value=b"value")])
    headers = scan(bytes(batch))
    batch[-3] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        list(record_columns(bytes(batch), headers, most_headers=8, about_bytes=1))


def test_more_headers_than_allowed_are_refused() -> None:
    batch = build_batch([Record(offset_delta=0, headers=((b"a", b"b"),) * 9)])
    with pytest.raises(CorruptBatchError, match="9 headers, 8 are allowed"):
        read(bytes(batch))


def test_a_batch_that_claims_more_records_than_it_has_is_refused_at_once() -> None:
    batch = build_batch([Record(offset_delta=0, value=b"value")])
    (header,) = scan(bytes(batch))
    write_header(batch, header._replace(record_count=2_000_000_000))
    with pytest.raises(CorruptBatchError, match="are allowed"):
        read(bytes(batch))


def test_only_some_records() -> None:
    batch = build_batch([Record(offset_delta=at, key=b"%d" % at, headers=((b"h", b""),)) for at in range(5)])
    (found,) = read(bytes(batch))
    some = found.only((found.offset >= 1) & (found.offset < 3))
    assert [each[2] for each in as_records(some)] == [b"1", b"2"]
    assert found.only(np.ones(5, np.bool_)) is found


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_numbers_of_all_sizes(numbers: list[int]) -> None:
    buffer, starts, ends = bytearray(), [], []
    for number in numbers:
        starts.append(len(buffer))
        write_varint(buffer, number)
        ends.append(len(buffer))
        buffer += b"\xff"
    reader = ColumnReader(padded(buffer), np.array(starts), np.array(ends))
    assert reader.zigzag().tolist() == numbers
    assert reader.good.all()
    assert not reader.left.any()


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=10), st.sampled_from([32, 64]))
def test_any_bytes_are_a_number_or_damaged(pieces: list[bytes], bits: int) -> None:
    ends = np.cumsum([len(each) for each in pieces])
    starts = ends - [len(each) for each in pieces]
    reader = ColumnReader(padded(*pieces), starts, ends)
    found = reader.zigzag(INT_BYTES) if bits == 32 else reader.zigzag()
    for at, piece in enumerate(pieces):
        try:
            expected, size = read_varint(piece, 0, bits)
        except CorruptBatchError:
            assert not reader.good[at]
        else:
            assert (found[at], reader.position[at] - starts[at], reader.good[at]) == (expected, size, True)


def test_a_damaged_piece_does_not_harm_the_others() -> None:
    pieces = [b"\x02a", b"\x10a", b"\x02b"]
    ends = np.cumsum([len(each) for each in pieces])
    reader = ColumnReader(padded(*pieces), ends - [len(each) for each in pieces], ends)
    assert reader.skip(reader.zigzag()).tolist() == [1, 0, 1]
    assert reader.good.tolist() == [True, False, True]
    reader.fixed(4)
    assert not reader.good.any()
    assert (reader.position <= reader.end).all()
