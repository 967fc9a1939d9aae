"""`headrace topics`: the topics of the log, or the partitions of one, with offsets, bytes and skew.

Skew, in offsets, is the ratio of the fullest partition to an even share: 1 is even; if everything is in one
partition, it is the number of partitions. Invariant: JSON contains nothing but the answer. Never changes
anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.query.topics import PartitionDescription, TopicBrowser, TopicDescription


def show_topics(settings: Settings, name: str | None, *, as_json: bool) -> None:
    """Print all topics, or the partitions of the named one."""
    browser = TopicBrowser(settings.bootstrap, _no_schema)
    topics = browser.topics()
    if name is None:
        _print([_topic_row(topic) for topic in topics], as_json=as_json)
        return
    found = next((topic for topic in topics if topic.name == name), None)
    if found is None:
        raise HeadraceError(
            "no_such_topic", f"There is no topic `{name}`.", remedy="`headrace topics` lists all topics."
        )
    _print([_partition_row(found, partition) for partition in found.partitions], as_json=as_json)


def skew(amounts: Sequence[int]) -> float:
    """The fullest partition divided by an even share; 1 if everything is empty."""
    total = sum(amounts)
    return max(amounts) * len(amounts) / total if total else 1.0


def _no_schema(_schema_id: int) -> str:
    raise HeadraceError("schema_not_found", "Topics are listed without their messages.")


def _bytes(partitions: Sequence[PartitionDescription]) -> int | None:
    known = [partition.size_bytes for partition in partitions if partition.size_bytes is not None]
    return sum(known) if known else None


def _topic_row(topic: TopicDescription) -> dict[str, object]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "offsets": topic.offsets,
        "bytes": _bytes(topic.partitions),
        "skew": round(skew([partition.offsets for partition in topic.partitions]), 2),
    }


def _partition_row(topic: TopicDescription, partition: PartitionDescription) -> dict[str, object]:
    total = topic.offsets
    return {
        "partition": partition.partition,
        "earliest": partition.earliest,
        "latest": partition.latest,
        "offsets": partition.offsets,
        "bytes": partition.size_bytes,
        "share": round(partition.offsets / total, 4) if total else 0.0,
    }


def _print(rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print("no topics")
        return
    table = Table(header_style="bold")
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "topic" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(_text(column, value) for column, value in row.items()))
    Console().print(table)


def _text(column: str, value: object) -> str:
    if value is None:
        return "unknown"
    if column == "share" and isinstance(value, float):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else str(value)
