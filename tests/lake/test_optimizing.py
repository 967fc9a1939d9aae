"""All small files are merged when somebody asks for it, in rounds that end."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lake.optimizing import is_small, next_merges
from headrace.lake.table_state import DataFile, PartitionValues

TARGET = 1_000
_numbers = itertools.count()


def _file(size: int, kind: str) -> DataFile:
    return DataFile(
        name=f"{next(_numbers)}", partition=(("kind", kind),), size=size, rows=1, modified_ms=0, action={}
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 1_200), st.sampled_from("abc")), max_size=60))
def test_rounds_leave_large_files_and_one_small_one(files: list[tuple[int, str]]) -> None:
    present = {file for size, kind in files for file in [_file(size, kind)]}
    total = sum(file.size for file in present)
    for _ in range(100):
        partitions: dict[PartitionValues, list[DataFile]] = {}
        for file in present:
            partitions.setdefault(file.partition, []).append(file)
        merges = next_merges(partitions, target_bytes=TARGET)
        if not merges:
            break
        assert len({merge.partition for merge in merges}) == len(merges), "one merge for a partition"
        assert len(merges) == 1 or sum(merge.size for merge in merges) <= TARGET
        for merge in merges:
            assert len(merge.files) >= 2
            assert merge.size <= TARGET
            assert all(file.partition == merge.partition and is_small(file, TARGET) for file in merge.files)
            present -= set(merge.files)
            present.add(_file(merge.size, dict(merge.partition)["kind"] or ""))
    else:
        raise AssertionError("rounds do not end")
    assert sum(file.size for file in present) == total
    for kind in "abc":
        assert sum(is_small(file, TARGET) for file in present if dict(file.partition)["kind"] == kind) <= 1
