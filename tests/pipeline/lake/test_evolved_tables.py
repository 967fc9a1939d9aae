"""Tables whose columns evolve, written by Spark and read by others."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.evolution import Rules, evolved
from headrace.lake.types import ddl, quoted
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.evolving import present_columns
from tests.pipeline.lake.reading import framed

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "k", "type": "int"},
        {"name": "a_b", "type": "string"},
        {"name": "s", "type": {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "l", "type": {"type": "array", "items": "S"}},
        {"name": "m", "type": {"type": "map", "values": "S"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ],
}
GROWN = {
    "type": "record",
    "name": "S",
    "fields": [{"name": "y", "type": "string"}, {"name": "x", "type": "int"}],
}
SECOND: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "m", "type": {"type": "map", "values": GROWN}},
        {"name": "l", "type": {"type": "array", "items": "S"}},
        {"name": "s", "type": "S"},
        {"name": "k", "type": "long"},
        {"name": "other", "type": ["null", "int", "string"]},
    ],
}


def test_new_columns_are_added_and_everybody_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}`"
    known = WriterSchemas(by_id={1: json.dumps(FIRST)})
    before = columns_of_schemas(known, table=None, rules=Rules())
    columns = ", ".join(f"{quoted(each.name)} {ddl(each.type)}" for each in before.fields)
    spark.sql(f"CREATE TABLE {table} ({columns}) USING delta")
    inner = {"x": 1}
    write(
        spark,
        tmp_path,
        AvroValues(before, schemas=known),
        framed(1, FIRST, {"k": 1, "a_b": "q", "s": inner, "l": [inner], "m": {"e": inner}, "local": 0}),
    )

    known = WriterSchemas(by_id={1: json.dumps(FIRST), 2: json.dumps(SECOND)})
    after = columns_of_schemas(known, table=before, rules=Rules())
    added = evolved(before, after, rules=Rules()).added
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(each.definition for each in added)})")
    assert present_columns(spark, str(tmp_path), name="t") == after
    grown = {"x": 2, "y": "z"}
    write(
        spark,
        tmp_path,
        AvroValues(after, schemas=known),
        framed(2, SECOND, {"k": 2, "s": grown, "l": [grown], "m": {"e": grown}, "other": ("string", "o")}),
    )

    old = {"x": 1, "y": None}
    expected = [
        {
            "k": 1,
            "a_b": "q",
            "s": old,
            "l": [old],
            "m": {"e": old},
            "local": datetime(1970, 1, 1),
            "other": None,
        },
        {
            **{"k": 2, "a_b": None, "s": grown, "l": [grown], "m": {"e": grown}, "local": None},
            "other": {"int": None, "string": "o"},
        },
    ]
    read = spark.read.format("delta").load(str(tmp_path)).orderBy("k")
    assert [row.asDict(recursive=True) for row in read.collect()] == expected
    delta = DeltaTable(str(tmp_path))
    found = QueryBuilder().register("t", delta).execute("SELECT k, s, l, local, other FROM t ORDER BY k")
    assert duckdb.from_arrow(found).fetchall() == [
        tuple(row[name] for name in ("k", "s", "l", "local", "other")) for row in expected
    ]
    files = delta.file_uris()
    by_duckdb = duckdb.sql(
        f"SELECT k, s.x, local FROM read_parquet({files}, union_by_name = true) ORDER BY k"
    )
    assert by_duckdb.fetchall() == [(1, 1, datetime(1970, 1, 1)), (2, 2, None)]


def write(spark: SparkSession, folder: Path, reader: AvroValues, *records: bytes) -> None:
    frame = spark.createDataFrame([(bytearray(each),) for each in records], "raw binary")
    parsed = frame.select("raw", reader.parsed(F.col("raw")).alias("parsed"))
    rows = parsed.select(
        reader.value(F.col("parsed")).alias("value"),
        reader.reason(F.col("raw"), F.col("parsed")).alias("reason"),
    )
    assert [row["reason"] for row in rows.collect()] == [None] * len(records)
    rows.select("value.*").write.format("delta").mode("append").save(str(folder))
