"""Columns as Avro schemas, as ksqlDB writes them. Both Spark and Python register them and write with them.

A row is a record `io.confluent.ksql.avro_schemas.KsqlDataSourceSchema` with nullable fields, unless the
statement gives another name; records in it are named after their field, in the same namespace. Pure: schemas
are JSON values or texts here. Never asks a registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructType,
)

NAME: Final = "KsqlDataSourceSchema"
NAMESPACE: Final = "io.confluent.ksql.avro_schemas"
_ENTRY: Final = "MapEntry"
_SCALARS: Final[dict[ScalarType, Any]] = {
    ScalarType.BOOLEAN: "boolean",
    ScalarType.INTEGER: "int",
    ScalarType.BIGINT: "long",
    ScalarType.DOUBLE: "double",
    ScalarType.VARCHAR: "string",
    ScalarType.BYTES: "bytes",
    ScalarType.DATE: {"type": "int", "logicalType": "date"},
    ScalarType.TIME: {"type": "int", "logicalType": "time-millis"},
    ScalarType.TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}


def schema_text(columns: tuple[Column, ...], *, wrapped: bool, full_name: str | None = None) -> str:
    """The schema for writing rows of these columns."""
    return record_schema(columns, full_name) if wrapped else bare_schema(columns[0])


def record_schema(columns: Iterable[Column], full_name: str | None = None) -> str:
    """The schema of a row of these columns."""
    namespace, _, name = (full_name or f"{NAMESPACE}.{NAME}").rpartition(".")
    return json.dumps(_record(name, [(column.name, column.type) for column in columns], namespace))


def bare_schema(column: Column) -> str:
    """The schema of a single column that is not wrapped in a record."""
    return json.dumps(own_type(column.type, f"{NAME}_{column.name}"))


def own_type(kind: DataType, name: str, namespace: str = NAMESPACE) -> Any:
    """A type as ksqlDB writes it; `name` is for the records in it."""
    match kind:
        case ScalarType():
            return _SCALARS[kind]
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case ArrayType():
            return {"type": "array", "items": nullable(own_type(kind.element, name, namespace))}
        case MapType():
            # Keys of ksqlDB's maps may be null, so Connect's converter writes entries and not an Avro map.
            entry = _record(name, [("key", kind.key), ("value", kind.value)], namespace)
            return {
                "type": "array",
                "items": entry | {"connect.internal.type": _ENTRY},
                "connect.internal.type": _ENTRY,
            }
        case StructType():
            return _record(name, [(field.name, field.type) for field in kind.fields], namespace)
        case _:
            raise TypeError(f"no Avro type for {kind}")


def nullable(schema: Any) -> Any:
    if isinstance(schema, list):
        return ["null", *(branch for branch in schema if branch != "null")]
    return ["null", schema]


def _record(name: str, fields: list[tuple[str, DataType]], namespace: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [
            {"name": field, "type": nullable(own_type(kind, f"{name}_{field}", namespace)), "default": None}
            for field, kind in fields
        ],
    }
