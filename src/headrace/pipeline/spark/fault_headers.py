"""The headers that a dead letter has in addition to those of every derived record
(`lake/dead_letter_headers.py`).

For all queries, including the lake's. Costs good rows nothing: the expression is evaluated only for bad rows.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.coordinates import ERROR_HEADER
from headrace.lake.dead_letter_headers import (
    ATTEMPTS_HEADER,
    ORIGINAL_PREFIX,
    POSITION_HEADER,
    QUERY_HEADER,
    READ_FROM_HEADER,
)

_HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


def fault_headers(
    *,
    query: Column,
    reason: Column,
    read_from: Column | None,
    original: Column | None,
    position: str | None,
) -> Column:
    """An array of headers. `original` are those of the record that could not be read, or null.

    A dead letter that is not of a single record has no `read_from`.
    """
    nothing = F.array().cast(_HEADERS_TYPE)
    had = nothing if original is None else F.coalesce(original, nothing)
    earlier = F.filter(had, lambda each: each["key"] == F.lit(ATTEMPTS_HEADER))
    failed_before = F.try_element_at(earlier, F.lit(-1))["value"].cast("string").try_cast("bigint")
    # Anybody may write this header, with any number.
    attempts = F.coalesce(F.try_add(failed_before, F.lit(1)), F.lit(1))
    ours = [
        header(ERROR_HEADER, reason),
        header(QUERY_HEADER, query),
        header(ATTEMPTS_HEADER, attempts.cast("string")),
    ]
    if read_from is not None:
        ours.append(header(READ_FROM_HEADER, read_from))
    if position is not None:
        ours.append(header(POSITION_HEADER, F.lit(position)))
    theirs = F.transform(
        had,
        lambda each: F.struct(
            F.concat(F.lit(ORIGINAL_PREFIX), each["key"]).alias("key"), each["value"].alias("value")
        ),
    )
    return F.concat(F.array(*ours), theirs)


def header(name: str, value: Column) -> Column:
    """One header with a text."""
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
