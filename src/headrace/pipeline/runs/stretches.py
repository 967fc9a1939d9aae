"""Stretches of offsets: a partition, the first and the last offset. Records that are to be read again lie
anywhere in a topic, so they come as stretches, in order.

`groups` puts those together that are worth reading in one go. `portions` are what one repair takes: small
enough for a record of the log, and for the pipeline process to be back at its queries within seconds. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

# Partition, first and last offset.
Stretch = tuple[int, int, int]

# So many records are read in vain sooner than a new read is begun behind them.
_FARTHEST: Final = 50_000
# Limits of a group: its offsets from the first to the last, and its stretches.
_LONGEST: Final = 250_000
_MOST_STRETCHES: Final = 2_500
_GROUPS_AT_ONCE: Final = 4


def joined(places: Iterable[tuple[int, int]]) -> list[Stretch]:
    """Partitions and offsets, in any order, as stretches."""
    found: list[Stretch] = []
    for partition, offset in sorted(set(places)):
        if found and found[-1][0] == partition and found[-1][2] == offset - 1:
            found[-1] = (partition, found[-1][1], offset)
        else:
            found.append((partition, offset, offset))
    return found


def places_of(stretches: Iterable[Stretch]) -> Iterator[tuple[int, int]]:
    for partition, first, last in stretches:
        yield from ((partition, offset) for offset in range(first, last + 1))


def number_of(stretches: Iterable[Stretch]) -> int:
    return sum(last - first + 1 for _, first, last in stretches)


def within(stretches: Iterable[Stretch], limits: Mapping[int, tuple[int, int]]) -> list[Stretch]:
    """What of the stretches lies within the limits: the first offset and the end of each partition."""
    found = []
    for partition, first, last in stretches:
        start, end = limits.get(partition, (0, 0))
        if max(first, start) < min(last + 1, end):
            found.append((partition, max(first, start), min(last, end - 1)))
    return found


def groups(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    """Each group is of one partition."""
    found: list[list[Stretch]] = []
    for each in _cut(stretches):
        if found and _belongs(found[-1], each):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def portions(stretches: Iterable[Stretch]) -> list[tuple[Stretch, ...]]:
    parts = groups(stretches)
    return [
        tuple(each for group in parts[start : start + _GROUPS_AT_ONCE] for each in group)
        for start in range(0, len(parts), _GROUPS_AT_ONCE)
    ]


def _cut(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    for partition, first, last in sorted(stretches):
        for start in range(first, last + 1, _LONGEST):
            yield partition, start, min(last, start + _LONGEST - 1)


def _belongs(group: Sequence[Stretch], each: Stretch) -> bool:
    partition, first, last = each
    return (
        group[0][0] == partition
        and first - group[-1][2] <= _FARTHEST
        and last - group[0][1] < _LONGEST
        and len(group) < _MOST_STRETCHES
    )
