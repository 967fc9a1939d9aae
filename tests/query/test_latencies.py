"""Latencies recovered from headers and quantiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.histogram import Histogram
from headrace.lake.coordinates import POSTED_AT_HEADER
from headrace.query.latencies import posted_at_ms, weighted_quantiles


def test_the_time_of_the_post_is_read_where_it_is_one() -> None:
    assert posted_at_ms([(POSTED_AT_HEADER, b"1700000000123")]) == 1_700_000_000_123
    assert posted_at_ms([(POSTED_AT_HEADER, b"soon")]) is None
    assert posted_at_ms([]) is None


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=1), st.integers(1, 5000))
def test_equal_quantiles_give_all_rows_that_value(values: list[float], rows: int) -> None:
    assert {value for value, _ in weighted_quantiles(values * 101, rows)} == set(values)
    assert sum(count for _, count in weighted_quantiles(values * 101, rows)) == rows


@given(st.lists(st.floats(0.1, 10_000), min_size=1, max_size=400))
def test_percentiles_survive_the_way_through_quantiles(latencies: list[float]) -> None:
    ordered = sorted(latencies)
    quantiles = [ordered[round((len(ordered) - 1) * percent / 100)] for percent in range(101)]
    histogram = Histogram()
    for value, count in weighted_quantiles(quantiles, len(ordered)):
        histogram.add(value, count)
    assert histogram.count == len(ordered)
    for percent in (0, 50, 90, 99, 100):
        # One row more or less is the most that a hundred and one points can lose.
        rank = round((len(ordered) - 1) * percent / 100)
        slack = 1 + len(ordered) // 100
        low, high = ordered[max(0, rank - slack)], ordered[min(len(ordered) - 1, rank + slack)]
        result = histogram.percentile(percent)
        assert result is not None
        assert low * 0.98 <= result <= high * 1.02


@pytest.mark.parametrize(("quantiles", "rows"), [([], 5), ([1.0] * 101, 0), ([1.0] * 101, -1)])
def test_a_batch_without_rows_or_quantiles_adds_nothing(quantiles: list[float], rows: int) -> None:
    assert list(weighted_quantiles(quantiles, rows)) == []
