"""Parsing records: the fast loops against the plain reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.compaction.last_records import LastRecords
from headrace.log.compaction.record_keys import keys_of, locate_records, stands_for
from headrace.wire.errors import CorruptBatchError
from headrace.wire.records import Record, encode_record

KEYS = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"c", b"longer"]),
    st.integers(0, 3).map(lambda number: bytes([number]) * 40),
    st.integers(62, 66).map(bytes),
    st.integers(0, 3).map(lambda number: bytes([number]) * 9000),
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.integers(20, 70).map(bytes),
    st.integers(8100, 8200).map(bytes),
    st.just(bytes(17_000)),
)
TIMESTAMPS = st.one_of(
    st.integers(-70, 70), st.integers(-(2**13), 2**13), st.integers(-(2**28), 2**28), st.just(-(2**40))
)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        TIMESTAMPS,
        st.one_of(st.none(), KEYS, KEYS, KEYS),
        VALUES,
        st.just(()) | st.just(((b"h", b"v"), (b"i", None))),
    ),
    max_size=12,
)
GAPS = st.lists(st.integers(1, 9000), min_size=12, max_size=12)


def encoded(records: list[Record]) -> bytes:
    return b"".join(map(encode_record, records))


@given(RECORDS, GAPS, st.booleans())
def test_the_last_record_of_each_key(records: list[Record], gaps: list[int], gapped: bool) -> None:
    numbered = []
    delta = gaps[0] if gapped else 0
    for record, gap in zip(records, gaps, strict=False):
        numbered.append(record._replace(offset_delta=delta))
        delta += gap if gapped else 1
    data = encoded(numbered)
    keys = LastRecords()
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
        # Before the dirty part, every record with one of its keys is removed.
        assert not keys.keeps(place.key, place.delta)
    assert keys.keeps(b"another", 0)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200, 8191, 8192, 8193, 9000])
@pytest.mark.parametrize("value", [b"", b"v" * 40, b"v" * 100])
def test_batches_of_many_records(count: int, value: bytes) -> None:
    records = [Record(number, number // 7, b"key-%d" % (number % 150), value) for number in range(count)]
    found = keys_of(encoded(records), count)
    assert found.keys == [record.key for record in records]
    assert list(found.deltas) == list(range(count))
    assert (found.tombstones, found.gapped) == ([], False)


def test_survivors_are_given_batch_by_batch() -> None:
    keys = LastRecords()
    for base in reversed(range(0, 60, 10)):
        records = [Record(number, 0, b"%d" % (number % 7), b"v") for number in range(10)]
        keys.add(encoded(records), 10, base)
    survivors = keys.survivors()
    assert survivors.between(0, 9) == []
    assert survivors.between(40, 49) == []
    assert survivors.between(50, 54) == [53, 54]
    assert survivors.between(55, 59) == [55, 56, 57, 58, 59]


def test_a_tombstone_counts_only_if_it_is_the_last() -> None:
    keys = LastRecords()
    keys.add(encoded([Record(0, 0, b"a", b"v"), Record(1, 0, b"b", None), Record(2, 0, b"c", None)]), 3, 10)
    keys.add(encoded([Record(0, 0, b"a", None), Record(1, 0, b"d", None), Record(2, 0, b"d", b"v")]), 3, 0)
    survivors = keys.survivors()
    assert survivors.between(0, 100) == [2, 10, 11, 12]
    assert survivors.tombstones_between(0, 100) == [11, 12]


def test_only_what_lies_behind_the_start_counts() -> None:
    data = encoded([Record(number, 0, b"k%d" % (number % 3), b"v") for number in range(6)])
    keys = LastRecords()
    keys.add_from(data, 6, 100, 104)
    assert keys.survivors().between(0, 1000) == [104, 105]
    located = locate_records(data, 6)
    kept = [100 + record.delta for record in located if keys.keeps(record.key, 100 + record.delta)]
    # k1 and k2 are after the start, k0 is not.
    assert kept == [100, 103, 104, 105]


@pytest.mark.parametrize("cut", [1, 2, 5, 9])
def test_damaged_records(cut: int) -> None:
    data = encoded([Record(number, 0, b"key", b"value") for number in range(3)])
    for broken in (data[:-cut], data + b"\x00" * cut):
        with pytest.raises(CorruptBatchError):
            LastRecords().add(broken, 3, 0)
        with pytest.raises(CorruptBatchError):
            locate_records(broken, 3)
