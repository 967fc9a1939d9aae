"""The texts of folders by time, as `pipeline/spark/lake/partition_times.py` makes them in Spark.

Java and Python have the same zones for times since 1972, when the last offset with seconds ended; earlier
times are done one by one, and where Spark reads a text in a way that is not repeated here, the record is left
to the lake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.sink import TimePartitions
from headrace.lake.types import Simple, Type
from headrace.pipeline.expressions.functions.time_formats import Kind, read
from headrace.pipeline.expressions.functions.time_printing import printed
from headrace.pipeline.sink_records.time_folders import (
    FIRST,
    ISO_TEXT,
    LAST,
    LETTERS,
    NUMBER_TEXT,
    java_pattern,
    zone_of,
)
from headrace.query.tail.outcomes import RefusedError, UnsureError
from headrace.wire.column_reader import Numbers

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_MS: Final = 86_400_000
_MINUTE_MS: Final = 60_000
_SINCE_1972: Final = 63_072_000_000
_LONGS: Final = (-(2**63), 2**63 - 1)
_SMALLER_THAN_MINUTES: Final = frozenset("sSAnN")
_NUMBER: Final = re.compile(NUMBER_TEXT.replace(r"\z", r"\Z"))
_ISO: Final = re.compile(ISO_TEXT.replace(r"\z", r"\Z"))
_PARTS: Final = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:T(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d+))?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?)?)?",
    re.ASCII,
)
# Spark takes offsets up to 18 hours.
_LARGEST_OFFSET: Final = 17
_MOST_TIMES: Final = 4_096
# Columns whose values can be times, besides texts.
TIME_TYPES: Final = frozenset(
    {Simple.INT, Simple.BIGINT, Simple.DATE, Simple.TIMESTAMP, Simple.TIMESTAMP_NTZ, Simple.STRING}
)
FLOATING: Final = frozenset({Simple.FLOAT, Simple.DOUBLE})


class FolderTimes:
    """Of one table. Times are milliseconds since 1970."""

    def __init__(self, times: TimePartitions) -> None:
        """Raises lake_unsupported if the lake refuses the pattern or the zone."""
        self._zone = zone_of(times)
        self._duration = times.duration_ms
        self.names = tuple(name for name, _ in times.columns)
        self._patterns = tuple(java_pattern(pattern) for _, pattern in times.columns)
        self._unit = self._unit_of_texts()
        self._texts = lru_cache(maxsize=_MOST_TIMES)(self._written)

    def texts(self, moment: int) -> tuple[str, ...]:
        """In the order of the columns. Raises RefusedError."""
        if not FIRST <= moment <= LAST:
            raise RefusedError(f"The time for the folder is outside the years 1 to 9999: {moment}.")
        return self._texts(moment if moment < _SINCE_1972 else moment - moment % self._unit)

    def columns(self, moments: Numbers) -> dict[str, pa.Array]:
        """By the names of the columns. Raises UnusualRecordsError."""
        if len(moments) and (moments.min() < _SINCE_1972 or moments.max() > LAST):
            raise UnusualRecordsError("a time is long ago, or far ahead")
        found, places = np.unique(moments // self._unit, return_inverse=True)
        if len(found) > _MOST_TIMES:
            raise UnusualRecordsError("a batch has very many times")
        texts = [self._texts(int(each) * self._unit) for each in found]
        indices = pa.array(places.astype(np.int32))
        return {
            name: pa.DictionaryArray.from_arrays(
                indices, pa.array([each[number] for each in texts], pa.string())
            ).cast(pa.string())
            for number, name in enumerate(self.names)
        }

    def _unit_of_texts(self) -> int:
        """Times since 1972 that are equal in this unit have the same texts: offsets are whole minutes."""
        if self._duration > 0:
            return math.gcd(self._duration, _MINUTE_MS)
        letters = {
            run.letter
            for pattern in self._patterns
            for run in read(pattern) or ()
            if run.kind is Kind.LETTERS
        }
        return 1 if letters & _SMALLER_THAN_MINUTES else _MINUTE_MS

    def _written(self, moment: int) -> tuple[str, ...]:
        local = self._zone.local(_EPOCH + moment * _MILLISECOND).replace(tzinfo=UTC)
        if self._duration > 0:
            shown = (local - _EPOCH) // _MILLISECOND
            # Towards 1970.
            whole = abs(shown) // self._duration * self._duration
            local = _EPOCH + (whole if shown >= 0 else -whole) * _MILLISECOND
        texts = []
        for pattern in self._patterns:
            text = printed(pattern, LETTERS, local)
            assert text is not None, pattern
            texts.append(text)
        return tuple(texts)


def moment_of(value: Any, kind: Type, path: str) -> int:
    """The time that a value of a field says. Raises RefusedError and UnsureError."""
    match kind:
        case _ if value is None:
            raise RefusedError(f"The field {path} has no time for the folder: null.")
        case Simple.INT | Simple.BIGINT:
            return int(value)
        case Simple.DATE:
            return int(value) * _DAY_MS
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return int(value) // 1_000
        case Simple.FLOAT | Simple.DOUBLE:
            return _whole(value)
        case _:
            return _read(value, path)


def moments_of(values: pa.Array, path: str) -> Numbers:
    """The same for a column. Raises UnusualRecordsError."""
    if values.null_count:
        raise UnusualRecordsError("a record has no time for its folder")
    kind = values.type
    if pa.types.is_string(kind):
        encoded = values.dictionary_encode()
        try:
            known = [_read(each, path) for each in encoded.dictionary.to_pylist()]
        except (RefusedError, UnsureError) as error:
            raise UnusualRecordsError(str(error)) from error
        return np.take(np.asarray(known, np.int64), np.asarray(encoded.indices))
    if pa.types.is_date32(kind):
        return np.asarray(values.cast(pa.int32()), np.int64) * _DAY_MS
    if pa.types.is_timestamp(kind):
        return np.asarray(values.cast(pa.int64()), np.int64) // 1_000
    if pa.types.is_integer(kind):
        return np.asarray(pc.cast(values, pa.int64()), np.int64)
    raise UnusualRecordsError("a time is a floating number")


def _whole(value: float) -> int:
    """As Java's (long)."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return _LONGS[value > 0]
    return min(max(int(value), _LONGS[0]), _LONGS[1])


