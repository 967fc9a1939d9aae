"""Drops the rows that earlier runs of a query have already written, before they reach the sink; or keeps only
those of given records, for a repair.

Works in real-time mode, too: only comparisons and literals. A record behind everything that was written costs
one comparison for each source partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.runs.identities import Stretch, Written
from headrace.pipeline.spark.steps.rows import OFFSET, ORDINAL, PARTITION, Rows, column

_WORD: Final = 64


def without_written(rows: Rows, written: Mapping[int, Written]) -> Rows:
    """`written` is by source partition. The rows must have source coordinates."""
    known = _is_in_any(written)
    return rows if known is None else replace(rows, frame=rows.frame.filter(~known))


def only_of(rows: Rows, wanted: Mapping[int, Written]) -> Rows:
    """Only the rows of these records. `wanted` is by source partition."""
    is_wanted = _is_in_any(wanted)
    return replace(rows, frame=rows.frame.filter(F.lit(False) if is_wanted is None else is_wanted))


def _is_in_any(places: Mapping[int, Written]) -> Column | None:
    """None if there are no places."""
    found = [
        (column(PARTITION) == F.lit(partition)) & _is_in(stretch)
        for partition, each in sorted(places.items())
        for stretch in each.stretches
    ]
    return reduce(or_, found) if found else None


def _is_in(stretch: Stretch) -> Column:
    offset, ordinal = column(OFFSET), column(ORDINAL)
    within = (offset <= F.lit(stretch.last)) & (offset >= F.lit(stretch.first))
    within = within & (ordinal < F.lit(stretch.width))
    if not stretch.words:
        return within
    bit = (offset - F.lit(stretch.first)) * F.lit(stretch.width) + ordinal
    # One text that Spark turns into an array once: a literal for each word would be a call to the JVM each.
    words = F.split(F.lit(",".join(map(str, stretch.words))), ",").cast("array<bigint>")
    # `get` gives null outside the array, should Spark ever evaluate it before the comparisons.
    word = F.get(words, F.expr(f"int(({_sql(stretch)}) div {_WORD})"))
    is_set = F.getbit(word, (bit % F.lit(_WORD)).cast("int")) == F.lit(1)
    return within & F.coalesce(is_set, F.lit(False))


def _sql(stretch: Stretch) -> str:
    return f"(`{OFFSET}` - {stretch.first}) * {stretch.width} + `{ORDINAL}`"
