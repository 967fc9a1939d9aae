"""Values of answers in PostgreSQL's text and binary formats.

`encoder` gives the function for one column; it takes a value that is not None. Types without a binary
format of their own here go as text in both, which is what their binary format is: text, json.

Invariants: text is as PostgreSQL writes it with DateStyle ISO, IntervalStyle postgres and bytea_output hex;
times with a zone are in UTC. A value that does not have the type of its column is an error, never another
value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any, Final
from uuid import UUID

import numpy as np

from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.types import Type

Encoder = Callable[[Any], bytes]

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")
_FLOAT32: Final = Struct(">f")
_FLOAT64: Final = Struct(">d")
_INTERVAL: Final = Struct(">qii")
_NUMERIC_HEADER: Final = Struct(">hhHh")
_NEGATIVE, _NOT_A_NUMBER = 0x4000, 0xC000

_EPOCH: Final = datetime(2000, 1, 1)
_EPOCH_UTC: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(2000, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_WHOLE_FLOAT: Final = 1e15
_SPECIAL_FLOATS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_BRACKETS: Final = re.compile(r"(\[\d*\])+$")
# What PostgreSQL puts into quotes in the text of an array.
_QUOTED_IN_ARRAYS: Final = frozenset('{}",\\ \t\n\r\v\f')


def encoder(duckdb_type: str, *, binary: bool) -> Encoder:
    """How the values of a column of this DuckDB type are written."""
    kind = types.type_of(duckdb_type)
    if kind.element:
        # A list of lists is one array, so the element is what is left without any brackets at the end.
        inner = _BRACKETS.sub("", duckdb_type)
        element = _scalar(types.BY_OID[kind.element], inner, binary=binary)
        return _binary_array(kind.element, element) if binary else _text_array(element)
    return _scalar(kind, duckdb_type, binary=binary)


def _scalar(kind: Type, duckdb_type: str, *, binary: bool) -> Encoder:
    if kind is types.NUMERIC_TYPE and not binary and duckdb_type.replace(" ", "") == types.NUMERIC:
        return _short_numeric
    return (_BINARY if binary else _TEXT).get(kind.oid, _as_text)


def _as_text(value: Any) -> bytes:
    # Zero bytes cannot be in PostgreSQL's texts, and its clients cannot take them.
    text = value if isinstance(value, str) else str(value)
    return text.replace("\0", "�").encode("utf-8", errors="replace")


def _bool_text(value: Any) -> bytes:
    return b"t" if value else b"f"


def _bytea_text(value: Any) -> bytes:
    return b"\\x" + bytes(value).hex().encode()


def _float_text(value: Any) -> bytes:
    if not math.isfinite(value):
        return _SPECIAL_FLOATS[str(float(value))].encode()
    if value == int(value) and abs(value) < _WHOLE_FLOAT:
        return b"-0" if str(value).startswith("-0") else b"%d" % int(value)
    return str(value).encode()


def _float4_text(value: Any) -> bytes:
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not np.isfinite(single) or (single == int(single) and abs(single) < 1e6):
        return _float_text(float(single))
    return str(single).encode()


def _numeric_text(value: Any) -> bytes:
    if isinstance(value, Decimal):
        return b"NaN" if value.is_nan() else format(value, "f").encode()
    return str(int(value)).encode()


def _short_numeric(value: Any) -> bytes:
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


def _timestamp_text(value: Any) -> bytes:
    return _clock_text(value.replace(tzinfo=None).isoformat(sep=" ")).encode()


def _timestamptz_text(value: Any) -> bytes:
    return _clock_text(_in_utc(value).replace(tzinfo=None).isoformat(sep=" ")).encode() + b"+00"


def _time_text(value: Any) -> bytes:
    return _clock_text(value.isoformat()).encode() if isinstance(value, time) else _as_text(value)


def _clock_text(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _interval_text(value: Any) -> bytes:
    """As `1 day 02:03:04.5`; each part has its own sign."""
    micros = value // _MICROSECOND
    days, rest = divmod(abs(micros), 86_400_000_000)
    sign = "-" if micros < 0 else ""
    parts = [f"{sign}{days} day{'' if days == 1 and not sign else 's'}"] if days else []
    if rest or not days:
        seconds, fraction = divmod(rest, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(sign + _clock_text(f"{clock}.{fraction:06}" if fraction else clock))
    return " ".join(parts).encode()


def _json_text(value: Any) -> bytes:
    # A column of type JSON comes as its text, a struct or a map as a value.
    if isinstance(value, str):
        return _as_text(value)
    return json.dumps(value, default=_plain, ensure_ascii=False).encode("utf-8", errors="replace")


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _numeric_binary(value: Any) -> bytes:
    """Digits to the base 10,000, the weight of the first, the sign, and how many decimal digits to show."""
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if number.is_nan():
        return _NUMERIC_HEADER.pack(0, 0, _NOT_A_NUMBER, 0)
    sign, decimals, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = ("".join(map(str, decimals)) + "0" * max(0, exponent)).rjust(scale, "0")
    before, after = whole[: len(whole) - scale], whole[len(whole) - scale :]
    before = before.rjust((len(before) + 3) // 4 * 4, "0")
    after = after.ljust((len(after) + 3) // 4 * 4, "0")
    text = before + after
    digits = [int(text[start : start + 4]) for start in range(0, len(text), 4)]
    weight = len(before) // 4 - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    header = _NUMERIC_HEADER.pack(
        len(digits), weight if digits else 0, _NEGATIVE if sign and digits else 0, scale
    )
    return header + b"".join(map(_INT16.pack, digits))


def _timestamp_binary(value: Any) -> bytes:
    return _INT64.pack((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)


def _timestamptz_binary(value: Any) -> bytes:
    return _INT64.pack((_in_utc(value) - _EPOCH_UTC) // _MICROSECOND)


def _time_binary(value: Any) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _INT64.pack(seconds * 1_000_000 + value.microsecond)


def _interval_binary(value: Any) -> bytes:
    micros = value // _MICROSECOND
    days = abs(micros) // 86_400_000_000 * (-1 if micros < 0 else 1)
    return _INTERVAL.pack(micros - days * 86_400_000_000, days, 0)


def _uuid_binary(value: Any) -> bytes:
    return value.bytes if isinstance(value, UUID) else UUID(str(value)).bytes


def _text_array(element: Encoder) -> Encoder:
    def written(value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, list | tuple):
            return "{" + ",".join(map(written, value)) + "}"
        text = element(value).decode()
        if text == "" or text.upper() == "NULL" or not _QUOTED_IN_ARRAYS.isdisjoint(text):
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return text

    return lambda value: written(value).encode()


def _binary_array(oid: int, element: Encoder) -> Encoder:
    def encoded(value: Any) -> bytes:
        items, sizes = list(value), [len(value)]
        while items and isinstance(items[0], list | tuple):
            inner = len(items[0])
            if any(not isinstance(each, list | tuple) or len(each) != inner for each in items):
                raise ValueError("lists of different lengths are no array; cast the column to text")
            sizes.append(inner)
            items = [item for each in items for item in each]
        if not items:
            sizes = []
        has_nulls = any(item is None for item in items)
        parts = [_INT32.pack(len(sizes)), _INT32.pack(has_nulls), _UINT32.pack(oid)]
        parts += (_INT32.pack(size) + _INT32.pack(1) for size in sizes)
        for item in items:
            data = None if item is None else element(item)
            parts.append(_INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data)
        return b"".join(parts)

    return encoded


_TEXT: Final[dict[int, Encoder]] = {
    types.BOOL.oid: _bool_text,
    types.BYTEA.oid: _bytea_text,
    types.JSON.oid: _json_text,
    types.FLOAT4.oid: _float4_text,
    types.FLOAT8.oid: _float_text,
    types.TIME.oid: _time_text,
    types.TIMESTAMP.oid: _timestamp_text,
    types.TIMESTAMPTZ.oid: _timestamptz_text,
    types.INTERVAL.oid: _interval_text,
    types.NUMERIC_TYPE.oid: _numeric_text,
}
_BINARY: Final[dict[int, Encoder]] = {
    types.BOOL.oid: lambda value: b"\1" if value else b"\0",
    types.BYTEA.oid: bytes,
    types.INT2.oid: _INT16.pack,
    types.INT4.oid: _INT32.pack,
    types.INT8.oid: _INT64.pack,
    types.OID.oid: _UINT32.pack,
    types.JSON.oid: _json_text,
    types.FLOAT4.oid: _FLOAT32.pack,
    types.FLOAT8.oid: _FLOAT64.pack,
    types.DATE.oid: lambda value: _INT32.pack(value.toordinal() - _EPOCH_DAY),
    types.TIME.oid: _time_binary,
    types.TIMESTAMP.oid: _timestamp_binary,
    types.TIMESTAMPTZ.oid: _timestamptz_binary,
    types.INTERVAL.oid: _interval_binary,
    types.NUMERIC_TYPE.oid: _numeric_binary,
    types.UUID.oid: _uuid_binary,
}
