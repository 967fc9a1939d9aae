"""Stretches of offsets: what they say together is what they said apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.runs.stretches import Stretch, groups, joined, number_of, places_of, portions, within

PLACES = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 40)))


@given(PLACES)
def test_places_survive(places: set[tuple[int, int]]) -> None:
    stretches = joined(places)
    assert sorted(places_of(stretches)) == sorted(places)
    assert number_of(stretches) == len(places)
    assert [each for portion in portions(stretches) for each in portion] == stretches
    limits = {0: (5, 20), 2: (0, 3)}
    assert set(places_of(within(stretches, limits))) == {
        (partition, offset)
        for partition, offset in places
        if partition in limits and limits[partition][0] <= offset < limits[partition][1]
    }


@given(st.lists(st.tuples(st.integers(1, 400_000), st.integers(0, 400_000)), max_size=20))
def test_groups_are_short_and_lose_nothing(steps: list[tuple[int, int]]) -> None:
    stretches: list[Stretch] = []
    end = 0
    for distance, length in steps:
        first = end + distance + 1
        end = first + length
        stretches.append((0, first, end))
    found = groups(stretches)
    assert all(group[-1][2] - group[0][1] < 250_000 for group in found)
    assert number_of(each for group in found for each in group) == number_of(stretches)
    assert sum(map(len, found)) >= len(stretches)


def test_a_portion_fits_a_record_of_the_log() -> None:
    every_other = [(0, offset, offset) for offset in range(0, 100_000, 2)]
    parts = portions(every_other)
    assert [each for part in parts for each in part] == every_other
    assert max(len(str(part)) for part in parts) < 500_000


def test_records_far_apart_are_read_apart() -> None:
    assert len(groups([(0, 0, 0), (0, 49_000, 49_000)])) == 1
    assert len(groups([(0, 0, 0), (0, 10_000_000, 10_000_000)])) == 2
    assert len(groups([(0, 0, 0), (1, 1, 1)])) == 2
