"""Markers: their bytes, and what is read from control batches of other kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.control_batches import EndMarker, build_end_marker, read_end_marker
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import has_valid_checksum, read_header
from headrace.wire.records import Record, build_batch


def control(*records: Record) -> bytearray:
    return build_batch(records, producer_id=7, producer_epoch=1, transactional=True, control=True)


@given(
    committed=st.booleans(),
    coordinator_epoch=st.integers(0, 2**31 - 1),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    timestamp=st.integers(0, 2**53),
)
def test_what_is_built_reads_back(
    committed: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp: int
) -> None:
    marker = EndMarker(committed, coordinator_epoch)
    batch = build_end_marker(
        marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=timestamp
    )
    header = read_header(batch)
    assert has_valid_checksum(batch, header)
    assert read_end_marker(batch, header) == marker
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert (header.base_timestamp, header.max_timestamp) == (timestamp, timestamp)
    assert (header.record_count, header.base_sequence, header.attributes) == (1, -1, 0x30)


def test_the_bytes_are_those_of_kafka() -> None:
    batch = build_end_marker(EndMarker(True, 5), producer_id=7, producer_epoch=1, timestamp=9)
    # Length, attributes, deltas, key (version 0, type 1), value (version 0, coordinator epoch 5), no headers.
    assert bytes(batch[61:]) == bytes.fromhex("20 00 00 00 08 0000 0001 0c 0000 00000005 00")
    assert len(batch) == 78
    batch = build_end_marker(EndMarker(False, 5), producer_id=7, producer_epoch=1, timestamp=9)
    assert bytes(batch[61:]) == bytes.fromhex("20 00 00 00 08 0000 0000 0c 0000 00000005 00")


def test_control_records_of_other_kinds_are_no_markers() -> None:
    batch = control(Record(0, 0, bytes.fromhex("0000 0002"), b"anything"))
    assert read_end_marker(batch, read_header(batch)) is None


def test_a_batch_that_compaction_emptied_is_no_marker() -> None:
    batch = control()
    assert read_end_marker(batch, read_header(batch)) is None


def test_later_versions_may_be_longer() -> None:
    batch = control(Record(0, 0, bytes.fromhex("0001 0000 99"), bytes.fromhex("0003 00000007 9999")))
    assert read_end_marker(batch, read_header(batch)) == EndMarker(False, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes.fromhex("0000 00000000")),
        (b"\x00\x00\x00", bytes.fromhex("0000 00000000")),
        (bytes.fromhex("ffff 0000"), bytes.fromhex("0000 00000000")),
        (bytes.fromhex("0000 0001"), None),
        (bytes.fromhex("0000 0001"), bytes.fromhex("0000 0000")),
        (bytes.fromhex("0000 0001"), bytes.fromhex("ffff 00000000")),
    ],
)
def test_damaged_markers(key: bytes | None, value: bytes | None) -> None:
    batch = control(Record(0, 0, key, value))
    with pytest.raises(CorruptBatchError):
        read_end_marker(batch, read_header(batch))
