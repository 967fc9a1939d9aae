"""Avro bodies in columns: what generated schemas and values must give, and that nothing else is taken for it.

The expected values are those of the generator, not of the code that reads single rows.
"""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.lake.avro_columns import columns_of
from headrace.lake.columns.avro_decoding import UnsupportedShapeError, decoder_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.types import Struct
from headrace.wire.column_reader import ColumnReader
from tests.lake.columns.records import columns_of_values, framed
from tests.pipeline.lake.generated_avro import UNFIT, Generated, generated, record
from tests.pipeline.lake.test_avro_values import same

FRAME = 5


def read(schema: Any, values: list[bytes], columns: Struct | None = None) -> list[dict[str, Any]] | None:
    """A row for each record; None if they are left to the way of single rows."""
    columns = columns or columns_of(json.dumps(schema))
    records = columns_of_values(values)
    reader = ColumnReader(
        records.buffer, records.value.start + FRAME, records.value.start + records.value.length
    )
    try:
        found = decoder_of(json.dumps(schema), columns).arrays(reader)
    except UnusualRecordsError:
        return None
    if not reader.good.all() or reader.left.any():
        return None
    lacking = {each.name: pa.nulls(len(values)) for each in columns.fields if each.name not in found}
    return pa.table({**found, **lacking}).to_pylist() if columns.fields else [{}] * len(values)


def readable_rows(seed: int) -> tuple[Generated, random.Random] | None:
    """None if the schema has something that columns cannot read."""
    chance, numbers = random.Random(seed), count()
    fields = [generated(chance, lambda: f"N{next(numbers)}") for _ in range(chance.randrange(1, 4))]
    made = record(fields, "Row")
    try:
        decoder_of(json.dumps(made.schema), columns_of(json.dumps(made.schema)))
    except UnsupportedShapeError:
        return None
    return made, chance


READABLE = [seed for seed in range(600) if readable_rows(seed) is not None]


def test_many_of_the_generated_schemas_can_be_read() -> None:
    assert len(READABLE) > 100


@pytest.mark.parametrize("seed", READABLE)
def test_generated_values_arrive(seed: int) -> None:
    found = readable_rows(seed)
    assert found is not None
    made, chance = found
    pairs = [made.pair(chance) for _ in range(60)]
    good = [pair for pair in pairs if pair[1] is not UNFIT]
    rows = read(made.schema, [framed(1, made.schema, written) for written, _ in good])
    assert rows is not None
    for row, (_, expected) in zip(rows, good, strict=True):
        assert same(row, expected), (row, expected)
    for written, _ in (pair for pair in pairs if pair[1] is UNFIT):
        one_bad = [framed(1, made.schema, each) for each in (*(written for written, _ in good[:2]), written)]
        assert read(made.schema, one_bad) is None


@pytest.mark.parametrize("seed", READABLE[:40])
def test_damaged_records_are_left_to_single_rows(seed: int) -> None:
    """A record that is shortened or has more at its end never becomes a row; others are not harmed."""
    found = readable_rows(seed)
    assert found is not None
    made, chance = found
    good = [written for written, expected in (made.pair(chance) for _ in range(20)) if expected is not UNFIT]
    for written in good:
        whole = framed(1, made.schema, written)
        others = [framed(1, made.schema, each) for each in good[:3]]
        assert read(made.schema, [*others, whole + b"\x00"]) is None
        if len(whole) > FRAME:
            assert read(made.schema, [whole[: chance.randrange(FRAME, len(whole))], *others]) is None


