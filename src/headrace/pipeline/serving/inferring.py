"""Columns from the Avro schema in the registry, for a source whose statement names none.

Names become upper case, as in ksqlDB; types that no column can have are refused by name.
"""

from __future__ import annotations

import json
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.formats import Schemas
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import IntegerLiteral, StringLiteral
from headrace.pipeline.statements.tree import ColumnConstraint, CreateSource, Property
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

_PRIMITIVES: Final[dict[str, DataType]] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": VARCHAR,
    "enum": VARCHAR,
    "bytes": BYTES,
    "fixed": BYTES,
}
_LOGICAL: Final[dict[str, DataType]] = {
    "date": DATE,
    "time-millis": TIME,
    "timestamp-millis": TIMESTAMP,
}


def inferred_columns(statement: CreateSource, schemas: Schemas) -> tuple[Column, ...]:
    """The value's columns; none if the statement names them or its format has no schemas."""
    value_columns = [
        column
        for column in statement.columns
        if column.constraint in {ColumnConstraint.NONE, ColumnConstraint.HEADERS}
    ]
    value_format = _property(statement.properties, "VALUE_FORMAT") or _property(
        statement.properties, "FORMAT"
    )
    schema_id = _property(statement.properties, "VALUE_SCHEMA_ID")
    if str(value_format).upper() != "AVRO" or (
        any(column.constraint is ColumnConstraint.NONE for column in value_columns) and schema_id is None
    ):
        return ()
    topic = _property(statement.properties, "KAFKA_TOPIC") or statement.name
    text = _schema(schemas, f"{topic}-value", schema_id)
    if text is None:
        raise StatementError(
            f"Schema for message values on topic '{topic}' does not exist in the Schema Registry.",
            statement.at,
            remedy=f"Register a schema under the subject {topic}-value, or name the columns.",
        )
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise StatementError(f"The schema of {topic}-value is not a record.", statement.at)
    reader = _Reader(statement)
    return tuple(
        Column(name=field["name"].upper(), type=reader.type_of(field["type"])) for field in schema["fields"]
    )


def _schema(schemas: Schemas, subject: str, schema_id: Any) -> str | None:
    if schema_id is not None:
        return schemas.schema_by_id(int(schema_id))
    known = list(schemas.schemas_of(subject).values())
    return known[-1] if known else None


def _property(properties: tuple[Property, ...], name: str) -> str | int | None:
    for given in properties:
        if given.name.upper() == name and isinstance(given.value, (StringLiteral, IntegerLiteral)):
            return given.value.value
    return None


class _Reader:
    def __init__(self, statement: CreateSource) -> None:
        self._statement = statement
        self._named: dict[str, DataType] = {}

    def type_of(self, schema: Any) -> DataType:
        if isinstance(schema, list):
            present = [member for member in schema if member != "null"]
            if len(present) == 1:
                return self.type_of(present[0])
            raise self._unsupported("a union of several types")
        if isinstance(schema, str):
            found = _PRIMITIVES.get(schema) or self._named.get(schema)
            if found is None:
                raise self._unsupported(f"the type {schema}")
            return found
        found = self._compound(schema)
        if "name" in schema:
            self._named[schema["name"]] = found
        return found

    def _compound(self, schema: dict[str, Any]) -> DataType:  # noqa: PLR0911 - one for each type
        kind, logical = schema["type"], schema.get("logicalType")
        if logical == "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind == "array":
            items = schema["items"]
            if isinstance(items, dict) and items.get("connect.internal.type") == "MapEntry":
                key, value = (field["type"] for field in items["fields"])
                return MapType(self.type_of(key), self.type_of(value))
            return ArrayType(self.type_of(items))
        if kind == "map":
            return MapType(VARCHAR, self.type_of(schema["values"]))
        if kind == "record":
            return StructType(
                tuple(
                    StructField(field["name"].upper(), self.type_of(field["type"]))
                    for field in schema["fields"]
                )
            )
        return self.type_of(kind)

    def _unsupported(self, what: str) -> StatementError:
        return StatementError(
            f"The registered schema has {what}, which no column can have.", self._statement.at
        )
