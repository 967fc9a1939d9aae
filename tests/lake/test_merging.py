"""Which small files are merged: few files are left, and no row is written again too often."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lake.merging import MergeRules, plan_merges
from headrace.lake.table_state import DataFile, PartitionValues

RULES = MergeRules(target_bytes=1_000_000, least_files=8, most_bytes=5_000_000)
NOW = 10**12
_numbers = itertools.count()


def _file(size: int, *, kind: str | None = "a", modified_ms: int = NOW) -> DataFile:
    return DataFile(
        name=f"{next(_numbers)}.parquet",
        partition=(("kind", kind),),
        size=size,
        rows=1,
        modified_ms=modified_ms,
        action={},
    )


class Table:
    """Files, and how often each byte of them was written again."""

    def __init__(self, rules: MergeRules = RULES) -> None:
        self.rules = rules
        self.rewrites: dict[DataFile, int] = {}

    def add(self, file: DataFile) -> None:
        self.rewrites[file] = 0

    def merge(self, now: int = NOW) -> int:
        """One plan; how many merges it had."""
        partitions: dict[PartitionValues, list[DataFile]] = {}
        for file in self.rewrites:
            partitions.setdefault(file.partition, []).append(file)
        plan = plan_merges(partitions, self.rules, now_ms=now)
        assert len({merge.partition for merge in plan}) == len(plan), "one merge for a partition"
        for merge in plan:
            assert {file.partition for file in merge.files} == {merge.partition}
            assert len(merge.files) >= 2
            assert merge.size <= self.rules.target_bytes
            assert all(file.size < self.rules.target_bytes / 2 for file in merge.files)
            most = max(self.rewrites.pop(file) for file in merge.files)
            merged = _file(merge.size, modified_ms=now)
            self.rewrites[
                DataFile(
                    name=merged.name,
                    partition=merge.partition,
                    size=merge.size,
                    rows=1,
                    modified_ms=now,
                    action={},
                )
            ] = most + 1
        assert sum(merge.size for merge in plan[1:]) <= self.rules.most_bytes
        return len(plan)

    def merge_all(self, now: int = NOW) -> None:
        for _ in range(1_000):
            if not self.merge(now):
                return
        raise AssertionError("there is always something to merge")


# A file grows by a factor of 4 each time; the last merge, to the target size, may be by less.
def _most_rewrites(rules: MergeRules, smallest: int) -> int:
    return math.ceil(math.log(rules.target_bytes / smallest, 4)) + 1


def _most_small_files(rules: MergeRules, smallest: int) -> int:
    return rules.least_files + math.ceil(math.log(rules.target_bytes / smallest, 4 / 3))


sizes = st.integers(min_value=1_000, max_value=1_500_000)


@settings(max_examples=50)
@given(st.lists(st.tuples(sizes, st.sampled_from(["a", "b", None])), max_size=100))
def test_whatever_there_is_few_files_are_left(given_files: list[tuple[int, str | None]]) -> None:
    table = Table()
    for size, kind in given_files:
        table.add(_file(size, kind=kind))
    before = sum(file.size for file in table.rewrites)
    table.merge_all()
    assert sum(file.size for file in table.rewrites) == before
    for kind in ("a", "b", None):
        small = [
            file
            for file in table.rewrites
            if file.partition == (("kind", kind),) and file.size < RULES.target_bytes / 2
        ]
        assert len(small) <= _most_small_files(RULES, 1_000)
    assert max(table.rewrites.values(), default=0) <= _most_rewrites(RULES, 1_000)
    assert table.merge() == 0, "nothing is left to do"


@settings(max_examples=10)
@given(st.lists(st.integers(min_value=1_000, max_value=3_000), min_size=100, max_size=500))
def test_a_trickle_of_small_files(trickle: list[int]) -> None:
    """However long it lasts, files and rewrites stay bounded."""
    table = Table()
    for size in trickle:
        table.add(_file(size))
        table.merge()
        small = [file for file in table.rewrites if file.size < RULES.target_bytes / 2]
        assert len(small) <= _most_small_files(RULES, 1_000)
    assert max(table.rewrites.values()) <= _most_rewrites(RULES, 1_000)


def test_a_long_trickle_leaves_few_files() -> None:
    table = Table()
    most = 0
    for _ in range(3_000):
        table.add(_file(1_000))
        table.merge()
        most = max(most, sum(file.size < RULES.target_bytes / 2 for file in table.rewrites))
    assert most <= 20
    written_again = sum(file.size * times for file, times in table.rewrites.items())
    assert written_again / sum(file.size for file in table.rewrites) <= 6


def test_too_few_files_stay() -> None:
    table = Table()
    for _ in range(7):
        table.add(_file(1_000))
    assert table.merge() == 0
    table.add(_file(1_000))
    assert table.merge() == 1
    assert len(table.rewrites) == 1


def test_two_files_are_enough_where_nothing_is_written_any_more() -> None:
    table = Table()
    for _ in range(2):
        table.add(_file(1_000))
    assert table.merge() == 0
    assert table.merge(NOW + RULES.quiet_ms) == 1


def test_a_few_late_rows_do_not_rewrite_a_large_file() -> None:
    table = Table()
    table.add(_file(400_000))
    later = NOW
    for _ in range(50):
        later += RULES.quiet_ms
        table.add(_file(1_000, modified_ms=later))
        table.merge(later + RULES.quiet_ms)
    assert table.rewrites[max(table.rewrites, key=lambda file: file.size)] == 0


def test_large_files_are_never_touched() -> None:
    table = Table()
    for _ in range(100):
        table.add(_file(500_000))
    assert table.merge(NOW + RULES.quiet_ms) == 0


def test_work_is_limited_and_the_most_files_come_first() -> None:
    table = Table()
    for kind, count in (("a", 8), ("b", 20), ("c", 9)):
        for _ in range(count):
            table.add(_file(100_000, kind=kind))
    files: dict[PartitionValues, list[DataFile]] = {}
    for file in table.rewrites:
        files.setdefault(file.partition, []).append(file)
    rules = MergeRules(target_bytes=1_000_000, least_files=8, most_bytes=1_800_000)
    plan = plan_merges(files, rules, now_ms=NOW)
    assert [len(merge.files) for merge in plan] == [10, 8]
    assert plan[0].partition == (("kind", "b"),)
