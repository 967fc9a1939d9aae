"""Values of parameters: from PostgreSQL's text or binary format to the SQL literal that DuckDB gets.

A parameter becomes a literal in the statement: so a value without a type is, as in PostgreSQL, a literal
whose type the place decides. Texts are quoted here and nowhere else.

Invariants: the literal of a typed value has a cast to the type's DuckDB type; bytes that are not a value of
the type are a PostgresError (22P02 for text, 22P03 for binary), never another value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from struct import Struct, error
from typing import Any, Final
from uuid import UUID

from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.errors import (
    FEATURE_NOT_SUPPORTED,
    INVALID_BINARY,
    INVALID_TEXT,
    PostgresError,
)
from headrace.query.postgres.protocol.types import Type

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")
_FLOAT32: Final = Struct(">f")
_FLOAT64: Final = Struct(">d")
_INTERVAL: Final = Struct(">qii")
_NUMERIC_HEADER: Final = Struct(">hhHh")
_EPOCH: Final = datetime(2000, 1, 1)
_EPOCH_DAY: Final = date(2000, 1, 1).toordinal()
_TRUE: Final = frozenset({"t", "true", "y", "yes", "on", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "off", "0"})
# A date ignores a time and a time zone in its value, a time the zone: Java's older classes write them. DuckDB
# does so for timestamps alone.
_ZONE: Final = r"\s*(?:[+-]\d{1,2}(?::?\d\d){0,2}|[zZ])"
_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:\.\d*)?)?"
_DATE: Final = re.compile(rf"\s*(?P<date>\d{{4,}}-\d{{1,2}}-\d{{1,2}})(?:[ T]+{_CLOCK})?(?:{_ZONE})?\s*")
_TIME: Final = re.compile(rf"\s*(?P<time>{_CLOCK}){_ZONE}\s*")
# What PostgreSQL takes for blanks in an array; other spaces belong to the values.
_BLANKS: Final = " \t\n\r\v\f"
_MOST_DIMENSIONS: Final = 6


def literal(value: bytes | None, oid: int, *, binary: bool) -> str:
    """The value as SQL. `oid` is the parameter's type; 0 leaves it to the place."""
    kind = types.BY_OID.get(oid)
    if kind is None and oid not in types.UNKNOWN_OIDS:
        raise PostgresError(
            FEATURE_NOT_SUPPORTED,
            f"parameters of the type with oid {oid} are not supported",
            hint="Send the value as text and cast it in the statement.",
        )
    if value is None:
        return "NULL" if kind is None else f"CAST(NULL AS {kind.duckdb})"
    if kind is None:
        return quoted(_decoded(value))
    if kind.element:
        element = types.BY_OID[kind.element]
        items = _binary_items(value, element) if binary else _text_items(_decoded(value), element)
        return f"CAST({items} AS {kind.duckdb})"
    return _binary_literal(value, kind) if binary else text_literal(_decoded(value), kind)


def text_literal(text: str, kind: Type) -> str:
    """The SQL of a value in PostgreSQL's text format."""
    if kind.element:
        return f"CAST({_text_items(text, types.BY_OID[kind.element])} AS {kind.duckdb})"
    try:
        return _cast(_TEXT.get(kind.oid, _same)(text), kind)
    except (ValueError, InvalidOperation) as problem:
        raise PostgresError(
            INVALID_TEXT, f'invalid input syntax for type {kind.display}: "{text[:100]}"'
        ) from problem


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _cast(text: str, kind: Type) -> str:
    if kind.oid == types.BYTEA.oid:
        return f"from_hex({quoted(text)})"
    return f"CAST({quoted(text)} AS {kind.duckdb})"


def _decoded(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise PostgresError("22021", 'invalid byte sequence for encoding "UTF8"') from problem
    if "\0" in text:
        raise PostgresError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


def _same(text: str) -> str:
    return text


def _bool(text: str) -> str:
    folded = text.strip().lower()
    if folded in _TRUE:
        return "true"
    if folded in _FALSE:
        return "false"
    raise ValueError(text)


def _bytea(text: str) -> str:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:]).hex()
    return b"".join(_escaped_bytes(text)).hex()


