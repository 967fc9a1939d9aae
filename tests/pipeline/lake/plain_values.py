"""Values of the lake's types in plain Python, for Spark and for Kafka Connect's JSON.

A DATE is a number of days, a TIMESTAMP of milliseconds, a struct a dict.
"""

from __future__ import annotations

import base64
import decimal
import math
from datetime import UTC, date, datetime, timedelta
from struct import pack
from typing import Any

from pyspark.sql import Row

from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_TYPES = {
    Simple.BOOLEAN: {"type": "boolean"},
    Simple.INT: {"type": "int32"},
    Simple.BIGINT: {"type": "int64"},
    Simple.FLOAT: {"type": "float"},
    Simple.DOUBLE: {"type": "double"},
    Simple.STRING: {"type": "string"},
    Simple.BINARY: {"type": "bytes"},
    Simple.DATE: {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1},
    Simple.TIMESTAMP: {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
}


def struct(**types: Type) -> Struct:
    return Struct(fields=tuple(Field(name=name, type=kind) for name, kind in types.items()))


def spark_value(kind: Type, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    match kind:
        case _ if value is None:
            return None
        case Simple.DATE:
            return (_EPOCH + timedelta(days=value)).date()
        case Simple.TIMESTAMP:
            return _EPOCH + timedelta(milliseconds=value)
        case Struct():
            return Row(**{each.name: spark_value(each.type, value.get(each.name)) for each in kind.fields})
        case Array():
            return [spark_value(kind.element, each) for each in value]
        case Map():
            return {name: spark_value(kind.value, each) for name, each in value.items()}
        case _:
            return value


def from_spark(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    match value:
        case Row():
            return {name: from_spark(each) for name, each in value.asDict().items()}
        case datetime():
            return (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        case date():
            return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH).days
        case bytearray():
            return bytes(value)
        case list():
            return [from_spark(each) for each in value]
        case dict():
            return {name: from_spark(each) for name, each in value.items()}
        case _:
            return value


def connect_schema(kind: Type) -> dict[str, Any]:
    """The schema in Kafka's JSON; everything is optional."""
    found: dict[str, Any]
    match kind:
        case Simple():
            found = dict(_JSON_TYPES[kind])
        case Decimal():
            found = {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)},
            }
        case Array():
            found = {"type": "array", "items": connect_schema(kind.element)}
        case Map():
            found = {
                "type": "map",
                "keys": {"type": "string", "optional": False},
                "values": connect_schema(kind.value),
            }
        case Struct():
            fields = [{"field": each.name, **connect_schema(each.type)} for each in kind.fields]
            found = {"type": "struct", "fields": fields}
    return {**found, "optional": True}


def connect_value(kind: Type, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    match kind:
        case _ if value is None:
            return None
        case Simple.BINARY:
            return base64.b64encode(value).decode()
        case Decimal():
            with decimal.localcontext(prec=40):
                unscaled = int(value.scaleb(kind.scale))
            return base64.b64encode(unscaled.to_bytes(17, "big", signed=True)).decode()
        case Struct():
            return {each.name: connect_value(each.type, value.get(each.name)) for each in kind.fields}
        case Array():
            return [connect_value(kind.element, each) for each in value]
        case Map():
            return {name: connect_value(kind.value, each) for name, each in value.items()}
        case _:
            return value


def from_connect(schema: dict[str, Any], value: Any) -> Any:  # noqa: PLR0911 - one for each type
    if value is None:
        return None
    match schema["type"]:
        case "struct":
            return {each["field"]: from_connect(each, value[each["field"]]) for each in schema["fields"]}
        case "array":
            return [from_connect(schema["items"], each) for each in value]
        case "map":
            return {name: from_connect(schema["values"], each) for name, each in value.items()}
        case "bytes" if schema.get("name", "").endswith("Decimal"):
            return decimal.Decimal(value)
        case "bytes":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value)
        case _:
            return value


def type_of(schema: dict[str, Any]) -> Type | None:  # noqa: PLR0911 - one for each type
    """None where Kafka has a type that the lake has not, or writes down less of it."""
    match schema["type"], schema.get("name", "").rpartition(".")[2]:
        case "int32", "Date":
            return Simple.DATE
        case "int64", "Timestamp":
            return Simple.TIMESTAMP
        case "bytes", "Decimal":
            return None
        case (("int8" | "int16" | "int32"), _):
            return Simple.INT
        case "int64", _:
            return Simple.BIGINT
        case "float", _:
            return Simple.FLOAT
        case "double", _:
            return Simple.DOUBLE
        case "boolean", _:
            return Simple.BOOLEAN
        case "string", _:
            return Simple.STRING
        case "bytes", _:
            return Simple.BINARY
        case _:
            return None


def is_same(left: Any, right: Any) -> bool:
    """Kafka writes a FLOAT with as few digits as it needs, and Spark gives it to Python as a DOUBLE."""
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(is_same(left[name], right[name]) for name in left)
        case list(), list():
            return len(left) == len(right) and all(map(is_same, left, right))
        case float(), float():
            both_nan = math.isnan(left) and math.isnan(right)
            return left == right or both_nan or _as_float(left) == _as_float(right)
        case _:
            return type(left) is type(right) and bool(left == right)


def _as_float(value: float) -> bytes:
    try:
        return pack("f", value)
    except OverflowError:
        return pack("d", value)
