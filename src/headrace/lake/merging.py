"""Which small files of a table are merged: a plan, made from what its log says of them.

Small files make every query slow, and every commit adds some. Merging all of them each time would write the
table again and again. So the files of a partition are taken from the smallest up, as many as still weigh
little: a file is merged only with others that together weigh a multiple of it.

- Each time a row is written again, its file grows by a factor (four, or two in a partition that is no longer
  written to, and for files that weigh next to nothing): a row is rewritten a logarithmic number of times.
- What is left is fewer than `least_files` small files, and others of which each weighs a part of all smaller
  ones together: a logarithmic number, too.
- A file of half the target size and more is never rewritten.

A partition that is no longer written to needs no reserve for files to come: two files are enough there.
Never merges across partitions. One merge a partition in a plan; a plan has a limited number of bytes. Pure:
no file, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.lake.table_state import DataFile, PartitionValues

# How long a partition got no file until it counts as no longer written to.
QUIET_MS: Final = 10 * 60 * 1000
# More files take long to open, whatever they weigh.
_MOST_FILES: Final = 2_000
# A file is merged if it weighs at most this part of all smaller ones together.
_PART: Final = 1 / 3
_PART_IF_TINY: Final = 1.0
# A file below this part of the target size costs a reader as much as a large one, and a merge little.
_TINY: Final = 1 / 16
_FEWEST: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """`least_files` is how many small files there must be in a partition; `most_bytes` limits a plan; its
    first merge may be larger.
    """

    target_bytes: int
    least_files: int
    most_bytes: int
    quiet_ms: int = QUIET_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Files of one partition that become one file."""

    partition: PartitionValues
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def plan_merges(
    partitions: Mapping[PartitionValues, Iterable[DataFile]], rules: MergeRules, *, now_ms: int
) -> tuple[Merge, ...]:
    """The merges that are worth most, as many as fit; none if there is nothing to do."""
    merges = [
        merge
        for partition, files in partitions.items()
        if (merge := _merge_in(partition, list(files), rules, now_ms=now_ms)) is not None
    ]
    merges.sort(key=lambda merge: (-len(merge.files), merge.size, repr(merge.partition)))
    chosen: list[Merge] = []
    total = files = 0
    for merge in merges:
        if chosen and (total + merge.size > rules.most_bytes or files + len(merge.files) > _MOST_FILES):
            continue
        chosen.append(merge)
        total += merge.size
        files += len(merge.files)
    return tuple(chosen)


def _merge_in(
    partition: PartitionValues, files: Sequence[DataFile], rules: MergeRules, *, now_ms: int
) -> Merge | None:
    small = sorted(
        (file for file in files if file.size < rules.target_bytes / 2),
        key=lambda file: (file.size, file.name),
    )
    is_quiet = max((file.modified_ms for file in files), default=0) <= now_ms - rules.quiet_ms
    least = _FEWEST if is_quiet else max(rules.least_files, _FEWEST)
    light = _light(small[:_MOST_FILES], rules.target_bytes * (1.0 if is_quiet else _TINY))
    if len(light) < least:
        return None
    return Merge(partition=partition, files=tuple(_up_to(light, rules.target_bytes)))


def _light(small: Sequence[DataFile], tiny_bytes: float) -> Sequence[DataFile]:
    """From the smallest up to the largest that weighs little beside those before it all together."""
    before = light = 0
    for number, file in enumerate(small):
        part = _PART_IF_TINY if file.size < tiny_bytes else _PART
        if number and file.size <= part * before:
            light = number + 1
        before += file.size
    return small[:light]


def _up_to(files: Sequence[DataFile], target: int) -> Sequence[DataFile]:
    """As many as give a file of the target size: two or more, because each weighs less than half of it."""
    total = 0
    for number, file in enumerate(files):
        total += file.size
        if total > target:
            return files[:number]
    return files
