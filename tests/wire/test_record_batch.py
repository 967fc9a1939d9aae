"""Batch headers are read, checked and patched as the format says; kafka-python is the independent writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from headrace.wire import record_batch
from headrace.wire.errors import CorruptBatchError, UnsupportedMagicError


def batch(count: int = 3, *, timestamp: int = 1_000, producer_id: int = -1) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        batch_size=1_000_000,
    )
    for index in range(count):
        builder.append(index, timestamp + index, b"key", b"value %d" % index, [])
    return bytearray(builder.build())


def test_the_header_is_what_another_writer_wrote() -> None:
    header = record_batch.read_header(batch(5, producer_id=77))
    assert header.base_offset == 0
    assert header.magic == 2
    assert header.record_count == 5
    assert header.last_offset_delta == header.last_offset == 4
    assert header.next_offset == 5
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_004)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 0, 0)
    assert header.compression == 0
    assert not (header.transactional)
    assert not (header.control)
    assert not (header.log_append_time)
    assert header.size == len(batch(5, producer_id=77))


def test_a_place_in_the_log_leaves_the_checksum_right() -> None:
    data = batch()
    record_batch.assign(data, record_batch.read_header(data), 12_345, 7)
    header = record_batch.scan(data)[0]
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (12_345, 7, 12_347)
    assert DefaultRecordBatch(bytes(data)).validate_crc()


def test_the_time_of_arrival_changes_the_checksum_too() -> None:
    data = batch()
    changed = record_batch.set_log_append_time(data, record_batch.read_header(data), 9_999)
    assert record_batch.scan(data) == [changed]
    other = DefaultRecordBatch(bytes(data))
    assert other.validate_crc()
    assert {record.timestamp for record in other} == {9_999}


@given(flip=st.integers(0, 8 * len(batch()) - 1))
def test_any_bit_that_flips_is_noticed_or_is_not_under_the_checksum(flip: int) -> None:
    data = batch()
    data[flip // 8] ^= 1 << flip % 8
    free_of_checksum = flip // 8 in (*range(8), *range(12, 16))
    try:
        record_batch.scan(data)
    except (CorruptBatchError, UnsupportedMagicError):
        assert not free_of_checksum
    else:
        assert free_of_checksum


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused_by_name(magic: int) -> None:
    data = batch()
    data[record_batch.MAGIC_AT] = magic
    with pytest.raises(UnsupportedMagicError, match=str(magic)):
        record_batch.scan(data)


@given(cut=st.integers(1, len(batch()) - 1))
def test_a_batch_that_was_cut_off_is_corrupt(cut: int) -> None:
    whole = batch()
    with pytest.raises(CorruptBatchError):
        record_batch.scan(whole + whole[:cut])


def test_several_batches_are_found_where_they_are() -> None:
    data = batch(1) + batch(4) + batch(2)
    positions = [header.position for header in record_batch.scan(data)]
    assert positions == [0, len(batch(1)), len(batch(1)) + len(batch(4))]


def test_sequence_numbers_wrap() -> None:
    header = record_batch.read_header(batch(5, producer_id=1))
    assert header._replace(base_sequence=2**31 - 2).last_sequence == 2
