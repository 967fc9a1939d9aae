"""Avro records as rows: every type, several schemas in one topic, and whatever bytes there may be."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime
from itertools import count
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.avro_columns import columns_of
from headrace.lake.evolution import Rules
from headrace.lake.types import Struct, ddl
from headrace.pipeline.spark.formats.avro_format import WriterSchemas, new_schema_id, writer_schemas
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from tests.pipeline.lake.generated_avro import UNFIT, Generated, generated, record
from tests.pipeline.lake.reading import Read, framed, read


def values_of(*schemas: Any, table: Struct | None = None) -> AvroValues:
    """A reader of the schemas with ids from 1 on."""
    known = WriterSchemas(by_id={at: json.dumps(each) for at, each in enumerate(schemas, 1)})
    return AvroValues(columns_of_schemas(known, table=table, rules=Rules()), schemas=known)


def row(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"type": "record", "name": "Row", "fields": fields}


def generated_rows(seed: int) -> tuple[Generated, random.Random]:
    chance, numbers = random.Random(seed), count()
    fields = [generated(chance, lambda: f"N{next(numbers)}") for _ in range(chance.randrange(1, 7))]
    return record(fields, "Row"), chance


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(at, marks=pytest.mark.long) for at in range(12, 80))]
)
def test_generated_values_of_every_type_arrive(spark: SparkSession, seed: int) -> None:
    made, chance = generated_rows(seed)
    assert ddl(columns_of(json.dumps(made.schema))) == made.column
    pairs = [made.pair(chance) for _ in range(40)]
    found = read(spark, values_of(made.schema), [framed(1, made.schema, written) for written, _ in pairs])
    for (written, expected), each in zip(pairs, found, strict=True):
        if expected is UNFIT:
            assert each.reason is not None, written
        else:
            assert each.reason is None, (written, each.reason)
            assert same(each.value, expected), (each.value, expected)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(at, marks=pytest.mark.long) for at in range(4, 40))]
)
def test_damaged_records_never_end_a_query(spark: SparkSession, seed: int) -> None:
    made, chance = generated_rows(seed)
    damaged = []
    for _ in range(100):
        whole = bytearray(framed(1, made.schema, made.pair(chance)[0]))
        match chance.randrange(3):
            case 0:
                del whole[chance.randrange(5, len(whole) + 1) :]
            case 1 if len(whole) > 5:
                whole[chance.randrange(5, len(whole))] = chance.randrange(256)
            case _:
                whole = whole[:5] + chance.randbytes(chance.randrange(20))
        damaged.append(bytes(whole))
    found = read(spark, values_of(made.schema), damaged)
    assert all(each.reason is not None or each.value is not None for each in found)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return (
            found is not None
            and set(found) == set(expected)
            and all(same(found[key], each) for key, each in expected.items())
        )
    if isinstance(expected, list):
        return found is not None and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return bool(found == expected) or (math.isnan(found) and math.isnan(expected))
    if isinstance(expected, datetime) and expected.tzinfo is not None:
        return bool(found.astimezone(expected.tzinfo) == expected)
    return type(found) is type(expected) and bool(found == expected)


def test_records_of_several_schemas_become_rows_of_one_table(spark: SparkSession) -> None:
    first = row(a="int", b="string")
    second = row(b="string", c={"type": "array", "items": "int"}, a="long")
    reader = values_of(first, second)
    assert ddl(reader.struct) == "STRUCT<`a`:BIGINT,`b`:STRING,`c`:ARRAY<INT>>"
    found = read(
        spark,
        reader,
        [framed(1, first, {"a": 1, "b": "x"}), framed(2, second, {"a": 2**40, "b": "y", "c": [1]}), None],
    )
    assert found == [
        Read(value={"a": 1, "b": "x", "c": None}, reason=None),
        Read(value={"a": 2**40, "b": "y", "c": [1]}, reason=None),
        Read(value=None, reason=None),
    ]


def test_numbers_that_the_column_holds_exactly_fit(spark: SparkSession) -> None:
    table = columns_of(json.dumps(row(i="int", d="double", f="float")))
    wide = row(i=["null", "long"], d="long", f="double")
    reader = values_of(wide, table=table)
    assert reader.struct == table
    given = [(5, 7, 0.5), (None, 2**53, 1.0), (2**31, 7, 0.5), (5, 2**53 + 1, 0.5), (5, 7, 0.1)]
    found = read(spark, reader, [framed(1, wide, {"i": i, "d": d, "f": f}) for i, d, f in given])
    assert [each.value for each in found[:2]] == [
        {"i": 5, "d": 7.0, "f": 0.5},
        {"i": None, "d": float(2**53), "f": 1.0},
    ]
    assert [each.reason for each in found] == [
        None,
        None,
        "Field i is BIGINT, its column INT cannot hold 2147483648.",
        "Field d is BIGINT, its column DOUBLE cannot hold 9007199254740993.",
        "Field f is DOUBLE, its column FLOAT cannot hold 0.1.",
    ]


def test_a_field_of_another_type_is_a_reason_unless_it_is_null(spark: SparkSession) -> None:
    table = columns_of(json.dumps(row(a=["null", "long"], s=row(x="int") | {"name": "S"})))
    other = row(
        a=["null", "string"], s={"type": "record", "name": "T", "fields": [{"name": "x", "type": "string"}]}
    )
    found = read(
        spark,
        values_of(other, table=table),
        [framed(1, other, {"a": None, "s": {"x": "q"}}), framed(1, other, {"a": "5", "s": {"x": "q"}})],
    )
    assert [each.reason for each in found] == [
        "Field s.x is STRING, its column is INT.",
        "Field a is STRING, its column is BIGINT.",
    ]


def test_a_union_fits_a_column_branch_by_branch(spark: SparkSession) -> None:
    table = columns_of(json.dumps(row(a="long")))
    union = row(a=["int", "long", "string"])
    given = [("int", 1), ("long", 2**40), ("string", "x")]
    found = read(spark, values_of(union, table=table), [framed(1, union, {"a": each}) for each in given])
    assert [each.value["a"] for each in found] == [1, 2**40, None]
    assert [each.reason for each in found] == [None, None, "Field a is STRING, its column is BIGINT."]


def test_promoted_unions(spark: SparkSession) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["X"]}
    schema = row(a=["int", "long"], b=["null", "float", "double"], c=["string", enum])
    given = [{"a": ("int", 1), "b": ("float", 0.5), "c": ("E", "X")}, {"a": ("long", 2), "b": None, "c": "x"}]
    reader = values_of(schema)
    assert ddl(reader.struct) == "STRUCT<`a`:BIGINT,`b`:DOUBLE,`c`:STRING>"
    found = read(spark, reader, [framed(1, schema, each) for each in given])
    assert [each.value for each in found] == [{"a": 1, "b": 0.5, "c": "X"}, {"a": 2, "b": None, "c": "x"}]


def test_values_that_are_not_records(spark: SparkSession) -> None:
    reader = values_of("string", ["null", "long"])
    assert ddl(reader.struct) == "STRUCT<`value`:STRING>"
    found = read(
        spark,
        reader,
        [framed(1, "string", "x"), framed(2, ["null", "long"], None), framed(2, ["null", "long"], 5)],
    )
    assert [each.value for each in found[:2]] == [{"value": "x"}, {"value": None}]
    assert found[2].reason == "Field value is BIGINT, its column is STRING."


def test_malformed_text_is_replaced(spark: SparkSession) -> None:
    found = read(spark, values_of(row(a="string")), [b"\x00\x00\x00\x00\x01\x04a\xff"])
    assert found == [Read(value={"a": "a\ufffd"}, reason=None)]


def test_records_that_cannot_be_read_have_a_reason(spark: SparkSession) -> None:
    schema = row(a="string")
    recursive = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    known = writer_schemas({1: json.dumps(schema), 3: json.dumps(recursive)}, absent=[9])
    reader = AvroValues(columns_of_schemas(known, table=None, rules=Rules()), schemas=known)
    given = [
        b"",
        b"{}",
        b"\x00\x00\x00\x00",
        framed(9, "int", 1),
        b"\x00\x00\x00\x00\x01\xff",
        framed(3, "int", 0),
    ]
    reasons = [each.reason or "" for each in read(spark, reader, given)]
    assert all("not in Confluent's wire format" in each for each in reasons[:3])
    assert reasons[3] == "The registry has no schema with id 9."
    assert reasons[4] == "The value cannot be read with the schema of its id 1."
    assert reasons[5].startswith(
        "Schema 3: An Avro schema cannot become columns: field next contains the record T"
    )


@pytest.mark.parametrize("schemas", [{}, {1: '"int"'}])
def test_an_unknown_schema_ends_the_query(spark: SparkSession, schemas: dict[int, str]) -> None:
    known = WriterSchemas(by_id=schemas)
    reader = AvroValues(columns_of_schemas(known, table=None, rules=Rules()), schemas=known)
    with pytest.raises(PySparkException) as ended:
        read(spark, reader, [framed(77, "int", 1)])
    assert new_schema_id(str(ended.value)) == 77


def test_a_record_is_decoded_once(spark: SparkSession) -> None:
    """Whatever the number of columns, and even if only readable records are used."""
    reader = values_of(row(a="int", b="string", c="double"))
    frame = spark.createDataFrame([(bytearray(),)], "raw binary")
    parsed = frame.select("raw", reader.parsed(F.col("raw")).alias("parsed"))
    found = parsed.select(
        reader.value(F.col("parsed")).alias("value"),
        reader.reason(F.col("raw"), F.col("parsed")).alias("reason"),
    )
    found = found.where("reason IS NULL").select("value.*")
    plan: Any = found._jdf.queryExecution().optimizedPlan()
    assert plan.toString().count("from_avro(") == 1
