"""Kafka records as Spark's source gives them, made by hand."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import fastavro
from pyspark.sql import DataFrame, SparkSession

POSTED = datetime(2026, 3, 14, 12, 0, 0, 250_000, tzinfo=UTC)

_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


@dataclass(frozen=True, kw_only=True)
class Record:
    value: bytes | None
    offset: int
    partition: int = 0
    key: bytes | None = None
    headers: dict[str, bytes] = field(default_factory=dict)


def frame(spark: SparkSession, records: list[Record]) -> DataFrame:
    rows = [
        (
            bytearray(record.key) if record.key is not None else None,
            bytearray(record.value) if record.value is not None else None,
            "topic",
            record.partition,
            record.offset,
            POSTED,
            [(name, bytearray(value)) for name, value in record.headers.items()],
        )
        for record in records
    ]
    return spark.createDataFrame(rows, _SCHEMA)


def avro(schema: str, values: dict[str, Any], *, schema_id: int) -> bytes:
    """A value in Confluent's wire format, written by a library that is not ours."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(schema)), values)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def decoded(schema: str, value: bytes) -> tuple[int, dict[str, Any]]:
    """Schema id and content of such a value."""
    assert value[0] == 0
    content = fastavro.schemaless_reader(
        io.BytesIO(value[5:]), fastavro.parse_schema(json.loads(schema)), None
    )
    assert isinstance(content, dict)
    return int.from_bytes(value[1:5], "big"), content
