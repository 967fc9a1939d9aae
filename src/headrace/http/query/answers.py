"""The format of answers over HTTP: values as JSON, and results as JSON, CSV or one JSON object per line.

Invariants: every value that DuckDB or Avro can produce has one representation, and numbers stay numbers
whatever their size: dates, times and durations are ISO 8601, decimals are exact numbers, bytes are base64;
values that JSON numbers cannot express (NaN, infinities) are strings. Never touches HTTP.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headrace.query.flow import FlowSnapshot
from headrace.query.sql import QueryResult
from headrace.query.topics import Message, TopicDescription

JSON: Final = "application/json"
CSV: Final = "text/csv"
NDJSON: Final = "application/x-ndjson"

_encoder: Final = msgspec.json.Encoder(decimal_format="number")


def encoded(content: object) -> bytes:
    """Content as JSON."""
    return _encoder.encode(json_value(content))


def json_value(value: object) -> object:
    """The value, reduced to what a JSON encoder accepts."""
    match value:
        case None | bool() | int():
            return value
        case str():
            # Half of a surrogate pair, which can come from JSON or Avro text, cannot be encoded in UTF-8.
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else _not_a_number(value)
        case dict():
            return {_key(key): json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [json_value(item) for item in value]
        case _:
            return value


def result_as_json(result: QueryResult) -> bytes:
    return encoded({"columns": result.columns, "types": result.types, "rows": result.rows})


def result_as_ndjson(result: QueryResult) -> bytes:
    """One object per row. Repeated column names get a number."""
    names = _distinct(result.columns)
    return b"".join(encoded(dict(zip(names, row, strict=True))) + b"\n" for row in result.rows)


def result_as_csv(result: QueryResult) -> bytes:
    """A header line, then the rows. NULL is an empty field; lists and structures are JSON in a field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(result.columns)
    writer.writerows([_field(value) for value in row] for row in result.rows)
    return text.getvalue().encode("utf-8", "replace")


RESULT_FORMATS: Final[dict[str, Callable[[QueryResult], bytes]]] = {
    JSON: result_as_json,
    CSV: result_as_csv,
    NDJSON: result_as_ndjson,
}


def flow_content(flow: FlowSnapshot) -> dict[str, Any]:
    return {
        "accepted": flow.accepted,
        "avro": flow.avro,
        "dead_letters": flow.dead_letters,
        "lake": flow.lake,
        **latency_content(flow),
        "queries": [
            {
                "query": query.query,
                "state": query.state,
                "mode": query.mode,
                "mode_reason": query.mode_reason,
                "message": query.message,
                "at": query.at,
                "batch": query.batch,
                "rows": query.rows,
            }
            for query in flow.queries
        ],
        "problem": flow.problem,
    }


def latency_content(flow: FlowSnapshot) -> dict[str, Any]:
    return {
        "latency_ms": flow.latency.as_json(),
        "avro_latency_ms": flow.avro_latency.as_json(),
        "overall_latency_ms": flow.overall_latency.as_json(),
        "overall_avro_latency_ms": flow.overall_avro_latency.as_json(),
    }


def topics_content(topics: Iterable[TopicDescription]) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition": each.partition,
                        "earliest": each.earliest,
                        "latest": each.latest,
                        "bytes": each.size_bytes,
                    }
                    for each in topic.partitions
                ],
            }
            for topic in topics
        ]
    }


def messages_content(messages: Iterable[Message]) -> dict[str, Any]:
    return {
        "messages": [
            {
                "partition": message.partition,
                "offset": message.offset,
                "timestamp_ms": message.timestamp_ms,
                "key": message.key,
                "value": message.value,
                "headers": message.headers,
                "format": message.format,
                "size_bytes": message.size_bytes,
                "truncated": message.truncated,
            }
            for message in messages
        ]
    }


def _not_a_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _key(key: object) -> str:
    if isinstance(key, str):
        return str(json_value(key))
    text = encoded(key).decode()
    return text[1:-1] if text.startswith('"') else text


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = encoded(value).decode()
    return text[1:-1] if text.startswith('"') else text


def _distinct(columns: Iterable[str]) -> list[str]:
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names
