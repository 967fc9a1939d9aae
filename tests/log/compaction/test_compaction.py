"""The rules of compaction: which part of a log is due, which segments are joined, the fate of batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.compaction.retained_records import (
    ABORT,
    COMMIT,
    BatchRules,
    ClosedSegment,
    DirtyPart,
    Fate,
    LastBatch,
    SegmentSizes,
    Transactions,
    dirty_part,
    group_segments,
)
from headrace.log.config import LogConfig
from headrace.log.segments.transaction_index import AbortedTransaction
from tests.log.batches import NOW

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))
SEGMENTS = [ClosedSegment(base, 100) for base in (0, 10, 20, 30)]


def part(
    config: LogConfig = CONFIG,
    closed: list[ClosedSegment] = SEGMENTS,
    *,
    start: int = 0,
    limit: int = 1000,
    cleaned: int | None = None,
) -> DirtyPart:
    return dirty_part(
        closed,
        config,
        start_offset=start,
        active_base=40,
        end_offset=45,
        limit_offset=limit,
        cleaned_offset=cleaned,
        now_ms=NOW,
    )


def test_all_closed_segments_are_dirty_at_first() -> None:
    found = part()
    assert (found.first_dirty, found.end_offset, found.clean_bytes, found.dirty_bytes) == (0, 40, 0, 400)
    assert found.ratio == 1.0
    assert found.is_due(CONFIG)


def test_the_share_of_the_dirty_part_decides() -> None:
    found = part(cleaned=20)
    assert (found.first_dirty, found.clean_bytes, found.dirty_bytes, found.ratio) == (20, 200, 200, 0.5)
    assert not found.is_due(CONFIG)
    assert found.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.49))
    assert not part(cleaned=40).is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.0))


@pytest.mark.parametrize("cleaned", [3, 46, -1])
def test_a_cleaned_offset_of_another_log_counts_as_none(cleaned: int) -> None:
    assert part(start=5, cleaned=cleaned).first_dirty == 5


@pytest.mark.parametrize(("limit", "end"), [(40, 40), (39, 30), (30, 30), (9, 0), (0, 0)])
def test_the_segment_with_the_limit_is_left_alone(limit: int, end: int) -> None:
    assert part(limit=limit).end_offset == end


def test_young_segments_are_left_alone() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=1000)
    ages = (5000, 1001, 999, 5000)
    closed = [
        ClosedSegment(segment.base_offset, 100, NOW - age)
        for segment, age in zip(SEGMENTS, ages, strict=True)
    ]
    assert part(config, closed).end_offset == 20
    # The age of clean segments does not matter.
    assert part(config, closed, cleaned=30).end_offset == 40


def test_old_records_are_not_waited_with() -> None:
    config = replace(CONFIG, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    closed = [ClosedSegment(segment.base_offset, 100, -1, NOW - 1001) for segment in SEGMENTS]
    assert part(config, closed).is_due(config)
    assert part(config, closed).overdue
    assert not part(config, closed, cleaned=40).is_due(config)
    young = [ClosedSegment(segment.base_offset, 100, -1, NOW - 1000) for segment in SEGMENTS]
    assert not part(config, young).is_due(config)
    unknown = [ClosedSegment(segment.base_offset, 100, -1, -1) for segment in SEGMENTS]
    assert not part(config, unknown).is_due(config)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 30)), max_size=20),
    st.integers(1, 100),
)
def test_groups_keep_order_and_limits(sizes: list[tuple[int, int, int]], most: int) -> None:
    segments = [SegmentSizes(number * 10, *each) for number, each in enumerate(sizes)]
    groups = group_segments(segments, most_bytes=most, most_index_bytes=40, end_offset=1000)
    assert [segment for group in groups for segment in group] == segments
    for group in groups:
        if len(group) > 1:
            assert sum(segment.size for segment in group) <= most
            assert sum(segment.index_size for segment in group) <= 40
            assert sum(segment.time_index_size for segment in group) <= 40


def test_groups_stay_within_what_an_index_can_say() -> None:
    segments = [SegmentSizes(base, 1, 0, 0) for base in (0, 2**31 - 1, 2**31)]
    groups = group_segments(segments, most_bytes=100, most_index_bytes=100, end_offset=2**31 + 5)
    assert [len(group) for group in groups] == [2, 1]


def test_aborted_transactions() -> None:
    first, second = AbortedTransaction(7, 10, 20, 21), AbortedTransaction(7, 30, 40, 41)
    transactions = Transactions([second, first])
    assert not transactions.data_batch(7, 5, 9)
    assert not transactions.marker(7, 9, COMMIT)
    assert transactions.data_batch(7, 10, 12)
    assert not transactions.data_batch(8, 13, 14)
    assert not transactions.marker(7, 20, ABORT)
    assert transactions.still_needed == [first]
    assert not transactions.data_batch(7, 21, 25)
    assert not transactions.marker(7, 26, COMMIT)
    # Only the marker of the second one is left.
    assert transactions.marker(7, 40, ABORT)
    assert transactions.still_needed == [first]
    assert transactions.marker(7, 50, COMMIT)
    assert not transactions.marker(8, 51, COMMIT)
    assert transactions.marker(9, 52, None)
    assert not transactions.marker(9, 53, 5)


def test_an_entry_without_its_marker_harms_no_later_transaction() -> None:
    transactions = Transactions([AbortedTransaction(7, 10, 20, 21), AbortedTransaction(7, 50, 60, 61)])
    assert transactions.data_batch(7, 15, 16)
    assert not transactions.data_batch(7, 21, 25)
    assert transactions.data_batch(7, 50, 52)


def test_what_stays_empty() -> None:
    rules = BatchRules(
        now_ms=NOW,
        delete_retention_ms=10,
        end_offset=100,
        last_batches={7: LastBatch(7, 50, 3), 8: LastBatch(8, -1, 4)},
    )

    def fate(
        producer: int, last: int, *, epoch: int = 0, control: bool = False, discard: bool = False
    ) -> Fate:
        return rules.fate(
            producer_id=producer, epoch=epoch, last_offset=last, control=control, discard=discard
        )

    assert fate(7, 50) is Fate.STAYS_EMPTY
    assert fate(7, 50, discard=True) is Fate.STAYS_EMPTY
    assert fate(7, 49) is Fate.STAYS_UNLESS_EMPTY
    assert fate(7, 49, discard=True) is Fate.GOES
    assert fate(-1, 99, discard=True) is Fate.STAYS_EMPTY
    assert fate(8, 60, epoch=4, control=True, discard=True) is Fate.STAYS_EMPTY
    assert fate(8, 60, epoch=3, control=True, discard=True) is Fate.GOES
    assert fate(8, 60, epoch=4) is Fate.STAYS_UNLESS_EMPTY
    assert rules.new_horizon == NOW + 10
    assert rules.keeps_tombstones(None)
    assert rules.keeps_tombstones(NOW + 1)
    assert not rules.keeps_tombstones(NOW)
