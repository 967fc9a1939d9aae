"""Fingerprints of sets of offsets: how many, their sum, and the sum of their squares.

The fingerprint of a dense stretch of offsets is a formula, so that of a topic costs its batch headers only.
Fingerprints add up, and those of two sets that differ by a few offsets differ: one offset that is missing and
another that is double keep the number, but change a sum. Sets of offsets that have all three in common by
accident are practically impossible; `--full` compares the offsets themselves.

A *range* is a stretch of `RANGE` offsets of one partition, named by its number: what does not add up is
looked at range by range. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

RANGE: Final = 100_000

# A partition and the number of a range in it.
RangeKey = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    records: int = 0
    total: int = 0
    squares: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(
            records=self.records + other.records,
            total=self.total + other.total,
            squares=self.squares + other.squares,
        )


NOTHING: Final = Fingerprint()


def of_stretch(first: int, end: int) -> Fingerprint:
    """All offsets from `first` up to, but without, `end`."""
    if first >= end:
        return NOTHING
    return Fingerprint(
        records=end - first,
        total=_sum_before(end) - _sum_before(first),
        squares=_squares_before(end) - _squares_before(first),
    )


def of_offset(offset: int) -> Fingerprint:
    return Fingerprint(records=1, total=offset, squares=offset * offset)


def range_of(partition: int, offset: int) -> RangeKey:
    return partition, offset // RANGE


def cut(first: int, end: int) -> Iterator[tuple[int, int]]:
    """A stretch, cut where ranges begin."""
    while first < end:
        stop = min(end, (first // RANGE + 1) * RANGE)
        yield first, stop
        first = stop


def summed(parts: Iterable[tuple[RangeKey, Fingerprint]]) -> dict[RangeKey, Fingerprint]:
    sums: dict[RangeKey, Fingerprint] = {}
    for key, part in parts:
        sums[key] = sums.get(key, NOTHING) + part
    return sums


def differing(
    expected: Mapping[RangeKey, Fingerprint], found: Mapping[RangeKey, Fingerprint]
) -> list[RangeKey]:
    """The ranges whose fingerprints are not the same."""
    return sorted(
        key for key in expected.keys() | found.keys() if expected.get(key, NOTHING) != found.get(key, NOTHING)
    )


def _sum_before(end: int) -> int:
    return end * (end - 1) // 2


def _squares_before(end: int) -> int:
    return end * (end - 1) * (2 * end - 1) // 6
