"""The time between two micro-batches: by how many queries share how many cores. Starts no Spark."""

from __future__ import annotations

import pytest

from headrace.pipeline.spark.fair_turns import is_far_off, pace_ms


@pytest.mark.parametrize(
    ("queries", "cores", "expected"),
    [(0, 2, 0), (1, 2, 0), (2, 2, 0), (3, 2, 400), (8, 2, 800), (9, 2, 1600), (20, 2, 3200), (20, 32, 0)],
)
def test_more_queries_for_a_core_have_a_longer_pace(queries: int, cores: int, expected: int) -> None:
    assert pace_ms(queries, cores) == expected


def test_batches_of_a_tenth_of_a_second_never_take_more_than_half_of_the_machine() -> None:
    for cores in range(1, 65):
        for queries in range(cores + 1, 500):
            assert queries * 0.1 / (pace_ms(queries, cores) / 1000) <= cores / 2


def test_a_query_restarts_rarely_while_others_come_and_go() -> None:
    for arrivals in (range(1, 65), range(64, 0, -1)):
        pace, restarts = pace_ms(arrivals[0], 2), 0
        for queries in arrivals:
            if is_far_off(pace, pace_ms(queries, 2)):
                pace, restarts = pace_ms(queries, 2), restarts + 1
        assert 1 <= restarts <= 3
    # Back and forth between two steps: not at all.
    assert not is_far_off(pace_ms(16, 2), pace_ms(17, 2))
    assert not is_far_off(pace_ms(17, 2), pace_ms(16, 2))
    assert not is_far_off(pace_ms(2, 2), pace_ms(3, 2))
