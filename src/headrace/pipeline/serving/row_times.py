"""ROWTIME of a record outside of Spark: the same that `spark/steps/read.py` gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.lake.coordinates import ROWTIME_HEADER
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.functions.time_formats import ALL_LETTERS
from headrace.pipeline.expressions.functions.time_parsing import ANYTHING, parsed
from headrace.pipeline.expressions.moments import FIRST_MS, LAST_MS
from headrace.pipeline.expressions.values import ValueProblemError, milliseconds_of


def row_time(source: Source, row: Mapping[str, Any], written: int, headers: Iterable[tuple[str, Any]]) -> int:
    """In milliseconds. `written` is the record's own timestamp; the record has a value.

    Raises ValueProblemError if the source's TIMESTAMP column has no time.
    """
    if source.timestamp is None:
        own = min(max(written, FIRST_MS), LAST_MS)
        return _time_in_header(dict(headers).get(ROWTIME_HEADER), own)
    time = _time_in(row.get(source.timestamp.name), source.timestamp.format)
    if time is None or not 0 <= time <= LAST_MS:
        raise ValueProblemError(
            f"Column {source.timestamp.name}, the TIMESTAMP of the record, has no valid time."
        )
    return time


def _time_in_header(value: bytes | None, otherwise: int) -> int:
    try:
        time = otherwise if value is None else int(value)
    except ValueError:
        return otherwise
    return time if FIRST_MS <= time <= LAST_MS else otherwise


def _time_in(value: Any, form: str | None) -> int | None:
    if isinstance(value, str) and form is not None:
        value = parsed(value, form, ALL_LETTERS, ANYTHING, None)
    if isinstance(value, datetime):
        return milliseconds_of(value)
    return value if isinstance(value, int) else None
