"""Schemas of Kafka Connect, as its JSON converter writes them beside each payload, as columns of the lake.

`{"type": "struct", "fields": [{"field": "a", "type": "int32", "optional": true}]}`. A schema that is not a
struct becomes one column, `value`. int8 and int16 are INT. Connect's own logical types are known: Date is
DATE, Timestamp is TIMESTAMP, Decimal is DECIMAL with the precision that the parameter
`connect.decimal.precision` gives, otherwise 38; Time is the number of milliseconds, as in `avro_columns.py`.
Other names change nothing. In the payload, a map with keys that are not texts is an array of pairs, and
becomes an ARRAY of structs with `key` and `value`. A struct without fields has no column.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import columns_of_shape
from headrace.lake.column_names import column_names, within
from headrace.lake.shapes import MOST_DIGITS, Items, Leaf, Part, Record, Shape, Stored, Values
from headrace.lake.types import Decimal, Simple, Struct

_PACKAGE: Final = "org.apache.kafka.connect.data."
_SINGLE: Final[Mapping[str, Simple]] = {
    "boolean": Simple.BOOLEAN,
    "int8": Simple.INT,
    "int16": Simple.INT,
    "int32": Simple.INT,
    "int64": Simple.BIGINT,
    "float": Simple.FLOAT,
    "float32": Simple.FLOAT,
    "double": Simple.DOUBLE,
    "float64": Simple.DOUBLE,
    "string": Simple.STRING,
    "bytes": Simple.BINARY,
}


def connect_columns_of(schema: str) -> Struct:
    """The columns for payloads of the schema. Raises lake_unsupported."""
    return columns_of_shape(connect_shape_of(schema))


def connect_shape_of(schema: str) -> Shape:
    """What payloads of the schema store. Raises lake_unsupported."""
    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise _refused(f"it is not JSON: {error}") from error
    return _shape(parsed, "")


def _shape(schema: Any, path: str) -> Shape:
    match schema:
        case {"type": "struct"}:
            return _struct(schema.get("fields") or (), path)
        case {"type": "array", "items": items}:
            return Items(element=_shape(items, f"{path}[]"))
        case {"type": "map", "keys": {"type": "string"}, "values": values}:
            return Values(value=_shape(values, f"{path}[]"))
        case {"type": "map", "keys": keys, "values": values}:
            parts = (
                Part(name="key", shape=_shape(keys, f"{path}[].key")),
                Part(name="value", shape=_shape(values, f"{path}[].value")),
            )
            return Items(element=Record(fields=parts, is_pair=True))
        case {"type": str() as name} if name in _SINGLE:
            return _single(schema, name)
        case _:
            raise _refused(f"field {path or 'value'} has no type that Connect knows")


def _struct(fields: Any, path: str) -> Record:
    if not all(isinstance(each, dict) and isinstance(each.get("field"), str) for each in fields):
        raise _refused(f"a field of {path or 'the struct'} has no name")
    given = [str(each["field"]) for each in fields]
    names = column_names(given, path=path)
    return Record(
        fields=tuple(
            Part(name=name, shape=_shape(each, within(path, name)), source=source)
            for name, source, each in zip(names, given, fields, strict=True)
        )
    )


def _single(schema: Any, name: str) -> Leaf:
    logical = str(schema.get("name") or "").removeprefix(_PACKAGE)
    match name, logical:
        case "int32", "Date":
            return Leaf(type=Simple.DATE, form=name, stored=Stored.DATE)
        case "int64", "Timestamp":
            return Leaf(type=Simple.TIMESTAMP, form=name, stored=Stored.MILLIS)
        case "bytes", "Decimal":
            return Leaf(type=_decimal(schema.get("parameters") or {}), form=name, stored=Stored.DECIMAL)
        case _:
            return Leaf(type=_SINGLE[name], form=name)


def _decimal(parameters: Any) -> Decimal:
    try:
        scale = int(parameters["scale"])
        precision = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    except (KeyError, TypeError, ValueError) as error:
        raise _refused("a decimal has no scale") from error
    if not 0 <= scale <= MOST_DIGITS:
        raise _refused(f"a decimal has {scale} digits after the point, and a column from 0 to {MOST_DIGITS}")
    return Decimal(precision=max(scale, min(precision, MOST_DIGITS), 1), scale=scale)


def _refused(reason: str) -> HeadraceError:
    return HeadraceError("lake_unsupported", f"A schema of Connect cannot become columns: {reason}.")
