"""Schemas of Kafka Connect as columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.connect_schemas import connect_columns_of
from headrace.lake.types import ddl

DATA = "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "int8"}, "INT"),
        ({"type": "int16"}, "INT"),
        ({"type": "int32", "optional": True, "default": 5}, "INT"),
        ({"type": "int64"}, "BIGINT"),
        ({"type": "float"}, "FLOAT"),
        ({"type": "double"}, "DOUBLE"),
        ({"type": "string"}, "STRING"),
        ({"type": "bytes"}, "BINARY"),
        ({"type": "int32", "name": DATA + "Date", "version": 1}, "DATE"),
        ({"type": "int32", "name": DATA + "Time"}, "INT"),
        ({"type": "int64", "name": DATA + "Timestamp"}, "TIMESTAMP"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "BIGINT"),
        ({"type": "bytes", "name": DATA + "Decimal", "parameters": {"scale": "2"}}, "DECIMAL(38,2)"),
        (
            {
                "type": "bytes",
                "name": DATA + "Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "9"},
            },
            "DECIMAL(9,2)",
        ),
        ({"type": "array", "items": {"type": "string"}}, "ARRAY<STRING>"),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}, "MAP<STRING,INT>"),
        (
            {"type": "map", "keys": {"type": "int64"}, "values": {"type": "int8"}},
            "ARRAY<STRUCT<`key`:BIGINT,`value`:INT>>",
        ),
        (
            {"type": "struct", "fields": [{"field": "x y", "type": "string"}], "name": "N"},
            "STRUCT<`x_y`:STRING>",
        ),
    ],
)
def test_every_type_has_a_column(schema: Any, column: str) -> None:
    struct = {"type": "struct", "fields": [schema | {"field": "a"}]}
    assert ddl(connect_columns_of(json.dumps(struct))) == f"STRUCT<`a`:{column}>"
    if schema["type"] != "struct":
        assert ddl(connect_columns_of(json.dumps(schema))) == f"STRUCT<`value`:{column}>"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("nonsense", "not JSON"),
        ("null", "no type"),
        ('{"type": "int128"}', "field value has no type"),
        ('{"type": "struct", "fields": [{"type": "string"}]}', "has no name"),
        ('{"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}', "has no scale"),
        (
            json.dumps(
                {"type": "struct", "fields": [{"type": "int8", "field": name} for name in ("a b", "A=b")]}
            ),
            "a b and A=b would be the same column",
        ),
    ],
)
def test_what_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(HeadraceError, match=reason) as refused:
        connect_columns_of(schema)
    assert refused.value.code == "lake_unsupported"
