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
    # Before those, and possibly with the same names.
    first_headers: tuple[tuple[str, bytes], ...] = ()


def frame(spark: SparkSession, records: list[Record]) -> DataFrame:
    """As an inline table: of Python's rows Spark makes a task for each slot, each with a Python process."""
    columns = [each.partition(" ")[::2] for each in _SCHEMA.split(", ", 6)]
    rows = ", ".join(f"({', '.join(_literals(record))})" for record in records)
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns)
    names = ", ".join(name for name, _ in columns)
    if not rows:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns)
        return spark.sql(f"SELECT {nothing} WHERE false")
    return spark.sql(f"SELECT {casts} FROM VALUES {rows} AS records({names})")


def _literals(record: Record) -> tuple[str, ...]:
    pairs = (*record.first_headers, *record.headers.items())
    headers = (f"named_struct('key', '{name}', 'value', {_binary(value)})" for name, value in pairs)
    texts = ", ".join(headers)
    return (
        _binary(record.key),
        _binary(record.value),
        "'topic'",
        str(record.partition),
        str(record.offset),
        f"TIMESTAMP '{POSTED.isoformat()}'",
        f"array({texts})",
    )


def _binary(value: bytes | None) -> str:
    return "NULL" if value is None else f"X'{value.hex()}'"


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
