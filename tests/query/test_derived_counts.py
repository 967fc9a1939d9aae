"""The rules of counting, over streams of records that hypothesis makes up, with repetitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.histogram import Histogram
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, SourceCoordinates
from headrace.query.derived_counts import DerivedCount, posted_at_ms, weighted_quantiles


def source(
    offset: int, *, ordinal: int = 0, partition: int = 0, topic_id: str = "first"
) -> list[tuple[str, bytes]]:
    coordinates = SourceCoordinates(
        query="q", topic_id=topic_id, partition=partition, offset=offset, ordinal=ordinal
    )
    return [(SOURCE_HEADER, coordinates.as_header())]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59)), max_size=4),
)
def test_what_is_repeated_from_some_point_on_counts_once(
    lanes: list[tuple[int, int]], repeats: list[tuple[int, int]]
) -> None:
    """A writer that crashes goes back some records and writes them again, to the same partitions."""
    offsets: dict[int, int] = {}
    stream = []
    for source_partition, derived_partition in lanes:
        offset = offsets.get(source_partition, 0)
        offsets[source_partition] = offset + 1
        stream.append((derived_partition, source(offset, partition=source_partition)))
    written = list(stream)
    for start, length in repeats:
        written[start + length : start + length] = written[start : start + length]
    counted = DerivedCount()
    for partition, headers in written:
        counted.add(partition, headers)
    assert counted.count == len(stream)
    ends = {("first", partition): end for partition, end in offsets.items()}
    assert counted.source_ends() == ends


def test_one_source_record_may_give_several() -> None:
    counted = DerivedCount()
    assert [counted.add(0, source(5, ordinal=ordinal)) for ordinal in (0, 1, 1, 0, 2)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert counted.count == 3


def test_a_source_topic_made_again_is_another_source() -> None:
    counted = DerivedCount()
    for topic_id in ("first", "second"):
        for offset in range(3):
            assert counted.add(0, source(offset, topic_id=topic_id))
    assert counted.count == 6
    assert counted.source_ends() == {("first", 0): 3, ("second", 0): 3}


@pytest.mark.parametrize(
    "headers", [[], [("other", b"x")], [(SOURCE_HEADER, b"nonsense")], [(SOURCE_HEADER, None)]]
)
def test_records_without_coordinates_count_each(headers: list[tuple[str, bytes | None]]) -> None:
    counted = DerivedCount()
    assert counted.add(0, headers)
    assert counted.add(0, headers)
    assert counted.count == 2


def test_a_topic_id_is_the_same_in_either_alphabet_of_base64() -> None:
    counted = DerivedCount()
    assert counted.add(0, source(0, topic_id="ab+c"))
    assert not counted.add(0, source(0, topic_id="ab-c"))
    assert counted.source_ends() == {("ab-c", 0): 1}


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
