"""Records as columns without a log: tests give the values and the headers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro

from headrace.wire.record_batch import scan
from headrace.wire.record_columns import RecordColumns, record_columns
from headrace.wire.records import Headers, Record, build_batch

FIRST_TIMESTAMP = 1_700_000_000_000


def columns_of_values(
    values: Sequence[bytes | None], headers: Sequence[Headers] | None = None
) -> RecordColumns:
    """Record n has the offset and the time n."""
    given = headers or [()] * len(values)
    batch = build_batch(
        [
            Record(offset_delta=at, timestamp_delta=at, value=value, headers=of_record)
            for at, (value, of_record) in enumerate(zip(values, given, strict=True))
        ],
        base_timestamp=FIRST_TIMESTAMP,
    )
    (found,) = record_columns(bytes(batch), scan(bytes(batch)), most_headers=16, about_bytes=10**9)
    return found


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """In Confluent's wire format. `schema` is as JSON has it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4) + body.getvalue()
