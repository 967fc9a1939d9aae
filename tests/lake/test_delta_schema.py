"""Schemas of Delta tables as types of columns."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.delta_schema import schema_of, struct_of
from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct


def _schema(**columns: object) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def test_all_types_of_the_lake() -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "decimal(9,3)"}]}
    found = struct_of(
        _schema(
            a="integer",
            b={"type": "array", "elementType": inner, "containsNull": True},
            c={"type": "map", "keyType": "string", "valueType": "timestamp_ntz", "valueContainsNull": True},
            d="binary",
        ),
        table="t",
    )
    row = Struct(fields=(Field(name="x", type=Decimal(precision=9, scale=3)),))
    assert found == Struct(
        fields=(
            Field(name="a", type=Simple.INT),
            Field(name="b", type=Array(element=row)),
            Field(name="c", type=Map(value=Simple.TIMESTAMP_NTZ)),
            Field(name="d", type=Simple.BINARY),
        )
    )
    assert struct_of(schema_of(found), table="t") == found


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("short", "Column a of table t has the type short"),
        ({"type": "array", "elementType": "variant"}, "Column a[] of table t has the type variant"),
        (
            {"type": "map", "keyType": "integer", "valueType": "string"},
            "Column a of table t has the type map",
        ),
    ],
)
def test_other_types_are_refused_with_the_column(kind: object, named: str) -> None:
    with pytest.raises(HeadraceError, match="lake does not write") as error:
        struct_of(_schema(a=kind), table="t")
    assert named in str(error.value)
