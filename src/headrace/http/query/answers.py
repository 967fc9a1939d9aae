"""The format of answers over HTTP that are no results of SQL: the flow, latencies, topics, messages.

Values are encoded as in results (`query/result_values.py`). Never touches HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.query.flow import FlowSnapshot
from headrace.query.topics import Message, TopicDescription


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
