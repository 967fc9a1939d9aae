"""Single Avro bodies as rows: what the generator expects of Spark, and what the columns give, on generated
schemas.

A value that does not fit, or that Java could read otherwise, is never a row.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from headrace.lake.avro_columns import columns_of
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.columns.avro_decoding import UnsupportedShapeError
from headrace.lake.columns.rows import rows_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.types import Decimal, Field, Simple, Struct, Type
from headrace.query.tail.avro_rows import row_reader
from headrace.query.tail.outcomes import RefusedError, UnsureError
from tests.lake.columns.records import columns_of_values, framed
from tests.pipeline.lake.generated_avro import UNFIT, Generated, generated, record
from tests.pipeline.lake.test_avro_values import same

FRAME = 5


def made(seed: int) -> tuple[Generated, random.Random]:
    chance, numbers = random.Random(seed), count()
    fields = [generated(chance, lambda: f"N{next(numbers)}") for _ in range(chance.randrange(1, 4))]
    return record(fields, "Row"), chance


def rows(columns: Struct, found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As Arrow has them."""
    if not columns.fields:
        return [{}] * len(found)
    arrays = {
        each.name: pa.array([row.get(each.name) for row in found], arrow_type(each.type))
        for each in columns.fields
    }
    return [dict(row) for row in pa.table(arrays).to_pylist(maps_as_pydicts="strict")]


@pytest.mark.parametrize("seed", range(400))
def test_generated_values_arrive(seed: int) -> None:
    shape, chance = made(seed)
    schema = json.dumps(shape.schema)
    columns = columns_of(schema)
    read = row_reader(schema, columns)
    good: list[tuple[bytes, Any]] = []
    for written, expected in [shape.pair(chance) for _ in range(40)]:
        body = framed(1, shape.schema, written)
        if expected is not UNFIT:
            good.append((body, expected))
            continue
        with pytest.raises((RefusedError, UnsureError)):
            read(body[FRAME:])
    found = rows(columns, [read(body[FRAME:]) for body, _ in good])
    for row, (_, expected) in zip(found, good, strict=True):
        assert same(row, expected), (row, expected)
    try:
        in_columns = rows_of(
            columns_of_values([body for body, _ in good]),
            partition=0,
            topic_id="t",
            columns=columns,
            schema_by_id={1: schema}.get,
        )
    except (UnusualRecordsError, UnsupportedShapeError):
        return
    names = [each.name for each in columns.fields]
    assert [repr(row) for row in in_columns.select(names).to_pylist(maps_as_pydicts="strict")] == [
        repr(row) for row in found
    ]


@pytest.mark.parametrize("seed", range(60))
def test_damaged_bodies_are_no_rows(seed: int) -> None:
    shape, chance = made(seed)
    read = row_reader(json.dumps(shape.schema), columns_of(json.dumps(shape.schema)))
    for written, expected in [shape.pair(chance) for _ in range(20)]:
        body = framed(1, shape.schema, written)[FRAME:]
        if expected is UNFIT:
            continue
        with pytest.raises(UnsureError, match="bytes behind"):
            read(body + b"\x00")
        if body:
            with pytest.raises((RefusedError, UnsureError)):
                read(body[: chance.randrange(len(body))])


def field(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["x"]}
MAP = {"type": "map", "values": "int"}
NULLS = {"type": "array", "items": "null"}


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        pytest.param("boolean", b"\x02", UnsureError, id="neither true nor false"),
        pytest.param("int", b"\x82\x00", UnsureError, id="more bytes than needed"),
        pytest.param("int", b"\x80\x80\x80\x80\x20", UnsureError, id="more than 32 bits"),
        pytest.param("long", b"\xff" * 9 + b"\x02", UnsureError, id="more than 64 bits"),
        pytest.param("long", b"\xff" * 11, RefusedError, id="without end"),
        pytest.param("string", b"\x02\xff", UnsureError, id="not UTF-8"),
        pytest.param("string", b"\x06\xed\xa0\x80", UnsureError, id="half of a surrogate pair"),
        pytest.param("string", b"\x01", RefusedError, id="a negative length"),
        pytest.param("bytes", b"\xfe\xff\xff\xff\x0f", RefusedError, id="gigabytes"),
        pytest.param(["null", "int"], b"\x04\x02", RefusedError, id="no such branch"),
        pytest.param(ENUM, b"\x02", RefusedError, id="no symbol"),
        pytest.param(MAP, b"\x04\x02a\x02\x02a\x04\x00", UnsureError, id="twice"),
        pytest.param(DECIMAL, b"\x00", UnsureError, id="no digits"),
        pytest.param(DECIMAL, b"\x10\x7f" + b"\xff" * 7, RefusedError, id="too many digits"),
        pytest.param(NULLS, b"\x82\x89\x7a\x00", UnsureError, id="very many elements"),
    ],
)
def test_what_is_no_row(kind: Any, body: bytes, error: type[Exception]) -> None:
    schema = json.dumps(field(kind))
    with pytest.raises(error):
        row_reader(schema, columns_of(schema))(body)


def one(kind: Any, column: Type, value: Any) -> Any:
    """The value in a column of that type."""
    columns = Struct(fields=(Field(name="a", type=column),))
    body = framed(1, field(kind), {"a": value})[FRAME:]
    return rows(columns, [row_reader(json.dumps(field(kind)), columns)(body)])[0]["a"]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("int", Simple.BIGINT, 7),
        ("long", Simple.INT, -(2**31)),
        ("long", Simple.DOUBLE, 2**53 - 1),
        ("int", Simple.DOUBLE, -5),
        ("float", Simple.DOUBLE, 0.5),
        ("double", Simple.INT, 5.0),
        ("double", Simple.FLOAT, 0.25),
        ("long", Decimal(precision=20, scale=1), 12),
    ],
)
def test_a_number_fits_a_column_that_has_it_exactly(kind: Any, column: Type, value: Any) -> None:
    assert one(kind, column, value) == value


@pytest.mark.parametrize(
    ("kind", "column", "value", "error"),
    [
        ("long", Simple.INT, 2**31, RefusedError),
        ("long", Simple.DOUBLE, 2**53 + 1, UnsureError),
        ("double", Simple.INT, 5.5, RefusedError),
        ("double", Simple.BIGINT, float("nan"), UnsureError),
        ("double", Simple.FLOAT, 0.1, RefusedError),
        ("double", Simple.FLOAT, 1e300, UnsureError),
        ("double", Decimal(precision=5, scale=1), 0.5, UnsureError),
        ("long", Decimal(precision=3, scale=1), 100, RefusedError),
        ("string", Simple.INT, "5", RefusedError),
        ("int", Simple.STRING, 5, RefusedError),
        ({"type": "array", "items": "int"}, Simple.INT, [1], RefusedError),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_no_row(
    kind: Any, column: Type, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        one(kind, column, value)


def test_null_fits_every_column() -> None:
    assert one(["null", "string"], Simple.INT, None) is None
    assert one(["null", {"type": "array", "items": "int"}], Simple.INT, None) is None
