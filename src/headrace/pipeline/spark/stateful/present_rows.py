"""Drops the rows of a batch that the sinks already hold.

`present` are the records that the query wrote before, from some offset of the sinks on; `batch` are Kafka
records (topic, key, value, headers, partition) with the origin of their row. What identifies a row is in
`row_identity.py`; a dead letter, which goes to another topic than the sink, is identified by its content.
Runs on the first batches after a restart only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import Partition
from headrace.lake.coordinates import SOURCE_HEADER
from headrace.pipeline.spark.stateful.row_identity import RowIdentity
from headrace.pipeline.spark.steps.read import last_header

ORIGIN: Final = "origin"
# `<query>/<checkpoint id>/batch/<batch number>/<origin>`
_BATCH_PATTERN: Final = r"^([^/]+)/([^/]+)/batch/([0-9]+)/([^/]+)$"
_NUMBER: Final = "number"
# The value of a dead letter; null for other rows.
_LETTER: Final = "letter"


def present_rows(
    session: SparkSession,
    bootstrap: str,
    *,
    query: str,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> DataFrame:
    """What `query` wrote in batches, between these offsets: topic, key, value, checkpoint, batch, origin, and
    the place of the record.
    """
    topics = sorted({topic for topic, _ in starts})
    records = (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.allow.auto.create.topics", "false")
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", _offsets(starts))
        .option("endingOffsets", _offsets(ends))
        .option("includeHeaders", "true")
        .load()
    )
    parts = F.split("source", "/")
    return (
        records.withColumn("source", last_header(SOURCE_HEADER).cast("string"))
        .filter(F.regexp_like("source", F.lit(_BATCH_PATTERN)) & (parts[0] == F.lit(query)))
        .select(
            "topic",
            "key",
            "value",
            parts[1].alias("checkpoint"),
            parts[3].cast("bigint").alias("batch"),
            parts[4].alias(ORIGIN),
            F.col("partition").alias("at_partition"),
            F.col("offset").alias("at_offset"),
        )
    )


def without_repeated(batch: DataFrame, present: DataFrame, identity: RowIdentity, *, sink: str) -> DataFrame:
    """The rows of a repeated batch that are not there yet. `present` are those of the same batch."""
    if identity is RowIdentity.CONTENT:
        return _minus(batch, present, "topic", "key", "value")
    origin = (ORIGIN,) if identity is RowIdentity.ORIGIN else ()
    letter = F.when(F.col("topic") != F.lit(sink), F.col("value"))
    new = _minus(
        batch.withColumn(_LETTER, letter),
        present.withColumn(_LETTER, letter),
        *("topic", "key", _LETTER, *origin),
    )
    return new.drop(_LETTER)


def without_derived_before(
    batch: DataFrame, present: DataFrame, identity: RowIdentity, *, sink: str
) -> DataFrame:
    """The rows of a batch that former checkpoints have not written. `present` is all that they wrote."""
    if identity is not RowIdentity.KEY:
        return without_repeated(batch, present, identity, sink=sink)
    # A key stays in one partition, so its newest value has the highest offset.
    of_sink = present.filter(F.col("topic") == F.lit(sink))
    newest = of_sink.groupBy("topic", "key").agg(F.max_by(F.struct("value"), "at_offset").alias("newest"))
    letters = present.filter(F.col("topic") != F.lit(sink)).select("topic", "key", "value")
    there = newest.select("topic", "key", "newest.value").unionByName(letters)
    return _minus(batch, there, "topic", "key", "value")


def _minus(batch: DataFrame, present: DataFrame, *names: str) -> DataFrame:
    """Equal rows are interchangeable, so only their number counts."""
    theirs = _numbered(present, names).select(
        *(F.col(name).alias(f"present_{name}") for name in (*names, _NUMBER))
    )
    same: Column = F.lit(True)
    for name in (*names, _NUMBER):
        same = same & F.col(name).eqNullSafe(F.col(f"present_{name}"))
    return _numbered(batch, names).join(theirs, same, "left_anti").drop(_NUMBER)


def _numbered(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    equal = Window.partitionBy(*names).orderBy(F.lit(0))
    return frame.withColumn(_NUMBER, F.row_number().over(equal))


def _offsets(places: Mapping[Partition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in places.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)
