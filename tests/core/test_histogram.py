"""Percentiles from buckets against exact ones, over values that hypothesis makes up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.histogram import LARGEST_MS, SMALLEST_MS, Histogram, Percentiles, SlidingHistogram

in_range = st.floats(min_value=SMALLEST_MS, max_value=LARGEST_MS)
any_value = st.floats(min_value=-1e12, max_value=1e12, allow_nan=False)
percents = st.floats(min_value=0, max_value=100) | st.sampled_from([0, 50, 90, 99, 100])


def exact(values: list[float], percent: float) -> float:
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]


def filled(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(st.lists(in_range, min_size=1, max_size=300), percents)
def test_a_percentile_is_within_one_per_cent_of_the_exact_one(values: list[float], percent: float) -> None:
    assert filled(values).percentile(percent) == pytest.approx(exact(values, percent), rel=0.0101)


@given(st.lists(any_value, min_size=1), percents)
def test_no_percentile_lies_outside_the_values(values: list[float], percent: float) -> None:
    result = filled(values).percentile(percent)
    assert result is not None
    assert min(values) <= result <= max(values)
    assert filled(values).percentile(0) == min(values)
    assert filled(values).percentile(100) == max(values)


@given(st.lists(any_value, min_size=1), percents, percents)
def test_a_higher_percentile_is_not_lower(values: list[float], one: float, other: float) -> None:
    histogram = filled(values)
    low, high = histogram.percentile(min(one, other)), histogram.percentile(max(one, other))
    assert low is not None
    assert high is not None
    assert low <= high


@given(st.lists(any_value), st.lists(any_value), percents)
def test_merged_is_as_if_all_were_added_to_one(left: list[float], right: list[float], percent: float) -> None:
    merged = filled(left)
    merged.merge(filled(right))
    assert merged.count == len(left) + len(right)
    assert merged.percentile(percent) == filled(left + right).percentile(percent)


@given(st.lists(st.tuples(in_range, st.integers(min_value=0, max_value=9)), min_size=1), percents)
def test_a_count_is_as_good_as_adding_so_often(weighted: list[tuple[float, int]], percent: float) -> None:
    counted = Histogram()
    for value, count in weighted:
        counted.add(value, count)
    one_by_one = filled([value for value, count in weighted for _ in range(count)])
    assert counted.count == one_by_one.count
    assert counted.percentile(percent) == one_by_one.percentile(percent)


def test_without_values_there_are_no_percentiles() -> None:
    assert Histogram().percentiles() == Percentiles(p50=None, p90=None, p99=None, count=0)
    assert Histogram().percentiles().as_json() == {"p50": None, "p90": None, "p99": None, "count": 0}


def test_the_three_percentiles_of_a_known_distribution() -> None:
    percentiles = filled([float(value) for value in range(1, 1001)]).percentiles()
    assert percentiles.p50 == pytest.approx(500, rel=0.01)
    assert percentiles.p90 == pytest.approx(900, rel=0.01)
    assert percentiles.p99 == pytest.approx(990, rel=0.01)
    assert percentiles.count == 1000


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_latency_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Histogram().add(value)


def test_a_negative_count_and_an_impossible_percentile_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Histogram().add(1.0, -1)
    with pytest.raises(ValueError, match="between 0 and 100"):
        Histogram().percentile(101)


def test_a_window_forgets_what_is_older_than_itself() -> None:
    window = SlidingHistogram(window_seconds=60, slots=6)
    window.add(1.0, now=1000.0)
    window.add(2.0, now=1030.0)
    assert window.merged(now=1030.0).count == 2
    assert window.merged(now=1059.0).percentile(0) == 1.0
    assert window.merged(now=1060.0).percentile(0) == 2.0
    assert window.merged(now=1090.0).count == 0


def test_a_window_takes_late_values_that_still_lie_in_it() -> None:
    window = SlidingHistogram(window_seconds=60, slots=6)
    window.add(1.0, now=1000.0)
    window.add(2.0, now=980.0)
    window.add(3.0, now=900.0)
    assert window.merged(now=1000.0).count == 2
    assert window.percentiles(now=1000.0).count == 2


@given(st.lists(st.tuples(in_range, st.floats(0, 1000)), max_size=100), st.floats(0, 1000))
def test_a_window_holds_its_length_but_for_a_slot(entries: list[tuple[float, float]], now: float) -> None:
    window = SlidingHistogram(window_seconds=100, slots=10)
    ordered = sorted(((value, at) for value, at in entries if at <= now), key=lambda entry: entry[1])
    for value, at in ordered:
        window.add(value, now=at)
    count = window.merged(now=now).count
    surely = sum(1 for _, at in ordered if at > now - 90)
    at_most = sum(1 for _, at in ordered if at > now - 100 - 1e-9)
    assert surely <= count <= at_most