def field(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("boolean", b"\x02", id="neither true nor false"),
        pytest.param("int", b"\x80\x80\x80\x80\x20", id="more than 32 bits"),
        pytest.param("long", b"\xff" * 9 + b"\x02", id="more than 64 bits"),
        pytest.param("string", b"\x02\xff", id="not UTF-8"),
        pytest.param("string", b"\x06\xed\xa0\x80", id="half of a surrogate pair"),
        pytest.param("string", b"\x01", id="a negative length"),
        pytest.param("bytes", b"\xfe\xff\xff\xff\x0f", id="a length of gigabytes"),
        pytest.param(["null", "int"], b"\x04\x02", id="no such branch"),
        pytest.param(["null", "int"], b"\x01", id="a negative branch"),
        pytest.param({"type": "enum", "name": "E", "symbols": ["x"]}, b"\x02", id="no such symbol"),
        pytest.param({"type": "enum", "name": "E", "symbols": ["x"]}, b"\x01", id="a negative symbol"),
        pytest.param({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", id="year 5881580"),
        pytest.param(
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            b"\x04\x03\xe8",
            id="more digits than the column",
        ),
        pytest.param(
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, b"\x00", id="no digits"
        ),
    ],
)
def test_values_that_are_not_what_the_schema_says(kind: Any, body: bytes) -> None:
    assert read(field(kind), [b"\x00\x00\x00\x00\x01" + body]) is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ({"type": "array", "items": "int"}, "field a is not a single value"),
        ({"type": "map", "values": "int"}, "field a is not a single value"),
        (["int", "string"], "field a is a union"),
        (["string"], "field a is a union of one type"),
    ],
)
def test_what_columns_do_not_read(kind: Any, why: str) -> None:
    with pytest.raises(UnsupportedShapeError, match=why):
        decoder_of(json.dumps(field(kind)), columns_of(json.dumps(field(kind))))


def test_a_column_of_another_type_is_not_read() -> None:
    with pytest.raises(UnsupportedShapeError, match="field a is INT, its column is BIGINT"):
        decoder_of(json.dumps(field("int")), columns_of(json.dumps(field("long"))))
    with pytest.raises(UnsupportedShapeError, match="not records"):
        decoder_of('"int"', columns_of('"int"'))


def test_columns_that_records_lack_are_null_and_fields_without_a_column_are_skipped() -> None:
    nested = {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]}
    written = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "gone", "type": ["null", "string"]},
            {"name": "a", "type": "int"},
            {"name": "n", "type": ["null", {**nested, "fields": [*nested["fields"], *written_more()]}]},
        ],
    }
    table = columns_of(
        json.dumps(
            {
                "type": "record",
                "name": "Row",
                "fields": [
                    {"name": "late", "type": {"type": "array", "items": "int"}},
                    {
                        "name": "N",
                        "type": {**nested, "fields": [{"name": "y", "type": "string"}, *nested["fields"]]},
                    },
                    {"name": "A", "type": "int"},
                ],
            }
        )
    )
    values = [
        framed(1, written, {"gone": "x", "a": 1, "n": None}),
        framed(1, written, {"gone": None, "a": 2, "n": {"x": 7, "more": 1.5}}),
    ]
    rows = read(written, values, table)
    assert rows == [
        {"late": None, "N": None, "A": 1},
        {"late": None, "N": {"y": None, "x": 7}, "A": 2},
    ]


def written_more() -> list[dict[str, Any]]:
    return [{"name": "more", "type": "double"}]


def test_many_records_with_nulls_at_random() -> None:
    """Slices of texts follow each other whatever is null between them."""
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "t", "type": ["null", "string"]},
            {"name": "n", "type": ["string", "null"]},
            {"name": "r", "type": ["null", field(["null", "bytes"]) | {"name": "R"}]},
        ],
    }
    chance = np.random.default_rng(7)
    rows = [
        {
            "t": None if chance.random() < 0.5 else "x" * int(chance.integers(0, 300)),
            "n": None if chance.random() < 0.1 else str(at),
            "r": None if chance.random() < 0.3 else {"a": None if chance.random() < 0.3 else b"%d" % at},
        }
        for at in range(2_000)
    ]
    assert read(schema, [framed(1, schema, row) for row in rows]) == rows
