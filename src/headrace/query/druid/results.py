"""Druid's result formats: an answer as a stream of bytes.

    object       [{"a":1},{"a":2}]      array       [[1],[2]]
    objectLines  {"a":1}                arrayLines  [1]           one row a line, then an empty line
    csv          1                                                the same

Values are as Druid's: times are ISO 8601 with milliseconds in the request's zone, arrays and nested values
are JSON in a string (arrays only if the context wants it so), decimals are floating point, numbers that JSON
cannot express are strings. Invariants: an answer that was cut off can be told from a whole one, because a
whole one ends with its last bracket or with an empty line; at most a chunk of the answer is in memory as
text. Never HTTP.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from headrace.query.druid.kinds import DATE, Kind, druid_type
from headrace.query.druid.zones import UTC_ZONE, Zone

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"
CHUNK_BYTES: Final = 64 * 1024

MEDIA_TYPES: Final[dict[str, str]] = {
    "object": JSON, "array": JSON, "objectLines": TEXT, "arrayLines": TEXT, "csv": CSV,
}  # fmt: skip

_CSV_SPECIAL: Final = frozenset(',"\r\n')
_encoder: Final = msgspec.json.Encoder()

Row = Sequence[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How a request wants its answer. The headers with types need `header`."""

    format: str = "object"
    header: bool = False
    types_header: bool = False
    sql_types_header: bool = False
    stringify_arrays: bool = True
    zone: Zone = UTC_ZONE


def written(
    columns: Sequence[str], types: Sequence[str], rows: Iterable[Row], wanted: Wanted
) -> Iterator[bytes]:
    """The answer in chunks. `types` are DuckDB's."""
    encoder = AnswerEncoder(columns, types, wanted)
    chunk = bytearray(encoder.begin())
    for row in rows:
        chunk += encoder.rows([row])
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk) + encoder.end()


class AnswerEncoder:
    """One answer: its beginning, then its rows in any number of parts, then its end."""

    def __init__(self, columns: Sequence[str], types: Sequence[str], wanted: Wanted) -> None:
        self._names = distinct_names(columns)
        self._types = types
        self._wanted = wanted
        self._writers = [_writer(kind, wanted) for kind in types]
        self._encode = _encoding(wanted.format, self._names)
        self._is_csv = wanted.format == "csv"
        self._has_lines = wanted.format in ("objectLines", "arrayLines")
        self._has_begun = False

    def begin(self) -> bytes:
        headers = list(_headers(self._names, self._types, self._wanted)) if self._wanted.header else []
        if self._is_csv:
            return b"".join(_csv_line(header) for header in headers)
        return (b"" if self._has_lines else b"[") + self._joined(_encoder.encode(each) for each in headers)

    def rows(self, rows: Iterable[Row]) -> bytes:
        encoded = (
            self._encode([write(value) for write, value in zip(self._writers, row, strict=True)])
            for row in rows
        )
        return b"".join(encoded) if self._is_csv else self._joined(encoded)

    def end(self) -> bytes:
        if self._is_csv:
            return b"\n"
        return b"\n\n" if self._has_lines else b"]\n"

    def _joined(self, pieces: Iterable[bytes]) -> bytes:
        """With separators between them, and one in front unless they are the first."""
        separator = b"\n" if self._has_lines else b","
        joined = separator.join(pieces)
        if not joined:
            return b""
        is_first, self._has_begun = not self._has_begun, True
        return joined if is_first else separator + joined


def distinct_names(columns: Sequence[str]) -> list[str]:
    """A name that is there already gets a number, as in Calcite: a, a0, a1."""
    names: list[str] = []
    taken: set[str] = set()
    for column in columns:
        name, number = column, -1
        while name in taken:
            number += 1
            name = f"{column}{number}"
        taken.add(name)
        names.append(name)
    return names


def _headers(names: list[str], types: Sequence[str], wanted: Wanted) -> Iterator[Any]:
    """One object, or up to three lists."""
    found = [druid_type(kind) for kind in types]
    if wanted.format in ("object", "objectLines"):
        header: dict[str, Any] = {}
        for name, kind in zip(names, found, strict=True):
            about: dict[str, str] = {}
            if wanted.types_header:
                about["type"] = kind.runtime
            if wanted.sql_types_header:
                about["sqlType"] = _sql_name(kind.sql)
            header[name] = about or None
        yield header
        return
    yield names
    if wanted.types_header:
        yield [kind.runtime for kind in found]
    if wanted.sql_types_header:
        yield [_sql_name(kind.sql) for kind in found]


def _sql_name(name: str) -> str:
    return "OTHER" if name.startswith("COMPLEX") else name


def _encoding(name: str, names: list[str]) -> Callable[[list[object]], bytes]:
    if name == "csv":
        return _csv_line
    if name in ("array", "arrayLines"):
        return _encoder.encode
    return lambda values: _encoder.encode(dict(zip(names, values, strict=True)))


def _csv_line(values: list[object]) -> bytes:
    texts = ["" if value is None else _csv_text(value) for value in values]
    if texts == [""]:
        # An empty line would be the end.
        return b'""\n'
    return (",".join(map(_csv_field, texts)) + "\n").encode("utf-8", "replace")


def _csv_field(text: str) -> str:
    if _CSV_SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _csv_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return _encoder.encode(value).decode()


def _writer(kind: str, wanted: Wanted) -> Callable[[Any], object]:
    """What makes a column's values those of the answer."""
    found = druid_type(kind)
    if found.kind in (Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE):
        zone = wanted.zone.tzinfo
        day = found is DATE
        return lambda value: value if value is None else _time(value, zone, local=day)
    if found.kind is Kind.ARRAY and not wanted.stringify_arrays:
        return lambda value: _plain(value, wanted.zone.tzinfo)
    if found.kind in (Kind.ARRAY, Kind.COMPLEX):
        return lambda value: None if value is None else _stringified(value, wanted.zone.tzinfo)
    if found.kind is Kind.DOUBLE:
        return _double
    return lambda value: _plain(value, wanted.zone.tzinfo)


def _double(value: Any) -> object:
    return None if value is None else _plain(float(value), UTC)


def _stringified(value: object, zone: tzinfo) -> str:
    if isinstance(value, str):
        return value
    return _encoder.encode(_plain(value, zone)).decode()


def _plain(value: object, zone: tzinfo) -> object:  # noqa: PLR0911
    """A value as JSON has it."""
    match value:
        case None | bool() | int():
            return value
        case str():
            # Half of a surrogate pair cannot be encoded.
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return float(value)
        case datetime() | date():
            return _time(value, zone, local=False)
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(_plain(key, zone)): _plain(item, zone) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, zone) for item in value]
        case time() | UUID():
            return str(value)
        case timedelta():
            return f"PT{value.total_seconds():g}S"
        case _:
            return str(value)


def _time(value: object, zone: tzinfo, *, local: bool) -> str:
    """ISO 8601 with milliseconds. `local`: the value is the beginning of a day in the zone."""
    if isinstance(value, str):
        # What Python has no value for: a time before the year 1 or after 9999, or infinity.
        return value
    if not isinstance(value, datetime):
        assert isinstance(value, date)
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=zone if local else UTC)
    try:
        text = value.astimezone(zone).isoformat(timespec="milliseconds")
    except OverflowError:
        text = value.isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text
