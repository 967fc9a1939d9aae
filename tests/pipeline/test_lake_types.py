"""A table of the lake has the columns of its stream, with their types, whoever reads it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.sink import Converter, ConverterKind, LakeSink, LocalStorage, Partitioning
from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.rules.planning import plan_source
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.formats.choosing import schema_to_register
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateSource
from headrace.testing import EmbeddedBroker
from tests.pipeline.lake_harness import SCHEMA_ID, Lake
from tests.pipeline.records import Record, avro

_COLUMNS = """
  shop INTEGER, day DATE, paid BOOLEAN, visitor BIGINT, rate DOUBLE, price DECIMAL(9, 3), note VARCHAR,
  picture BYTES, opened TIME, seen TIMESTAMP, tags ARRAY<VARCHAR>, counts MAP<VARCHAR, BIGINT>,
  address STRUCT<street VARCHAR, places ARRAY<STRUCT<x DOUBLE>>>
"""
_ROW: dict[str, Any] = {
    "SHOP": 7,
    "DAY": date(2026, 3, 14),
    "PAID": True,
    "VISITOR": 2**62,
    "RATE": 0.5,
    "PRICE": Decimal("123456.789"),
    "NOTE": "a=b/ü",
    "PICTURE": b"\x00\xff",
    "OPENED": 1000,
    "SEEN": datetime(2026, 3, 14, 12, 0, 0, 250_000, tzinfo=UTC),
    "TAGS": ["x", None],
    "COUNTS": {"a": 1},
    "ADDRESS": {"STREET": "Elm", "PLACES": [{"X": 1.5}]},
}
# As fastavro takes them.
_WRITTEN = _ROW | {"COUNTS": [{"key": "a", "value": 1}], "OPENED": time(0, 0, 1)}


def test_every_type_arrives_and_is_read_by_everybody(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
) -> None:
    lake = _lake(spark, broker, tmp_path, topic_name, partition_columns=("SHOP", "DAY"))
    nothing = dict.fromkeys(_ROW)
    written = lake.write(*(_record(lake, values, at) for at, values in enumerate((_WRITTEN, nothing))))
    assert (written.rows, written.dead_letters) == (2, 0)

    (found, empty) = (
        lake.spark.read.format("delta").load(str(lake.table.path)).orderBy("_TOPIC_OFFSET").collect()
    )
    assert {
        name: found[name] for name in ("SHOP", "DAY", "PAID", "VISITOR", "RATE", "PRICE", "NOTE", "OPENED")
    } == {name: _ROW[name] for name in ("SHOP", "DAY", "PAID", "VISITOR", "RATE", "PRICE", "NOTE", "OPENED")}
    assert bytes(found["PICTURE"]) == _ROW["PICTURE"]
    assert found["SEEN"].astimezone(UTC) == _ROW["SEEN"]
    assert (found["TAGS"], found["COUNTS"]) == (_ROW["TAGS"], _ROW["COUNTS"])
    assert found["ADDRESS"].asDict(recursive=True) == _ROW["ADDRESS"]
    assert {empty[name] for name in _ROW} == {None}

    table = DeltaTable(str(lake.table.path))
    assert {"SHOP=7/DAY=2026-03-14", "SHOP=__HIVE_DEFAULT_PARTITION__/DAY=__HIVE_DEFAULT_PARTITION__"} == {
        str(Path(uri).relative_to(lake.table.path).parent) for uri in table.file_uris()
    }
    (file,) = (uri for uri in table.file_uris() if "DAY=2026-03-14" in uri)
    read = duckdb.sql(f"SELECT * FROM read_parquet('{file}', hive_partitioning = true)")
    # As Arrow: for times with a zone `fetchall` would need pytz, which nothing else here does.
    (row,) = read.to_arrow_table().to_pylist()
    assert (row["SHOP"], row["DAY"], row["PRICE"]) == (7, date(2026, 3, 14), Decimal("123456.789"))
    assert row["ADDRESS"] == {"STREET": "Elm", "PLACES": [{"X": 1.5}]}


def test_a_table_needs_no_partition_columns(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
) -> None:
    lake = _lake(spark, broker, tmp_path, topic_name, partition_columns=())
    assert lake.write(_record(lake, _WRITTEN, 0)).rows == 1
    (file,) = DeltaTable(str(lake.table.path)).file_uris()
    assert Path(file).parent == lake.table.path


@pytest.mark.parametrize(
    ("columns", "partitions", "reason"),
    [
        ("a VARCHAR", ("B",), "by the field B, which does not exist"),
        ("a VARCHAR, b DOUBLE", ("B",), "by the field B, which is DOUBLE"),
        ("a VARCHAR, b ARRAY<INTEGER>", ("B",), "by the field B, which is ARRAY<INT>"),
    ],
)
def test_columns_that_make_no_table_are_refused(
    spark: SparkSession, columns: str, partitions: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    schemas = writer_schemas({1: _schema(columns)}, absent=())
    values = AvroValues(columns_of_schemas(schemas, table=None, rules=NEW_TABLE), schemas=schemas)
    with pytest.raises(HeadraceError, match="The table cannot") as refused:
        TableShape(_sink(tmp_path, partitions), "s", values)
    assert reason in str(refused.value)
    assert spark is not None, "expressions need a session"


def _source(columns: str) -> Source:
    (parsed,) = parse(f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'AVRO');")
    assert isinstance(parsed.statement, CreateSource)
    return plan_source(parsed.statement, Catalogue(), text=parsed.text)


def _sink(folder: Path, partition_columns: tuple[str, ...]) -> LakeSink:
    return LakeSink(
        name="q",
        topics=("s",),
        topics_regex="",
        storage=LocalStorage(root=folder),
        topics_dir="",
        key=Converter(kind=ConverterKind.STRING),
        value=Converter(kind=ConverterKind.AVRO),
        partitioning=Partitioning(fields=partition_columns),
        flush_size=1000,
        commit_within_ms=None,
    )


def _lake(
    spark: SparkSession,
    broker: EmbeddedBroker,
    folder: Path,
    dead_letter_topic: str,
    *,
    partition_columns: tuple[str, ...],
) -> Lake:
    settings = dataclasses.replace(
        Settings(), data_dir=folder, engine="external", bootstrap_servers=broker.bootstrap
    )
    sink = _sink(folder, partition_columns)
    return Lake(spark, settings, sink, schema=_schema(_COLUMNS), dead_letter_topic=dead_letter_topic)


def _schema(columns: str) -> str:
    source = _source(columns)
    schema = schema_to_register(source.value_encoding, source.value, side="value")
    assert schema is not None
    return schema


def _record(lake: Lake, values: dict[str, Any], offset: int) -> Record:
    return Record(value=avro(lake.schemas[SCHEMA_ID], values, schema_id=SCHEMA_ID), offset=offset)
