"""Values of records through a reader, as the rows that a sink would write."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fastavro
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.spark.lake.values import ValueReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    value: Any
    reason: str | None


def read(spark: SparkSession, reader: ValueReader, given: Sequence[bytes | None]) -> list[Read]:
    """What the reader makes of the bytes, in order."""
    records = [(at, None if each is None else bytearray(each)) for at, each in enumerate(given)]
    frame = spark.createDataFrame(records, "at int, raw binary").coalesce(1)
    parsed = frame.select("at", "raw", reader.parsed(F.col("raw")).alias("parsed"))
    found = parsed.select(
        "at",
        reader.value(F.col("parsed")).alias("value"),
        reader.reason(F.col("raw"), F.col("parsed")).alias("reason"),
    )
    return [Read(value=plain(row["value"]), reason=row["reason"]) for row in found.orderBy("at").collect()]


def plain(value: Any) -> Any:
    """A value of Spark with dictionaries for rows, and times with their zone."""
    match value:
        case Row():
            return {name: plain(each) for name, each in value.asDict().items()}
        case list():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case bytearray():
            return bytes(value)
        case _:
            return value


def in_utc(value: Any) -> Any:
    """Spark gives a TIMESTAMP as the local time of this machine."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """An Avro record in Confluent's wire format."""
    written = io.BytesIO()
    written.write(struct.pack(">bI", 0, schema_id))
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()
