"""Walking over records: the fast loops against the plain reading of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.record_keys import KeyOffsets, locate_records, stands_for
from headrace.wire.errors import CorruptBatchError
from headrace.wire.records import Record, encode_record

KEYS = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"c"]),
    st.integers(0, 3).map(lambda number: bytes([number]) * 40),
    st.integers(0, 3).map(lambda number: bytes([number]) * 9000),
)
VALUES = st.one_of(st.none(), st.binary(max_size=3), st.integers(60, 70).map(bytes), st.just(bytes(17_000)))
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-(2**40), 2**40),
        st.one_of(st.none(), KEYS),
        VALUES,
        st.just(()) | st.just(((b"h", b"v"), (b"i", None))),
    ),
    max_size=12,
)
GAPS = st.lists(st.integers(1, 9000), min_size=12, max_size=12)


@given(RECORDS, GAPS, st.booleans())
def test_the_last_offset_of_each_key(records: list[Record], gaps: list[int], gapped: bool) -> None:
    numbered = []
    delta = gaps[0] if gapped else 0
    for record, gap in zip(records, gaps, strict=False):
        numbered.append(record._replace(offset_delta=delta))
        delta += gap if gapped else 1
    data = b"".join(map(encode_record, numbered))
    keys = KeyOffsets()
    keys.add(data, len(numbered), 1000)
    expected = {record.key: record for record in numbered if record.key is not None}
    survivors = keys.survivors()
    assert survivors.between(0, 10**9) == sorted(1000 + record.offset_delta for record in expected.values())
    assert survivors.tombstones_between(0, 10**9) == sorted(
        1000 + record.offset_delta for record in expected.values() if record.value is None
    )
    assert len(keys) == len(expected)
    assert (1000 in keys.gapped) == any(
        record.offset_delta != number for number, record in enumerate(numbered)
    )
    located = locate_records(data, len(numbered))
    for record, place in zip(numbered, located, strict=True):
        assert (place.delta, place.timestamp_delta) == (record.offset_delta, record.timestamp_delta)
        assert place.key == (None if record.key is None else stands_for(record.key))
        assert place.tombstone == (record.value is None)
        assert data[place.start : place.finish] == encode_record(record)
        last = expected.get(record.key) if record.key is not None else None
        assert keys.keeps(place.key, 1000 + place.delta) == (last is not None and last is record)


def test_survivors_are_given_batch_by_batch() -> None:
    keys = KeyOffsets()
    for base in range(0, 60, 10):
        records = [Record(number, 0, b"%d" % (number % 7), b"v") for number in range(10)]
        keys.add(b"".join(map(encode_record, records)), 10, base)
    survivors = keys.survivors()
    assert survivors.between(0, 9) == []
    assert survivors.between(40, 49) == []
    assert survivors.between(50, 54) == [53, 54]
    assert survivors.between(55, 59) == [55, 56, 57, 58, 59]


def test_only_what_lies_behind_the_start_counts() -> None:
    data = b"".join(encode_record(Record(number, 0, b"k%d" % number, b"v")) for number in range(4))
    keys = KeyOffsets()
    keys.add_from(data, 4, 100, 102)
    assert keys.survivors().between(0, 1000) == [102, 103]


@pytest.mark.parametrize("cut", [1, 2, 5, 9])
def test_damaged_records(cut: int) -> None:
    data = b"".join(encode_record(Record(number, 0, b"key", b"value")) for number in range(3))
    for broken in (data[:-cut], data + b"\x00" * cut):
        with pytest.raises(CorruptBatchError):
            KeyOffsets().add(broken, 3, 0)
        with pytest.raises(CorruptBatchError):
            locate_records(broken, 3)
