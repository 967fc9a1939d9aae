"""Fingerprints of offsets, against sums that are written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.reconcile.fingerprints import (
    RANGE,
    Fingerprint,
    cut,
    differing,
    of_offset,
    of_stretch,
    range_of,
    summed,
)

OFFSETS = st.integers(0, 3 * RANGE)


@given(OFFSETS, st.integers(0, 500))
def test_a_stretch_is_the_sum_of_its_offsets(first: int, length: int) -> None:
    one_by_one = sum((of_offset(offset) for offset in range(first, first + length)), start=Fingerprint())
    assert of_stretch(first, first + length) == one_by_one


@given(OFFSETS, OFFSETS)
def test_a_stretch_is_cut_where_ranges_begin(first: int, end: int) -> None:
    parts = list(cut(first, end))
    assert sum((of_stretch(*part) for part in parts), start=Fingerprint()) == of_stretch(first, end)
    assert all(range_of(0, start) == range_of(0, stop - 1) for start, stop in parts)


@given(st.sets(st.integers(0, 1000), min_size=2), st.data())
def test_one_that_is_missing_and_one_that_is_double_do_not_make_up_for_each_other(
    offsets: set[int], data: st.DataObject
) -> None:
    missing, double = data.draw(
        st.lists(st.sampled_from(sorted(offsets)), min_size=2, max_size=2, unique=True)
    )
    wrong = [offset for offset in offsets if offset != missing] + [double]
    expected = summed((range_of(0, offset), of_offset(offset)) for offset in offsets)
    found = summed((range_of(0, offset), of_offset(offset)) for offset in wrong)
    assert differing(expected, found) == [(0, 0)]
    assert differing(expected, expected) == []


def test_a_range_without_any_counterpart_differs() -> None:
    assert differing({(0, 0): of_offset(1)}, {(1, 7): of_offset(2)}) == [(0, 0), (1, 7)]
