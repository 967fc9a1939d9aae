"""The index of aborted transactions: its bytes, its lookups, and invalid files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.segments.offset_index import CorruptIndexError
from headrace.log.segments.transaction_index import ENTRY_SIZE, AbortedTransaction, TransactionIndex

ENTRIES = [
    AbortedTransaction(7, 10, 13, 11),
    AbortedTransaction(8, 11, 20, 21),
    AbortedTransaction(9, 22, 30, 31),
]


def index_of(*entries: AbortedTransaction) -> TransactionIndex:
    return TransactionIndex(list(entries))


def test_the_bytes_are_those_of_kafka() -> None:
    assert index_of(ENTRIES[0]).to_bytes() == bytes.fromhex(
        "0000 0000000000000007 000000000000000a 000000000000000d 000000000000000b"
    )
    assert len(index_of(*ENTRIES).to_bytes()) == 3 * ENTRY_SIZE


@pytest.mark.parametrize(
    ("start", "end", "expected", "complete"),
    [
        (0, 5, [], True),
        (0, 11, ENTRIES[:1], True),
        (0, 12, ENTRIES[:2], True),
        (14, 22, ENTRIES[1:2], True),
        (21, 31, ENTRIES[2:], True),
        (14, 32, ENTRIES[1:], False),
        (31, 40, [], False),
    ],
)
def test_those_that_a_reader_has_to_know(
    start: int, end: int, expected: list[AbortedTransaction], complete: bool
) -> None:
    """It stops once the log was decided up to the end of the range: later markers cannot concern it."""
    assert index_of(*ENTRIES).overlapping(start, end) == (expected, complete)


def test_truncating_takes_the_markers_from_an_offset_on() -> None:
    index = index_of(*ENTRIES)
    index.saved = 3
    index.truncate(31)
    assert (len(index), index.file_longer) == (3, False)
    index.truncate(30)
    assert (index.entries, index.saved, index.file_longer) == (ENTRIES[:2], 2, True)
    index.truncate(0)
    assert (len(index), index.saved) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9), st.integers(0, 9)), max_size=20))
def test_what_is_written_reads_back(steps: list[tuple[int, int, int]]) -> None:
    index = TransactionIndex()
    marker = 0
    for producer, step, length in steps:
        marker += step + length
        index.append(AbortedTransaction(producer, marker - step, marker, marker + 1))
    again = TransactionIndex.parse(index.to_bytes(), 0, marker + 1)
    assert (again.entries, again.saved) == (index.entries, len(index))


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 33,
        index_of(ENTRIES[0]).to_bytes() + b"\x00",
        b"\x00\x01" + index_of(ENTRIES[0]).to_bytes()[2:],
        index_of(*reversed(ENTRIES)).to_bytes(),
        index_of(AbortedTransaction(7, 10, 40, 41)).to_bytes(),
        index_of(AbortedTransaction(7, 2, 4, 5)).to_bytes(),
        index_of(AbortedTransaction(7, 13, 13, 14)).to_bytes(),
        index_of(AbortedTransaction(7, -1, 13, 14)).to_bytes(),
    ],
)
def test_files_that_cannot_be_an_index(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        TransactionIndex.parse(content, 5, 40)
