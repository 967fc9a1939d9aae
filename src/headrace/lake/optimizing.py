"""Which small files are merged when somebody asks for it: all of them, as far as they fit into a file.

Unlike `merging.py`, which weighs what a merge in the background is worth, this leaves at most one small file
in a partition, apart from those that would make a file larger than the target. A plan is one round: one merge
a partition, and a limited number of bytes. Each round leaves fewer files, so that rounds end. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.lake.merging import Merge
from headrace.lake.table_state import DataFile, PartitionValues

_FEWEST: Final = 2
# More files take long to open, whatever they weigh.
_MOST_FILES: Final = 2_000


def is_small(file: DataFile, target_bytes: int) -> bool:
    """Whether merging may take it."""
    return file.size < target_bytes / 2


def next_merges(
    partitions: Mapping[PartitionValues, Iterable[DataFile]], *, target_bytes: int
) -> tuple[Merge, ...]:
    """The merges of the next round; none if there is nothing left to merge."""
    chosen: list[Merge] = []
    total = files = 0
    for partition in sorted(partitions, key=repr):
        merge = _merge_in(partition, partitions[partition], target_bytes)
        if merge is None:
            continue
        if chosen and (total + merge.size > target_bytes or files + len(merge.files) > _MOST_FILES):
            break
        chosen.append(merge)
        total += merge.size
        files += len(merge.files)
    return tuple(chosen)


def _merge_in(partition: PartitionValues, files: Iterable[DataFile], target_bytes: int) -> Merge | None:
    small = sorted(
        (file for file in files if is_small(file, target_bytes)), key=lambda file: (file.size, file.name)
    )
    taken: list[DataFile] = []
    total = 0
    for file in small[:_MOST_FILES]:
        if len(taken) >= _FEWEST and total + file.size > target_bytes:
            break
        taken.append(file)
        total += file.size
    return Merge(partition=partition, files=tuple(taken)) if len(taken) >= _FEWEST else None
