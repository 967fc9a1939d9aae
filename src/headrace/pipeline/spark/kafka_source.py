"""Topics as Spark reads them: as streams from given offsets, or given records once.

Frames have the columns of Spark's Kafka source, headers included. Records of open and aborted transactions
are left out. If data expires before it is read, the query fails instead of skipping it silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.pipeline.runs.identities import Collected, Written
from headrace.pipeline.runs.stretches import Stretch, groups, places_of

# A consumer that has read a batch to its end leaves a fetch waiting at the broker, and a task of the next
# batch first asks for offsets on the same connection: with Kafka's 500 ms it would hold its slot that long,
# doing nothing.
_MICRO_BATCH_READER: Final = {"kafka.fetch.max.wait.ms": "20"}


def options(bootstrap: str) -> dict[str, str]:
    """What all reads have in common."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        # A reader must not recreate a deleted topic.
        "kafka.allow.auto.create.topics": "false",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }


def stream_of(
    session: SparkSession,
    bootstrap: str,
    topic: TopicIdentity,
    starting_offsets: str,
    *,
    largest_batch: int | None = None,
    smallest_batch: int = 0,
    longest_wait_ms: int = 0,
    is_real_time: bool = False,
) -> DataFrame:
    """`largest_batch` is in records; None has all that there are. A batch waits for `smallest_batch` records,
    but no longer than that; the first one does not wait.
    """
    reader = session.readStream.format("kafka").option("subscribe", topic.name)
    reader = reader.options(**options(bootstrap)).option("startingOffsets", starting_offsets)
    if not is_real_time:
        reader = reader.options(**_MICRO_BATCH_READER)
        if largest_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(largest_batch))
        if smallest_batch:
            reader = reader.option("minOffsetsPerTrigger", str(smallest_batch))
            reader = reader.option("maxTriggerDelay", f"{longest_wait_ms}ms")
    return reader.load()


def all_records(session: SparkSession, bootstrap: str, topic: TopicIdentity) -> DataFrame:
    """Everything that the topic has now."""
    reader = session.read.format("kafka").option("subscribe", topic.name).options(**options(bootstrap))
    reader = reader.options(**_MICRO_BATCH_READER)
    return reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()


def records_in(
    session: SparkSession, bootstrap: str, topic: TopicIdentity, limits: Mapping[int, tuple[int, int]]
) -> DataFrame:
    """All records within the limits: the first offset and the end of at least one partition."""
    first = {str(number): each[0] for number, each in limits.items()}
    end = {str(number): each[1] for number, each in limits.items()}
    return (
        session.read.format("kafka")
        .options(**options(bootstrap))
        .option("assign", json.dumps({topic.name: sorted(limits)}))
        .option("startingOffsets", json.dumps({topic.name: first}))
        .option("endingOffsets", json.dumps({topic.name: end}))
        .load()
    )


def newest_records(session: SparkSession, cluster: Cluster, topic: TopicIdentity, most: int) -> DataFrame:
    """At most so many records of each partition that has any; there is at least one that has."""
    stretches = cluster.stretches([topic])[topic.name]
    newest = [
        (number, max(first, end - most), end - 1) for number, (first, end) in stretches.items() if first < end
    ]
    return reduce(
        DataFrame.union, (_range(session, cluster.bootstrap, topic, [stretch]) for stretch in newest)
    )


def ranges_of(
    session: SparkSession, bootstrap: str, topic: TopicIdentity, stretches: Sequence[Stretch]
) -> DataFrame:
    """All records of at least one stretch, and those that lie between stretches near each other: one range of
    offsets for each group, since a condition for each record would be too large a plan. `as_written` tells
    which of them were meant.
    """
    return reduce(DataFrame.union, (_range(session, bootstrap, topic, group) for group in groups(stretches)))


def _range(
    session: SparkSession, bootstrap: str, topic: TopicIdentity, group: Sequence[Stretch]
) -> DataFrame:
    partition, first, _ = group[0]
    return records_in(session, bootstrap, topic, {partition: (first, group[-1][2] + 1)})


def as_written(stretches: Sequence[Stretch]) -> Mapping[int, Written]:
    """The records of the stretches, for a filter by bitmaps (`written_filter.py`)."""
    collected: dict[int, Collected] = {}
    for partition, offset in places_of(stretches):
        collected.setdefault(partition, Collected()).add(offset, 0)
    return {partition: each.written() for partition, each in collected.items()}