def _escaped_bytes(text: str) -> Iterator[bytes]:
    """The older form: octal numbers and doubled backslashes."""
    at = 0
    while at < len(text):
        if text[at] != "\\":
            yield text[at].encode()
            at += 1
        elif text[at + 1 : at + 2] == "\\":
            yield b"\\"
            at += 2
        else:
            yield bytes([int(text[at + 1 : at + 4], 8)])
            at += 4


def _integer(text: str) -> str:
    return str(int(text))


def _float(text: str) -> str:
    return repr(float(text))


def _numeric(text: str) -> str:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError("decimals here are finite numbers")
    return format(number, "f")


def _date(text: str) -> str:
    match = _DATE.fullmatch(text)
    return match["date"] if match is not None else text


def _time(text: str) -> str:
    match = _TIME.fullmatch(text)
    return match["time"] if match is not None else text


def _json(text: str) -> str:
    json.loads(text)
    return text


def _uuid(text: str) -> str:
    return str(UUID(text))


def _binary_literal(value: bytes, kind: Type) -> str:
    decode = _BINARY.get(kind.oid)
    try:
        return _cast(_decoded(value) if decode is None else decode(value), kind)
    except (ValueError, OverflowError, error) as problem:
        raise PostgresError(
            INVALID_BINARY, f"incorrect binary data format for a parameter of type {kind.display}"
        ) from problem


def _unpacked(packing: Struct) -> Callable[[bytes], str]:
    return lambda value: repr(packing.unpack(value)[0])


def _binary_bool(value: bytes) -> str:
    if len(value) != 1:
        raise ValueError(value)
    return "true" if value != b"\0" else "false"


def _binary_numeric(value: bytes) -> str:
    count, weight, sign, scale = _NUMERIC_HEADER.unpack_from(value)
    if sign not in (0, 0x4000) or len(value) != _NUMERIC_HEADER.size + 2 * count:
        raise ValueError("decimals here are finite numbers")
    digits = [_INT16.unpack_from(value, _NUMERIC_HEADER.size + 2 * number)[0] for number in range(count)]
    if any(not 0 <= digit < 10_000 for digit in digits) or not 0 <= scale <= 16_383:
        raise ValueError("not a digit to the base 10,000")
    whole = "".join(f"{digit:04}" for digit in digits)
    # Made from its parts: arithmetic would round to the precision of the context.
    exponent = 4 * (weight - count + 1)
    return format(Decimal((int(sign != 0), tuple(map(int, whole)) or (0,), exponent)), "f")


def _binary_timestamp(value: bytes) -> str:
    return str(_EPOCH + timedelta(microseconds=_INT64.unpack(value)[0]))


def _binary_timestamptz(value: bytes) -> str:
    return str((_EPOCH + timedelta(microseconds=_INT64.unpack(value)[0])).replace(tzinfo=UTC))


def _binary_date(value: bytes) -> str:
    return str(date.fromordinal(_EPOCH_DAY + _INT32.unpack(value)[0]))


def _binary_time(value: bytes) -> str:
    (micros,) = _INT64.unpack(value)
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(micros)
    return (datetime.min + timedelta(microseconds=micros)).time().isoformat()


def _binary_interval(value: bytes) -> str:
    micros, days, months = _INTERVAL.unpack(value)
    return f"{months} months {days} days {micros} microseconds"


def _binary_jsonb(value: bytes) -> str:
    if value[:1] != b"\1":
        raise ValueError("an unknown version of jsonb")
    return _json(_decoded(value[1:]))


def _binary_items(value: bytes, element: Type) -> str:
    """The array as a DuckDB list literal."""
    try:
        dimensions, _, oid = Struct(">iiI").unpack_from(value)
        if not 0 <= dimensions <= _MOST_DIMENSIONS:
            raise ValueError(dimensions)
        at = 12
        sizes = []
        for _ in range(dimensions):
            sizes.append(_INT32.unpack_from(value, at)[0])
            at += 8
        found: list[str] = []
        count = math.prod(sizes) if sizes else 0
        # Each item has at least its length, so the bytes bound how many there can be.
        if any(size < 0 for size in sizes) or count * 4 > len(value) - at:
            raise ValueError(sizes)
        for _ in range(count):
            (length,) = _INT32.unpack_from(value, at)
            at += 4
            item = None if length == -1 else value[at : at + length]
            if item is not None and len(item) != length:
                raise ValueError(length)
            at += max(0, length)
            found.append(literal(item, oid, binary=True))
    except (ValueError, error) as problem:
        raise PostgresError(
            INVALID_BINARY, f"incorrect binary data format for an array of {element.display}"
        ) from problem
    for size in reversed(sizes[1:]):
        found = [f"[{', '.join(found[at : at + size])}]" for at in range(0, len(found), size)]
    return f"[{', '.join(found)}]"


