"""The set of written identities: exact, whatever was written, and never much larger than its records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.runs.identities import Collected, Written, WrittenOrder

_SMALL = st.tuples(st.integers(0, 40), st.integers(0, 5))
_WIDE = st.tuples(st.integers(0, 2**50), st.sampled_from([0, 0, 0, 1, 7, 10_000]))


def _written(pairs: list[tuple[int, int]]) -> Written:
    collected = Collected()
    for offset, ordinal in pairs:
        collected.add(offset, ordinal)
    return collected.written()


@given(st.lists(_SMALL))
def test_has_exactly_what_was_added(pairs: list[tuple[int, int]]) -> None:
    found = _written(pairs)
    for offset in range(-1, 43):
        for ordinal in range(8):
            assert found.has(offset, ordinal) == ((offset, ordinal) in pairs)
    assert found.end == max((offset + 1 for offset, _ in pairs), default=0)


@given(st.lists(_WIDE))
def test_scattered_records_are_found_too(pairs: list[tuple[int, int]]) -> None:
    found = _written(pairs)
    assert all(found.has(*pair) for pair in pairs)
    for offset, ordinal in pairs:
        for other in ((offset + 1, ordinal), (offset - 1, ordinal), (offset, ordinal + 1)):
            assert found.has(*other) == (other in pairs)
    size = sum(len(stretch.bits) for stretch in found.stretches)
    assert size <= 8200 * len(set(pairs))


@given(st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_unbroken_ends_before_the_first_missing_record(offsets: set[int], position: int) -> None:
    found = _written([(offset, 0) for offset in offsets]).unbroken_from(position)
    missing = next(offset for offset in range(position, 62) if offset not in offsets)
    for offset in range(62):
        assert found.has(offset, 0) == (position <= offset < missing)


def test_a_run_without_holes_needs_no_bits() -> None:
    (stretch,) = _written([(offset, ordinal) for offset in range(5, 1005) for ordinal in range(3)]).stretches
    assert (stretch.first, stretch.last, stretch.width, stretch.bits) == (5, 1004, 3, b"")


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8))))
def test_rows_below_the_bound_stand_behind_all_older_ones(rows: list[tuple[int, int]]) -> None:
    order = WrittenOrder()
    last: dict[tuple[int, int], int] = {}
    for number, (partition, offset) in enumerate(rows):
        order.add(partition, offset)
        last[partition, offset] = number
    bound = order.in_order_below()
    misplaced = [
        older[1]
        for older in last
        for newer in last
        if older[0] == newer[0] and older[1] < newer[1] and last[older] > last[newer]
    ]
    assert bound == (min(misplaced) + 1 if misplaced else None)
