"""JSON with Connect's schemas as rows."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.lake.evolution import Rules
from headrace.lake.types import ddl
from headrace.pipeline.spark.lake.envelope_values import (
    EnvelopeValues,
    columns_of_envelopes,
    schemas_in,
)
from headrace.pipeline.spark.restarts import new_json_schema
from tests.pipeline.lake.reading import Read, in_utc, read

DATA = "org.apache.kafka.connect.data."


def fields(**types: Any) -> dict[str, Any]:
    named = [{"field": name, "optional": True, **kind} for name, kind in types.items()]
    return {"type": "struct", "fields": named}


def envelope(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def reader_of(spark: SparkSession, *values: bytes) -> EnvelopeValues:
    frame = spark.createDataFrame([(bytearray(each),) for each in values], "value binary")
    schemas = schemas_in(frame)
    return EnvelopeValues(columns_of_envelopes(schemas, table=None, rules=Rules()), schemas=schemas)


def unscaled(number: int, length: int = 20) -> str:
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def test_every_type_arrives(spark: SparkSession) -> None:
    schema = fields(
        t={"type": "boolean"},
        i={"type": "int8"},
        l={"type": "int64"},
        f={"type": "float"},
        d={"type": "double"},
        s={"type": "string"},
        x={"type": "bytes"},
        day={"type": "int32", "name": DATA + "Date"},
        at={"type": "int64", "name": DATA + "Timestamp"},
        clock={"type": "int32", "name": DATA + "Time"},
        n={"type": "bytes", "name": DATA + "Decimal", "parameters": {"scale": "2"}},
        a={"type": "array", "items": {"type": "int32", "name": DATA + "Date"}},
        m={"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        p={"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}},
        r=fields(**{"x y": {"type": "string"}}),
    )
    payload = {
        "t": True,
        "i": 1,
        "l": 2**62,
        "f": 0.5,
        "d": 1.5,
        "s": "a",
        "x": "AP8=",
        "day": 1,
        "at": 1500,
        "clock": 7,
        "n": unscaled(-12345, 2),
        "a": [0, None],
        "m": {"k": 1},
        "p": [[1, "one"], [2, None]],
        "r": {"x y": "z"},
    }
    expected = {
        **payload,
        "x": b"\x00\xff",
        "day": date(1970, 1, 2),
        "at": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "n": Decimal("-123.45"),
        "a": [date(1970, 1, 1), None],
        "p": [{"key": 1, "value": "one"}, {"key": 2, "value": None}],
        "r": {"x_y": "z"},
    }
    values = [envelope(schema, payload), envelope(schema, {}), envelope(schema, None)]
    found = read(spark, reader_of(spark, *values), values)
    assert [each.reason for each in found] == [None, None, None]
    assert {name: in_utc(each) for name, each in found[0].value.items()} == expected
    assert found[1].value == dict.fromkeys(payload)
    assert found[2].value is None


@pytest.mark.parametrize("written", [12.5, unscaled(1250), unscaled(1250, 2), unscaled(1250, 63)])
def test_decimals_are_numbers_or_bytes(spark: SparkSession, written: Any) -> None:
    schema = fields(n={"type": "bytes", "name": DATA + "Decimal", "parameters": {"scale": "2"}})
    value = envelope(schema, {"n": written})
    assert read(spark, reader_of(spark, value), [value]) == [Read(value={"n": Decimal("12.50")}, reason=None)]


def test_records_of_several_schemas_become_rows_of_one_table(spark: SparkSession) -> None:
    values = [
        envelope(fields(a={"type": "int32"}), {"a": 1}),
        envelope(fields(b={"type": "string"}, a={"type": "int64"}), {"a": 2**40, "b": "x"}),
        envelope({"type": "string"}, "bare"),
    ]
    reader = reader_of(spark, *values)
    assert {field.name: ddl(field.type) for field in reader.struct.fields} == {
        "a": "BIGINT",
        "b": "STRING",
        "value": "STRING",
    }
    found = [each.value for each in read(spark, reader, values)]
    assert found == [
        {"a": 1, "b": None, "value": None},
        {"a": 2**40, "b": "x", "value": None},
        {"a": None, "b": None, "value": "bare"},
    ]


def test_records_that_cannot_be_read_have_a_reason(spark: SparkSession) -> None:
    schema = fields(
        i={"type": "int32"},
        day={"type": "int32", "name": DATA + "Date"},
        n={"type": "bytes", "name": DATA + "Decimal", "parameters": {"scale": "0"}},
        r=fields(x={"type": "string"}),
        p={"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}},
    )
    values = [
        *(envelope(schema, each) for each in ({"i": "x"}, {"day": 2**31 - 1}, {"n": unscaled(10**40)})),
        *(envelope(schema, each) for each in ({"r": 5}, 7, {"p": [5]}, {"p": 6})),
        envelope({"type": "int128"}, 5),
        envelope(None, 5),
        envelope(None, None),
        b'{"schema": null}',
        b'{"schema": null, "payload": null, "more": 1}',
        b"x",
        None,
    ]
    reasons = [each.reason for each in read(spark, reader_of(spark, *filter(None, values)), values)]
    envelope_reason = 'The value is not a JSON object with the fields "schema" and "payload" only.'
    assert reasons[0] == "Field i is not INT: x."
    assert reasons[1] == "Field day lies outside the years 1 to 9999, with these days since 1970: 2147483647."
    assert (reasons[2] or "").startswith("Field n is not DECIMAL(38,0): ")
    assert reasons[3:5] == [
        "Field r is not STRUCT<`x`:STRING>: 5.",
        "Field value is not " + ddl(reader_of(spark, values[0] or b"").struct) + ": 7.",
    ]
    pair = "STRUCT<`key`:INT,`value`:STRING>"
    assert reasons[5:7] == [f"Field p[] is not {pair}: 5.", f"Field p is not ARRAY<{pair}>: 6."]
    assert reasons[7:10] == [
        "A schema of Connect cannot become columns: field value has no type that Connect knows.",
        "The value has no schema.",
        None,
    ]
    assert reasons[10:] == [envelope_reason, envelope_reason, envelope_reason, None]


def test_an_unknown_schema_ends_the_query_and_is_in_its_error(spark: SparkSession) -> None:
    known = envelope(fields(a={"type": "int32"}), {"a": 1})
    value = envelope(fields(ü={"type": "int32"}), {"ü": 1})
    with pytest.raises(PySparkException) as ended:
        read(spark, reader_of(spark, known), [value])
    found = new_json_schema(str(ended.value))
    assert found is not None
    assert json.loads(found) == fields(ü={"type": "int32"})
    reader = EnvelopeValues(columns_of_envelopes([found], table=None, rules=Rules()), schemas=[found])
    assert read(spark, reader, [value]) == [Read(value={"ü": 1}, reason=None)]
