"""Avro schemas as columns: every type, and what is refused."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.avro_bodies import body_schema
from headrace.lake.avro_columns import columns_of, shape_of
from headrace.lake.types import ddl
from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.formats.avro_types import schema_text
from headrace.pipeline.statements.types import ArrayType, MapType, ScalarType, StructField, StructType

A = {"type": "record", "name": "x.A", "fields": [{"name": "a", "type": "int"}]}
ENUM = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
ENTRY = {
    "type": "record",
    "name": "Entry",
    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "long"}],
}


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"c{at}", "type": each} for at, each in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("boolean", "BOOLEAN"),
        ("int", "INT"),
        ({"type": "long"}, "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("bytes", "BINARY"),
        ("string", "STRING"),
        (ENUM, "STRING"),
        ({"type": "fixed", "name": "F", "size": 3}, "BINARY"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, "DECIMAL(9,3)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "DECIMAL(9,0)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 5}, "DECIMAL(38,5)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, "BINARY"),
        ({"type": "bytes", "logicalType": "decimal"}, "BINARY"),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9},
            "DECIMAL(9,0)",
        ),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10}, "BINARY"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "long", "logicalType": "date"}, "BIGINT"),
        ({"type": "int", "logicalType": "time-millis"}, "INT"),
        ({"type": "long", "logicalType": "time-micros"}, "BIGINT"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "TIMESTAMP_NTZ"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "BINARY"),
        ({"type": "int", "logicalType": "of-our-own"}, "INT"),
        ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, "BIGINT"),
        ({"type": {"type": "int", "logicalType": "date"}}, "DATE"),
        ({"type": "array", "items": ["null", "string"]}, "ARRAY<STRING>"),
        ({"type": "map", "values": A}, "MAP<STRING,STRUCT<`a`:INT>>"),
        (A, "STRUCT<`a`:INT>"),
        (["null", "int"], "INT"),
        (["string", "null"], "STRING"),
        (["string"], "STRING"),
        (["null", "int", "long"], "BIGINT"),
        (["float", "double"], "DOUBLE"),
        (["null", "string", ENUM], "STRING"),
        (["null", "int", "string"], "STRUCT<`int`:INT,`string`:STRING>"),
        ([{"type": "int", "logicalType": "date"}, "long"], "STRUCT<`int`:DATE,`long`:BIGINT>"),
        (
            ["null", A, {**A, "name": "B"}, {"type": "array", "items": "int"}],
            "STRUCT<`A`:STRUCT<`a`:INT>,`B`:STRUCT<`a`:INT>,`array`:ARRAY<INT>>",
        ),
        ([A, {**A, "name": "y.A"}], "STRUCT<`x_A`:STRUCT<`a`:INT>,`y_A`:STRUCT<`a`:INT>>"),
        (
            {"type": "array", "items": {**ENTRY, "connect.internal.type": "MapEntry"}},
            "MAP<STRING,BIGINT>",
        ),
        ({"type": "array", "items": ENTRY}, "ARRAY<STRUCT<`key`:STRING,`value`:BIGINT>>"),
        (
            {
                "type": "array",
                "items": {**ENTRY, "namespace": "io.confluent.connect.avro", "name": "MapEntry"},
            },
            "MAP<STRING,BIGINT>",
        ),
        (
            {
                "type": "array",
                "connect.internal.type": "MapEntry",
                "items": {
                    "type": "record",
                    "name": "E",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
                },
            },
            "ARRAY<STRUCT<`key`:INT,`value`:INT>>",
        ),
    ],
)
def test_every_type_has_a_column(schema: Any, column: str) -> None:
    assert ddl(columns_of(json.dumps(record(schema)))) == f"STRUCT<`c0`:{column}>"


def test_what_stores_nothing_has_no_column() -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    given = record("null", empty, "int", ["null"], {"type": "array", "items": "Empty"})
    assert ddl(columns_of(json.dumps(given))) == "STRUCT<`c2`:INT>"
    assert columns_of('"null"').fields == ()


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        ("string", "`value`:STRING"),
        (["null", "long"], "`value`:BIGINT"),
        (["null", A], "`a`:INT"),
        (["int", A], "`value`:STRUCT<`int`:INT,`A`:STRUCT<`a`:INT>>"),
    ],
)
def test_a_schema_that_is_not_a_record_is_one_column(schema: Any, columns: str) -> None:
    assert ddl(columns_of(json.dumps(schema))) == f"STRUCT<{columns}>"


def test_names_refer_to_types_defined_before() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "e", "type": {**ENUM, "namespace": "z"}}]}
    schema = record(inner, "In", "z.E", "n.In") | {"namespace": "n"}
    columns = "`c0`:STRUCT<`e`:STRING>,`c1`:STRUCT<`e`:STRING>,`c2`:STRING,`c3`:STRUCT<`e`:STRING>"
    assert ddl(columns_of(json.dumps(schema))) == f"STRUCT<{columns}>"


def test_what_statements_write_is_read() -> None:
    kinds = {
        "TAGS": MapType(ScalarType.VARCHAR, ArrayType(ScalarType.INTEGER)),
        "PLACE": StructType((StructField("X", ScalarType.DOUBLE), StructField("AT", ScalarType.TIMESTAMP))),
    }
    columns = tuple(Column(name=name, type=kind) for name, kind in kinds.items())
    expected = "STRUCT<`TAGS`:MAP<STRING,ARRAY<INT>>,`PLACE`:STRUCT<`X`:DOUBLE,`AT`:TIMESTAMP>>"
    assert ddl(columns_of(schema_text(columns, wrapped=True))) == expected


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {
                "type": "record",
                "name": "n.T",
                "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}],
            },
            r"field kids\[\] contains the record n.T that it is in",
        ),
        (record("Unknown"), "field c0 is of type Unknown, which it does not define"),
        (record({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 40}), "40 digits"),
        (
            {"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in "aA"]},
            "a and A would",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "_offset", "type": "int"}]}, None),
        (
            {"type": "record", "name": "R", "fields": [{"name": "_topic_offset", "type": "int"}]},
            "Field _topic_offset has the name of a column",
        ),
        (record(record({"type": "record", "name": "N", "fields": []})), None),
        (record({"type": "nothing"}), "type nothing"),
        (record([]), "union of nothing"),
        (record(5), "field c0 is not an Avro type"),
    ],
)
def test_what_is_refused(schema: Any, reason: str | None) -> None:
    if reason is None:
        columns_of(json.dumps(schema))
        return
    with pytest.raises(HeadraceError, match=reason) as refused:
        columns_of(json.dumps(schema))
    assert refused.value.code == "lake_unsupported"


def test_a_schema_that_grows_without_bounds_is_refused() -> None:
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for depth in range(1, 30):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{depth - 1}"}]
        inner = {"type": "record", "name": f"R{depth}", "fields": fields}
    with pytest.raises(HeadraceError, match="more than 10000 fields"):
        columns_of(json.dumps(inner))


def test_bodies_are_read_with_names_of_their_own() -> None:
    """The schema for reading describes the same bytes."""
    schema = record(ENUM, "E", ["null", "int", "long"], ["null", A], {"type": "map", "values": "x.A"}, "null")
    written = io.BytesIO()
    values = {"c0": "X", "c1": "Y", "c2": 7, "c3": {"a": 3}, "c4": {"k": {"a": 4}}, "c5": None}
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), values)
    written.seek(0)
    read = fastavro.schemaless_reader(
        written, fastavro.parse_schema(body_schema(shape_of(json.dumps(schema)), reads=False)), None
    )
    expected = {"f0": "X", "f1": "Y", "f2": {"f0": 7}, "f3": {"f0": 3}, "f4": {"k": {"f0": 4}}, "f5": None}
    assert read == {"body": expected}
