"""ROWTIME of a record outside of Spark: the same that `spark/steps/read.py` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.client.reading import Record
from headrace.lake.coordinates import ROWTIME_HEADER
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.functions.time_formats import ALL_LETTERS
from headrace.pipeline.expressions.functions.time_parsing import ANYTHING, parsed
from headrace.pipeline.expressions.values import ValueProblemError, milliseconds_of


def row_time(source: Source, row: Mapping[str, Any], record: Record) -> int:
    """In milliseconds. Raises ValueProblemError if the source's TIMESTAMP column has no time."""
    written: int = record.timestamp()[1]
    if source.timestamp is None:
        headers: Any = record.headers() or ()
        return _whole_number(dict(headers).get(ROWTIME_HEADER), written)
    if record.value() is None:
        return written
    time = _time_in(row.get(source.timestamp.name), source.timestamp.format)
    if time is None or time < 0:
        raise ValueProblemError(
            f"Column {source.timestamp.name}, the TIMESTAMP of the record, has no valid time."
        )
    return time


def _whole_number(value: bytes | None, otherwise: int) -> int:
    try:
        return otherwise if value is None else int(value)
    except ValueError:
        return otherwise


def _time_in(value: Any, form: str | None) -> int | None:
    if isinstance(value, str) and form is not None:
        value = parsed(value, form, ALL_LETTERS, ANYTHING, None)
    if isinstance(value, datetime):
        return milliseconds_of(value)
    return value if isinstance(value, int) else None
