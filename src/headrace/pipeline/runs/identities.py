"""Which derived records a query has already written, by the coordinates of their source records.

For each source partition: stretches of offsets with a bit for each offset and ordinal. Most often there is
one, without a bit missing; steps that drop rows leave holes, and table functions make several rows of one
record. There are at most 64 times as many bits as records, and some for each stretch, so that Spark can be
given them as a literal (`pipeline/spark/written_filter.py`). Frozen and pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_BITS_PER_RECORD: Final = 64
# A stretch may have this many bits, however few records are in it.
_FREE_BITS: Final = 65_536
_FIRST: Final = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Offsets from `first` to `last`, both included, with ordinals below `width`.

    Bit `(offset - first) * width + ordinal` tells whether the record was written. `bits` has the lowest bit
    of each byte first; it is empty if all bits are set.
    """

    first: int
    last: int
    width: int
    bits: bytes

    def has(self, offset: int, ordinal: int) -> bool:
        if not (self.first <= offset <= self.last and 0 <= ordinal < self.width):
            return False
        bit = (offset - self.first) * self.width + ordinal
        return not self.bits or bool(self.bits[bit // 8] >> (bit % 8) & 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written of one source partition. Stretches are in order and share no offset."""

    stretches: tuple[Stretch, ...] = ()

    @property
    def end(self) -> int:
        """The offset after the last one; 0 if nothing was written."""
        return self.stretches[-1].last + 1 if self.stretches else 0

    def has(self, offset: int, ordinal: int) -> bool:
        number = bisect_right(self.stretches, offset, key=lambda each: each.first) - 1
        return number >= 0 and self.stretches[number].has(offset, ordinal)

    def unbroken_from(self, position: int, below: int | None = None) -> Written:
        """Only what was written of the records from `position` up to the first of which nothing was, and of
        none from `below` on.
        """
        end = position
        while self.has(end, 0) and (below is None or end < below):
            end += 1
        if end == position:
            return Written()
        return Written(stretches=(Stretch(first=position, last=end - 1, width=1, bits=b""),))


class Collected:
    """Collects what was written of one source partition, in any order; repeated records count once."""

    def __init__(self) -> None:
        # Apart, because most records have no other ordinal, and there may be millions.
        self._first_rows: set[int] = set()
        self._further_rows: set[tuple[int, int]] = set()

    def add(self, offset: int, ordinal: int) -> None:
        if ordinal == 0:
            self._first_rows.add(offset)
        else:
            self._further_rows.add((offset, ordinal))

    def written(self) -> Written:
        by_offset: dict[int, Sequence[int]] = dict.fromkeys(self._first_rows, _FIRST)
        for offset, ordinal in sorted(self._further_rows):
            by_offset[offset] = (*by_offset.get(offset, ()), ordinal)
        in_order = {offset: by_offset[offset] for offset in sorted(by_offset)}
        return Written(stretches=tuple(_stretch(part) for part in _parts(in_order)))


class WrittenOrder:
    """The order in which rows of one source partition stand in a sink; for tables, whose rows overwrite each
    other.

    All rows of a key are in one partition of the sink, in which the last one counts. Only the last
    occurrence of a row matters.
    """

    def __init__(self) -> None:
        self._by_partition: dict[Hashable, dict[int, None]] = {}

    def add(self, sink_partition: Hashable, offset: int) -> None:
        rows = self._by_partition.setdefault(sink_partition, {})
        rows.pop(offset, None)
        rows[offset] = None

    def in_order_below(self) -> int | None:
        """Rows from this source offset on may stand before an older row; None if there are none."""
        bound: int | None = None
        for rows in self._by_partition.values():
            highest = -1
            for offset in rows:
                if offset < highest:
                    bound = offset + 1 if bound is None else min(bound, offset + 1)
                highest = max(highest, offset)
        return bound


def _parts(by_offset: dict[int, Sequence[int]]) -> Iterator[dict[int, Sequence[int]]]:
    """Cut where a stretch would have many more bits than records."""
    part: dict[int, Sequence[int]] = {}
    first, width, count = 0, 0, 0
    for offset, ordinals in by_offset.items():
        wider = max(width, ordinals[-1] + 1)
        more = count + len(ordinals)
        if part and (offset - first + 1) * wider > max(_FREE_BITS, _BITS_PER_RECORD * more):
            yield part
            part, wider, more = {}, ordinals[-1] + 1, len(ordinals)
        if not part:
            first = offset
        part[offset] = ordinals
        width, count = wider, more
    if part:
        yield part


def _stretch(part: dict[int, Sequence[int]]) -> Stretch:
    first, last = next(iter(part)), next(reversed(part))
    width = max(ordinals[-1] for ordinals in part.values()) + 1
    size = (last - first + 1) * width
    if sum(map(len, part.values())) == size:
        return Stretch(first=first, last=last, width=width, bits=b"")
    bits = bytearray(-(-size // 8))
    for offset, ordinals in part.items():
        for ordinal in ordinals:
            byte, bit = divmod((offset - first) * width + ordinal, 8)
            bits[byte] |= 1 << bit
    return Stretch(first=first, last=last, width=width, bits=bytes(bits))