def _text_items(text: str, element: Type) -> str:
    """The text of an array, such as `{1,NULL,"a b"}`, as a DuckDB list literal."""
    try:
        trimmed = text.strip(_BLANKS)
        items, end = _parsed_array(trimmed, 0, element, 0)
        if end != len(trimmed):
            raise ValueError(text)
    except (ValueError, IndexError) as problem:
        raise PostgresError(INVALID_TEXT, f'malformed array literal: "{text[:100]}"') from problem
    return items


def _parsed_array(text: str, at: int, element: Type, depth: int) -> tuple[str, int]:
    if text[at] != "{" or depth >= _MOST_DIMENSIONS:
        raise ValueError(text)
    at += 1
    items: list[str] = []
    if text[at] == "}":
        return "[]", at + 1
    while True:
        while text[at] in _BLANKS:
            at += 1
        if text[at] == "{":
            item, at = _parsed_array(text, at, element, depth + 1)
        else:
            raw, at, in_quotes = _parsed_item(text, at)
            is_null = not in_quotes and raw.upper() == "NULL"
            item = "NULL" if is_null else text_literal(raw, element)
        items.append(item)
        if text[at] == "}":
            return f"[{', '.join(items)}]", at + 1
        if text[at] != ",":
            raise ValueError(text)
        at += 1


def _parsed_item(text: str, at: int) -> tuple[str, int, bool]:
    letters: list[str] = []
    in_quotes = text[at] == '"'
    if in_quotes:
        at += 1
        while text[at] != '"':
            at += text[at] == "\\"
            letters.append(text[at])
            at += 1
        at += 1
        while text[at] in _BLANKS:
            at += 1
        return "".join(letters), at, True
    while text[at] not in ",}":
        if text[at] in '{"':
            raise ValueError(text)
        at += text[at] == "\\"
        letters.append(text[at])
        at += 1
    raw = "".join(letters).strip(_BLANKS)
    if not raw:
        raise ValueError(text)
    return raw, at, False


_TEXT: Final[dict[int, Callable[[str], str]]] = {
    types.BOOL.oid: _bool,
    types.BYTEA.oid: _bytea,
    types.INT2.oid: _integer,
    types.INT4.oid: _integer,
    types.INT8.oid: _integer,
    types.OID.oid: _integer,
    types.FLOAT4.oid: _float,
    types.FLOAT8.oid: _float,
    types.NUMERIC_TYPE.oid: _numeric,
    types.JSON.oid: _json,
    types.BY_NAME["jsonb"].oid: _json,
    types.UUID.oid: _uuid,
    types.DATE.oid: _date,
    types.TIME.oid: _time,
}
_BINARY: Final[dict[int, Callable[[bytes], Any]]] = {
    types.BOOL.oid: _binary_bool,
    types.BYTEA.oid: bytes.hex,
    types.INT2.oid: _unpacked(_INT16),
    types.INT4.oid: _unpacked(_INT32),
    types.INT8.oid: _unpacked(_INT64),
    types.OID.oid: _unpacked(_UINT32),
    types.FLOAT4.oid: _unpacked(_FLOAT32),
    types.FLOAT8.oid: _unpacked(_FLOAT64),
    types.NUMERIC_TYPE.oid: _binary_numeric,
    types.DATE.oid: _binary_date,
    types.TIME.oid: _binary_time,
    types.TIMESTAMP.oid: _binary_timestamp,
    types.TIMESTAMPTZ.oid: _binary_timestamptz,
    types.INTERVAL.oid: _binary_interval,
    types.UUID.oid: lambda value: str(UUID(bytes=value)),
    types.BY_NAME["jsonb"].oid: _binary_jsonb,
}
