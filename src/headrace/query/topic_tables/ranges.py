"""Which stretches of a topic a condition can hold for.

A condition comes from DuckDB as an expression of Arrow, after all its own rewriting: through views, joins and
common table expressions, with parameters and `now()` as constants. Arrow can tell whether an expression can
hold at all where something is given, such as `_partition = 2 AND _offset < 5000`; that is how it leaves out
fragments of a data set. Asking it by halves gives the first and the last offset, without reading the
expression ourselves. Whatever Arrow cannot tell counts as possible, so a range may be too large, never too
small. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from headrace.query.topic_tables.columns import OFFSET, PARTITION, TIMESTAMP

# The years 1 to 9999, in milliseconds.
FIRST_MS: Final = -62_135_596_800_000
LAST_MS: Final = 253_402_300_799_999

Stretches = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The stretches of partitions, without those that are empty. Records that count are not older than
    `from_ms`, and older than `to_ms`; None if the condition does not say so.
    """

    stretches: Stretches
    from_ms: int | None = None
    to_ms: int | None = None


def ranges_of(condition: pc.Expression | None, stretches: Stretches, schema: pa.Schema) -> Ranges:
    """Where the condition can hold, of these stretches."""
    present = {number: ends for number, ends in stretches.items() if ends[0] < ends[1]}
    if condition is None:
        return Ranges(stretches=present)
    text = str(condition)
    if PARTITION in text or OFFSET in text:
        possible = _Possible(condition, schema)
        found: dict[int, tuple[int, int]] = {}
        for number, ends in present.items():
            at = pc.field(PARTITION) == pa.scalar(number, pa.int32())
            narrowed = _offsets(possible, at, ends) if OFFSET in text else ends
            if narrowed[0] < narrowed[1] and possible(at):
                found[number] = narrowed
        present = found
    if TIMESTAMP not in text:
        return Ranges(stretches=present)
    from_ms, to_ms = _times(_Possible(condition, schema))
    return Ranges(
        stretches=present if from_ms < to_ms else {},
        from_ms=from_ms if from_ms > FIRST_MS else None,
        to_ms=to_ms if to_ms <= LAST_MS else None,
    )


class _Possible:
    """Whether a condition can hold where something is given."""

    def __init__(self, condition: pc.Expression, schema: pa.Schema) -> None:
        self._condition = condition
        self._schema = schema
        self._format = ds.IpcFileFormat()
        self._files = pyarrow.fs.LocalFileSystem()

    def __call__(self, given: pc.Expression) -> bool:
        # A data set of one file, which is never opened.
        fragments = ds.FileSystemDataset.from_paths(
            ["unread"],
            schema=self._schema,
            format=self._format,
            filesystem=self._files,
            partitions=[given],
        ).get_fragments(filter=self._condition)
        return any(True for _ in fragments)


def _offsets(possible: _Possible, at: pc.Expression, ends: tuple[int, int]) -> tuple[int, int]:
    """The smallest stretch that has all offsets for which the condition can hold."""

    # Arrow does not know that there is nothing between two whole numbers: so `<=`, and not `<`.
    def up_to(offset: int) -> bool:
        return possible(at & (pc.field(OFFSET) <= offset))

    def from_(offset: int) -> bool:
        return possible(at & (pc.field(OFFSET) >= offset))

    start, end = ends
    low = _first(up_to, start, end)
    high = _first(lambda offset: not from_(offset), low, end)
    return low, high


def _times(possible: _Possible) -> tuple[int, int]:
    """From the first millisecond for which the condition can hold to the one behind the last."""

    def up_to(ms: int) -> bool:
        return possible(pc.field(TIMESTAMP) <= _instant(ms))

    def from_(ms: int) -> bool:
        return possible(pc.field(TIMESTAMP) >= _instant(ms))

    low = _first(up_to, FIRST_MS, LAST_MS + 1)
    high = _first(lambda ms: not from_(ms), low, LAST_MS + 1)
    return low, high


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from `low` on for which it holds, if it holds for all behind it; else `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _instant(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1_000, pa.timestamp("us", "UTC"))
