"""JSON as ksqlDB writes it: DATE as days, TIME and TIMESTAMP as milliseconds, BYTES as base64, DECIMAL as a
number with all its digits. Texts are accepted as numbers, as in ksqlDB.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.values import (
    ValueProblemError,
    coerced,
    days_of,
    milliseconds_of,
    milliseconds_of_day,
)
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructType,
)


def serialized(values: list[Any], columns: tuple[Column, ...], *, wrapped: bool) -> bytes:
    if not wrapped:
        return text_of(values[0]).encode()
    names = [column.name for column in columns]
    return text_of(dict(zip(names, values, strict=True))).encode()


def text_of(value: Any) -> str:
    """JSON. Not with `json`, which would turn decimals into doubles."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        entries = (f"{json.dumps(_key_text(key))}:{text_of(element)}" for key, element in value.items())
        return "{" + ",".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(element) for element in value) + "]"
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return milliseconds_of(value)
    if isinstance(value, date):
        return days_of(value)
    if isinstance(value, time):
        return milliseconds_of_day(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers; Java's writers write them as texts.
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else text_of(key)


def deserialized(data: bytes, columns: tuple[Column, ...], *, wrapped: bool) -> list[Any]:
    try:
        content = json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ValueProblemError(f"not JSON: {error}") from error
    if not wrapped:
        return [read(content, columns[0].type)]
    if content is None:
        return [None for _ in columns]
    if not isinstance(content, dict):
        raise ValueProblemError("not a JSON object")
    fields = {name.upper(): value for name, value in content.items()} | content
    return [read(fields.get(column.name, fields.get(column.name.upper())), column.type) for column in columns]


def read(content: Any, kind: DataType) -> Any:
    """A JSON value as a value of that type. Raises ValueProblemError."""
    if content is None:
        return None
    if isinstance(kind, ArrayType) and isinstance(content, list):
        return [read(element, kind.element) for element in content]
    if isinstance(kind, MapType) and isinstance(content, dict):
        return {read(key, kind.key): read(element, kind.value) for key, element in content.items()}
    if isinstance(kind, StructType) and isinstance(content, dict):
        fields = {name.upper(): value for name, value in content.items()} | content
        return {
            field.name: read(fields.get(field.name, fields.get(field.name.upper())), field.type)
            for field in kind.fields
        }
    return coerced(_lenient(content, kind), kind)


_NUMBERS: Final = frozenset({INTEGER, BIGINT, DOUBLE})


def _lenient(content: Any, kind: DataType) -> Any:
    if kind is VARCHAR and not isinstance(content, str):
        return text_of(content)
    if kind in _NUMBERS and isinstance(content, str):
        try:
            return float(content) if kind is DOUBLE else int(content)
        except ValueError as error:
            raise ValueProblemError(f"'{content}' is not of type {kind}") from error
    if kind in {INTEGER, BIGINT} and isinstance(content, Decimal) and content == int(content):
        return int(content)
    if kind is BOOLEAN and isinstance(content, str):
        return content.lower() == "true"
    return content
