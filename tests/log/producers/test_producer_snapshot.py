"""The snapshot file of producers: its bytes, round trips, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.producers.producer_snapshot import (
    BatchSnapshot,
    CorruptSnapshotError,
    ProducerSnapshot,
    decode,
    encode,
)

long = st.integers(-(2**63), 2**63 - 1)
integer = st.integers(-(2**31), 2**31 - 1)
producers = st.lists(
    st.builds(
        ProducerSnapshot, long, st.integers(-(2**15), 2**15 - 1), integer, long, integer, long, integer, long
    )
)
ONE = ProducerSnapshot(
    producer_id=1,
    epoch=2,
    last_sequence=3,
    last_offset=4,
    offset_delta=5,
    timestamp=6,
    coordinator_epoch=-1,
    transaction_first_offset=-1,
)


batches = st.lists(st.builds(BatchSnapshot, long, integer, long, integer, long), max_size=5)
EARLIER = BatchSnapshot(producer_id=1, last_sequence=2, last_offset=3, offset_delta=0, timestamp=5)


@given(producers=producers, batches=batches)
def test_there_and_back(producers: list[ProducerSnapshot], batches: list[BatchSnapshot]) -> None:
    assert decode(encode(producers, batches)) == (producers, batches)


def test_our_part_is_left_out_where_it_is_empty() -> None:
    assert encode([ONE], [EARLIER])[6:56] == encode([ONE])[6:]
    assert len(encode([ONE], [EARLIER])) == len(encode([ONE])) + 4 + 32


def test_the_bytes() -> None:
    content = encode([ONE])
    assert content[:2] == b"\x00\x01"
    assert content[6:] == bytes.fromhex(
        "0000000100000000000000010002000000030000000000000004000000050000000000000006ffffffffffffffffffffffff"
    )


@pytest.mark.parametrize("size", [0, 5, 9, 10, 55, 56, 58, 60, 91])
def test_a_file_that_was_cut_off(size: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(encode([ONE], [EARLIER])[:size])


def test_bytes_behind_the_end() -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(encode([ONE]) + b"\x00")


@given(at=st.integers(0, 91), flip=st.integers(1, 255))
def test_any_changed_byte_shows(at: int, flip: int) -> None:
    content = bytearray(encode([ONE], [EARLIER]))
    content[at] ^= flip
    with pytest.raises(CorruptSnapshotError):
        decode(bytes(content))
