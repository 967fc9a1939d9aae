"""Columns and Avro schemas that somebody else registered: which fit, and how rows are written with them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import avro
from headrace.pipeline.formats.avro_fit import why_unfit
from headrace.pipeline.statements.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int", "default": 7}]}


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Theirs", "namespace": "org.example", "fields": fields})


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def columns(**types: DataType) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=kind) for name, kind in types.items())


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (INTEGER, "int"),
        (INTEGER, ["null", "long"]),
        (DOUBLE, "float"),
        (VARCHAR, COLOUR),
        (BYTES, {"type": "fixed", "name": "Four", "size": 4}),
        (DecimalType(9, 3), {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}),
        (TIMESTAMP, {"type": "long", "logicalType": "timestamp-micros"}),
        (ArrayType(VARCHAR), {"type": "array", "items": ["null", "string"]}),
        (MapType(VARCHAR, BIGINT), {"type": "map", "values": "long"}),
        (StructType((StructField("X", INTEGER),)), POINT),
        (StructType(()), POINT),
    ],
    ids=str,
)
def test_schemas_that_hold_a_column(kind: DataType, schema: Any) -> None:
    assert why_unfit(record(field("c", schema)), columns(C=kind), wrapped=True) is None
    assert why_unfit(json.dumps(schema), columns(C=kind), wrapped=False) is None


@pytest.mark.parametrize(
    ("kind", "schema", "reason"),
    [
        (BIGINT, "int", "its type int for C does not hold BIGINT"),
        (DATE, "int", "its type int for C does not hold DATE"),
        (VARCHAR, ["null", "string", "int"], "its type union for C does not hold VARCHAR"),
        (ArrayType(INTEGER), "string", "its type string for C does not hold ARRAY<INTEGER>"),
        (StructType((StructField("Y", INTEGER),)), POINT, "it has no field for C->Y"),
        (
            StructType((StructField("X", VARCHAR),)),
            POINT,
            "its type int for C->X does not hold VARCHAR",
        ),
    ],
    ids=str,
)
def test_schemas_that_do_not(kind: DataType, schema: Any, reason: str) -> None:
    assert why_unfit(record(field("c", schema)), columns(C=kind), wrapped=True) == reason


def test_fields_that_no_column_fills() -> None:
    own = field("id", "long")
    ids = columns(ID=BIGINT)
    assert why_unfit(record(own, field("more", ["null", "int"])), ids, wrapped=True) is None
    assert why_unfit(record(own, field("more", "int", default=5)), ids, wrapped=True) is None
    assert (
        why_unfit(record(own, field("more", "int")), ids, wrapped=True)
        == "its field more has no default, and no column fills it"
    )
    union = field("more", ["int", "string"], default=5)
    assert why_unfit(record(own, union), ids, wrapped=True) == "its field more is a union of several types"
    both = record(own, field("ID", "int", default=1))
    assert why_unfit(both, ids, wrapped=True) == "its fields id and ID differ only in case"
    assert why_unfit('"string"', ids, wrapped=True) == "it is not a record, but of type string"


def test_python_writes_the_defaults() -> None:
    schema = record(
        field("id", "long"),
        field("colour", COLOUR, default="BLUE"),
        field("again", ["Colour", "null"], default="RED"),
        field("raw", "bytes", default="\u00ff\u0001"),
        field("point", POINT, default={}),
        field("points", {"type": "map", "values": "Point"}, default={"a": {"x": 1}}),
        field("nothing", ["null", "int"], default=None),
    )
    ids = columns(ID=BIGINT)
    assert why_unfit(schema, ids, wrapped=True) is None
    data = avro.serialized([3], ids, (9, schema), wrapped=True)
    content = fastavro.schemaless_reader(
        io.BytesIO(data[5:]), fastavro.parse_schema(json.loads(schema)), None
    )
    assert content == {
        "id": 3,
        "colour": "BLUE",
        "again": "RED",
        "raw": b"\xff\x01",
        "point": {"x": 7},
        "points": {"a": {"x": 1}},
        "nothing": None,
    }
    with pytest.raises(ValueProblemError):
        avro.serialized([None], ids, (9, schema), wrapped=True)
