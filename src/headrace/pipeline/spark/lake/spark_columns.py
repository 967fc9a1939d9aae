"""Columns of records as expressions of Spark (`pipeline/sink_records/columns.py`), and what several modules
here do with them.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.types import Type, ddl

_SHOWN_CHARACTERS = 40


def nothing(kind: Type) -> Column:
    """Null of a type."""
    return F.lit(None).cast(ddl(kind))


def midnight(day: Column) -> Column:
    """A DATE as a TIMESTAMP. Null outside the years 1 to 9999: Spark fails on the most distant days."""
    first, last = date.min.isoformat(), date.max.isoformat()
    return F.when(day.between(F.lit(first).cast("date"), F.lit(last).cast("date")), day).cast("timestamp")


def shown(value: Column) -> Column:
    """The beginning of a value, for a reason."""
    return F.coalesce(F.substring(value.cast("string"), 1, _SHOWN_CHARACTERS), F.lit("null"))
