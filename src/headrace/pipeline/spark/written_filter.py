"""Drops the rows that earlier runs of a query have already written, before they reach the sink; or keeps only
those of given records, for a repair.

Works in real-time mode, too: only comparisons and literals. The size of the expression does not depend on how
much was written: a few stretches are compared one after the other, more of them are in arrays that are
searched by halves. Spark goes through an expression with thousands of terms again and again for each batch,
and cannot compile it. A record behind everything that was written costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.runs.identities import Stretch, Written
from headrace.pipeline.spark.steps.rows import OFFSET, ORDINAL, PARTITION, Rows, column

# So many stretches are compared one by one, which Spark can compile.
_FEW: Final = 8

# A source partition, and a stretch of it.
_Place = tuple[int, Stretch]


def without_written(rows: Rows, written: Mapping[int, Written]) -> Rows:
    """`written` is by source partition. The rows must have source coordinates."""
    known = _is_in_any(written)
    return rows if known is None else replace(rows, frame=rows.frame.filter(~known))


def only_of(rows: Rows, wanted: Mapping[int, Written]) -> Rows:
    """Only the rows of these records. `wanted` is by source partition."""
    is_wanted = _is_in_any(wanted)
    return replace(rows, frame=rows.frame.filter(F.lit(False) if is_wanted is None else is_wanted))


def only_records(records: DataFrame, wanted: Mapping[int, Written]) -> DataFrame:
    """The same for records with the columns of Spark's Kafka source."""
    placed = records.withColumns(
        {PARTITION: records["partition"], OFFSET: records["offset"], ORDINAL: F.lit(0)}
    )
    is_wanted = _is_in_any(wanted)
    kept = placed.filter(F.lit(False) if is_wanted is None else is_wanted)
    return kept.drop(PARTITION, OFFSET, ORDINAL)


def _is_in_any(written: Mapping[int, Written]) -> Column | None:
    """None if nothing was written."""
    places = [
        (partition, stretch) for partition, each in sorted(written.items()) for stretch in each.stretches
    ]
    if not places:
        return None
    if len(places) <= _FEW:
        return reduce(or_, (_is_in(*place) for place in places))
    ends = [written[number].end if number in written else 0 for number in range(max(written) + 1)]
    is_before_the_end = column(OFFSET) < F.get(_numbers(ends), column(PARTITION))
    return F.coalesce(is_before_the_end, F.lit(False)) & _is_found(places)


def _is_in(partition: int, stretch: Stretch) -> Column:
    first, width = F.lit(stretch.first), F.lit(stretch.width)
    within = [
        column(PARTITION) == F.lit(partition),
        column(OFFSET) <= F.lit(stretch.last),
        column(OFFSET) >= first,
        column(ORDINAL) < width,
    ]
    if stretch.bits:
        within.append(_is_set(F.lit(stretch.bits), F.lit(1), first, width))
    return reduce(and_, within)


def _is_found(places: Sequence[_Place]) -> Column:
    """Finds the last stretch that does not begin behind the row, and looks into it."""
    partitions = _numbers(partition for partition, _ in places)
    firsts = _numbers(stretch.first for _, stretch in places)
    lasts = _numbers(stretch.last for _, stretch in places)
    widths = _numbers(stretch.width for _, stretch in places)
    # SQL counts bytes from 1.
    begins = _numbers(accumulate((len(stretch.bits) for _, stretch in places[:-1]), initial=1))
    sizes = _numbers(len(stretch.bits) for _, stretch in places)
    bits = F.lit(b"".join(stretch.bits for _, stretch in places))
    halves = [1 << power for power in reversed(range(len(places).bit_length()))]

    def nearer(at: Column, step: Column) -> Column:
        partition = F.get(partitions, at + step)
        is_passed = (partition < column(PARTITION)) | (
            (partition == column(PARTITION)) & (F.get(firsts, at + step) <= column(OFFSET))
        )
        # Behind the last one there is null, which is not true either.
        return F.when(is_passed, at + step).otherwise(at)

    def holds(at: Column) -> Column:
        width = F.get(widths, at)
        within = (
            (F.get(partitions, at) == column(PARTITION))
            & (column(OFFSET) <= F.get(lasts, at))
            & (column(ORDINAL) < width)
        )
        is_set = (F.get(sizes, at) == F.lit(0)) | _is_set(bits, F.get(begins, at), F.get(firsts, at), width)
        return F.coalesce(F.when(within, is_set), F.lit(False))

    steps = _numbers(halves).cast("array<int>")
    return F.aggregate(steps, F.lit(-1), nearer, holds)


def _is_set(bits: Column, begin: Column, first: Column, width: Column) -> Column:
    """Whether a stretch has the bit of the row; its bits begin at this byte."""
    # Spark may compute it for rows that are far away from the stretch, too.
    bit = F.try_add(F.try_multiply(column(OFFSET) - first, width), column(ORDINAL))
    byte = F.substring(bits, (begin + F.shiftright(bit, 3)).cast("int"), F.lit(1))
    number = F.conv(F.hex(byte), 16, 10).cast("int")
    return F.coalesce(F.getbit(number, (bit % F.lit(8)).cast("int")) == F.lit(1), F.lit(False))


def _numbers(numbers: Iterable[int]) -> Column:
    # One text that Spark turns into an array once: a literal for each number would be a call to the JVM each.
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
