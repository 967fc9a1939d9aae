"""Ranges of offsets and times from conditions: never too small, and exact for plain bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from headrace.query.topic_tables.columns import OFFSET, PARTITION, TIMESTAMP
from headrace.query.topic_tables.ranges import ranges_of

SCHEMA = pa.schema(
    {PARTITION: pa.int32(), OFFSET: pa.int64(), TIMESTAMP: pa.timestamp("us", "UTC"), "v": pa.string()}
)
STRETCHES = {0: (0, 50), 1: (10, 30), 2: (7, 7)}

COMPARISONS: list[Callable[[pc.Expression, object], pc.Expression]] = [
    lambda field, value: field == value,
    lambda field, value: field != value,
    lambda field, value: field < value,
    lambda field, value: field <= value,
    lambda field, value: field > value,
    lambda field, value: field >= value,
]
OFFSETS = st.builds(
    lambda make, value: make(pc.field(OFFSET), value), st.sampled_from(COMPARISONS), st.integers(-5, 55)
)
PARTITIONS = st.builds(
    lambda make, value: make(pc.field(PARTITION), value), st.sampled_from(COMPARISONS), st.integers(0, 3)
)
TIMES = st.builds(
    lambda make, ms: make(pc.field(TIMESTAMP), pa.scalar(ms * 1_000, pa.timestamp("us", "UTC"))),
    st.sampled_from(COMPARISONS),
    st.integers(-100, 6_000),
)
LISTS = st.builds(pc.field(OFFSET).isin, st.lists(st.integers(0, 50), max_size=4))
CONDITIONS = st.recursive(
    st.one_of(OFFSETS, PARTITIONS, TIMES, LISTS, st.just(pc.field("v") == "x")),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: reduce(and_, each)),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: reduce(or_, each)),
        inner.map(lambda each: ~each),
    ),
    max_leaves=6,
)


def records() -> pa.Table:
    """Every offset of every stretch, with times that are not in order."""
    rows = [
        {PARTITION: number, OFFSET: offset, TIMESTAMP: offset * 37 % 5_000 * 1_000, "v": "xy"[offset % 2]}
        for number, (first, end) in STRETCHES.items()
        for offset in range(first, end)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(CONDITIONS)
def test_no_record_is_outside_for_which_the_condition_holds(condition: pc.Expression) -> None:
    ranges = ranges_of(condition, STRETCHES, SCHEMA)
    for row in records().filter(condition).to_pylist():
        first, end = ranges.stretches[row[PARTITION]]
        assert first <= row[OFFSET] < end
        ms = int(row[TIMESTAMP].timestamp() * 1_000)
        assert ranges.from_ms is None or ms >= ranges.from_ms
        assert ranges.to_ms is None or ms < ranges.to_ms


@given(st.integers(-5, 55), st.integers(-5, 55))
def test_plain_bounds_are_exact(low: int, high: int) -> None:
    condition = (pc.field(OFFSET) > low) & (pc.field(OFFSET) <= high)
    expected = {
        number: (max(first, low + 1), min(end, high + 1))
        for number, (first, end) in STRETCHES.items()
        if max(first, low + 1) < min(end, high + 1)
    }
    assert ranges_of(condition, STRETCHES, SCHEMA).stretches == expected


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_times_are_exact(low: int, high: int) -> None:
    instant = [pa.scalar(ms * 1_000, pa.timestamp("us", "UTC")) for ms in (low, high)]
    found = ranges_of(
        (pc.field(TIMESTAMP) >= instant[0]) & (pc.field(TIMESTAMP) < instant[1]), STRETCHES, SCHEMA
    )
    if low < high:
        assert (found.from_ms, found.to_ms) == (low, high)
    else:
        assert found.stretches == {}