def _read(text: str, path: str) -> int:
    if _NUMBER.match(text) and _LONGS[0] <= int(text) <= _LONGS[1]:
        return int(text)
    if not _ISO.match(text):
        raise RefusedError(f"The field {path} has no time for the folder: {text[:40]}.")
    parts = _PARTS.fullmatch(text)
    if parts is None or int(parts["year"]) == 0:
        raise UnsureError(f"the field {path} has a time that only the lake reads")
    if parts["zone"] and not parts["second"]:
        # Spark takes a zone behind seconds only.
        raise RefusedError(f"The field {path} has no time for the folder: {text[:40]}.")
    part = {name: int(parts[name] or least) for name, least in _LEAST.items()}
    fraction = int((parts["fraction"] or "0").ljust(6, "0")[:6])
    try:
        local = datetime(**part, microsecond=fraction, tzinfo=UTC)
    except ValueError as error:
        raise RefusedError(f"The field {path} has no time for the folder: {text[:40]}.") from error
    return (local - _EPOCH) // _MILLISECOND - _offset_ms(parts["zone"], path)


_LEAST: Final[Mapping[str, int]] = {
    "year": 1, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0,
}  # fmt: skip


def _offset_ms(text: str | None, path: str) -> int:
    if text in (None, "Z"):
        return 0
    assert text is not None
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > _LARGEST_OFFSET or minutes >= 60:
        raise UnsureError(f"the field {path} has a time that only the lake reads")
    offset = (60 * hours + minutes) * _MINUTE_MS
    return -offset if text.startswith("-") else offset
