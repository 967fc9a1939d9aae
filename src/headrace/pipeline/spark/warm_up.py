"""Warms up a cold JVM before the first event arrives: runs the real code on made-up records and a scratch
table.

A cold JVM takes ten seconds and more for a first batch. A platform without events has that time; one with
waiting events does not, so the caller warms up only if there is nothing to do. Never touches a topic or a
real table.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Progress, Reached
from headrace.lake.sent_letters import SentLetters
from headrace.pipeline.plan import QueryPlan, reads_of
from headrace.pipeline.spark.delta_files import DeltaFiles
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.lake_dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake_query import partition_policy
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.stateless import GivenRecords, projected, value_schema
from headrace.pipeline.spark.steps.building import built

logger = logging.getLogger(__name__)

_ROUNDS: Final = 8
_RECORDS: Final = 400
_SCHEMA_ID: Final = 1
# A date, so that it suits every column of the table.
_VALUE: Final = "2026-03-14"


def warm_up(
    spark: SparkSession,
    events: QueryPlan,
    lake: QueryPlan,
    *,
    settings: Settings,
    stopping: Callable[[], bool],
) -> None:
    """Send batches of made-up events through the query to Avro and the query into the lake."""
    began = time.monotonic()
    path = settings.data_dir / "pipeline" / "warm-up"
    shutil.rmtree(path, ignore_errors=True)
    assert lake.lake_table is not None
    table = dataclasses.replace(lake.lake_table, path=path)
    (read,) = reads_of(events.root)
    source = TopicIdentity(name=read.source.topic, topic_id="warm-up", partitions=1)
    sink = TopicIdentity(name=events.sink.topic, topic_id="warm-up", partitions=1)
    columns = [column.name for column in read.source.value]
    schemas = WriterSchemas(by_id={_SCHEMA_ID: value_schema(events)})
    # There are no dead letters: all records are good.
    nowhere = "warm-up"
    writer = DeltaLakeWriter(
        DeltaFiles(spark, table),
        table,
        topic=sink,
        version=DeltaLog(path).seen(0),
        progress=Progress(positions=Reached(topic_id=sink.topic_id)),
        dead_letters=LakeDeadLetters(
            settings,
            query="warm-up",
            topic=sink,
            dead_letter_topic=nowhere,
            client_id=nowhere,
            sent=SentLetters(places=frozenset(), ends=Reached()),
            ends=dict,
        ),
        policy=partition_policy(table, settings),
    )
    for number in range(_ROUNDS):
        if stopping():
            break
        avro = projected(
            _events(spark, columns, first_offset=number * _RECORDS),
            events,
            query="warm-up",
            source=source,
            sink=sink,
            schema_id=_SCHEMA_ID,
            dead_letter_topic=nowhere,
        )
        rows = built(lake.root, GivenRecords(_as_read(avro), "warm-up", sink, schemas))
        writer.write(lake_rows(rows, table, topic=sink))
    shutil.rmtree(path, ignore_errors=True)
    logger.info("warmed up in %.1f s", time.monotonic() - began)


def _events(spark: SparkSession, columns: list[str], *, first_offset: int) -> DataFrame:
    """JSON records, as from the Kafka source."""
    template = json.dumps(dict.fromkeys(columns, _VALUE))
    # A dozen partitions of the table, as in a busy batch.
    value = F.regexp_replace(
        F.lit(template),
        f'"EVENT_TYPE": "{_VALUE}"',
        F.concat(F.lit('"EVENT_TYPE": "'), F.col("id") % 12, F.lit('"')),
    )
    return spark.range(first_offset, first_offset + _RECORDS, numPartitions=1).select(
        F.col("id").cast("string").cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.current_timestamp().alias("timestamp"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )


def _as_read(records: DataFrame) -> DataFrame:
    """Records for the Kafka sink, as the Kafka source would return them."""
    return records.select(
        "key",
        "value",
        "headers",
        F.lit(0).alias("partition"),
        F.monotonically_increasing_id().alias("offset"),
        F.current_timestamp().alias("timestamp"),
    )
