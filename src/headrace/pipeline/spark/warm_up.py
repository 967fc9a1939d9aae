"""Warms up a cold JVM before the first event arrives: runs the real code on made-up records and a scratch
table.

A cold JVM takes ten seconds and more for a first batch. A platform without events has that time; one with
waiting events does not, so the caller warms up only if there is nothing to do. Never touches a topic or a
real table.
"""

from __future__ import annotations

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
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.layout import TableLayout
from headrace.lake.location import Location
from headrace.lake.positions import Progress, Reached
from headrace.lake.sent_letters import SentLetters
from headrace.lake.sink import Converter, ConverterKind, ErrorPolicy, LakeSink, LocalStorage, Partitioning
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan, reads_of
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.evolving import with_columns
from headrace.pipeline.spark.lake.rows import with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.table_run import partition_policy
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
from headrace.pipeline.spark.stateless import projected, value_schema
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource

logger = logging.getLogger(__name__)

_ROUNDS: Final = 8
_RECORDS: Final = 400
_SCHEMA_ID: Final = 1
_NAME: Final = "warm-up"
# A date, so that it suits every column of the table.
_VALUE: Final = "2026-03-14"
_KINDS: Final = 12
_STATEMENTS: Final = """
CREATE STREAM warm_up (k VARCHAR KEY, kind VARCHAR, a VARCHAR, b VARCHAR, c VARCHAR, moment VARCHAR)
  WITH (KAFKA_TOPIC = 'warm-up', VALUE_FORMAT = 'JSON');
CREATE STREAM warmed WITH (VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(moment, 0, 10) AS on_day FROM warm_up;
"""


def warm_up(spark: SparkSession, *, settings: Settings, stopping: Callable[[], bool]) -> None:
    """Send batches of made-up events through a query to Avro, and from there into a table."""
    began = time.monotonic()
    _start_python(spark)
    path = settings.data_dir / "pipeline" / _NAME
    shutil.rmtree(path, ignore_errors=True)
    events = _plan()
    (read,) = reads_of(events.root)
    source = TopicIdentity(name=read.source.topic, topic_id=_NAME, partitions=1)
    sink = TopicIdentity(name=events.sink.topic, topic_id=_NAME, partitions=1)
    schemas = WriterSchemas(by_id={_SCHEMA_ID: value_schema(events)})
    columns = columns_of_schemas(schemas, table=None, rules=NEW_TABLE)
    shape = TableShape(_sink(settings), sink.name, AvroValues(columns, schemas=schemas))
    table = with_columns(
        TableLayout(
            name=_NAME,
            location=Location.local(path),
            value_columns=(),
            partition_columns=shape.partition_columns,
        ),
        columns,
    )
    writer = DeltaLakeWriter(
        DeltaFiles(spark, table),
        table,
        topic=sink,
        version=DeltaLog(table.location).seen(0),
        progress=Progress(positions=Reached(topic_id=sink.topic_id)),
        # There are no dead letters: all records are good.
        dead_letters=LakeDeadLetters(
            settings,
            query=_NAME,
            topic=sink,
            dead_letter_topic=_NAME,
            client_id=_NAME,
            sent=SentLetters(places=frozenset(), ends=Reached()),
            ends=dict,
        ),
        policy=partition_policy(table, settings),
    )
    names = [column.name for column in read.source.value]
    for number in range(_ROUNDS):
        if stopping():
            break
        avro = projected(
            _events(spark, names, first_offset=number * _RECORDS),
            events,
            query=_NAME,
            source=source,
            sink=sink,
            schema_id=_SCHEMA_ID,
            dead_letter_topic=_NAME,
        )
        writer.write(with_coordinates(shape.rows(_as_read(avro), columns), table, topic=sink))
    shutil.rmtree(path, ignore_errors=True)
    logger.info("warmed up in %.1f s", time.monotonic() - began)


def _start_python(spark: SparkSession) -> None:
    """Start the process that tasks in Python are forked from: it imports for more than a second."""
    spark.sparkContext.parallelize([0], 1).map(lambda number: number).collect()


def _plan() -> QueryPlan:
    source, query = parse(_STATEMENTS)
    assert isinstance(source.statement, CreateSource)
    assert isinstance(query.statement, CreateAs)
    events = plan_source(source.statement, Catalogue(), text=source.text)
    return plan_query(query.statement, Catalogue(sources={events.name: events}), text=query.text)


def _sink(settings: Settings) -> LakeSink:
    return LakeSink(
        name=_NAME,
        topics=(_NAME,),
        topics_regex="",
        storage=LocalStorage(root=settings.data_dir / "pipeline"),
        topics_dir="",
        key=Converter(kind=ConverterKind.STRING),
        value=Converter(kind=ConverterKind.AVRO),
        partitioning=Partitioning(fields=("KIND", "ON_DAY"), date_fields=("ON_DAY",)),
        flush_size=10_000,
        commit_within_ms=None,
        errors=ErrorPolicy(tolerates_all=True),
    )


def _events(spark: SparkSession, columns: list[str], *, first_offset: int) -> DataFrame:
    """JSON records, as from the Kafka source."""
    template = json.dumps(dict.fromkeys(columns, _VALUE))
    # A dozen partitions of the table, as in a busy batch.
    value = F.regexp_replace(
        F.lit(template),
        f'"KIND": "{_VALUE}"',
        F.concat(F.lit('"KIND": "'), F.col("id") % _KINDS, F.lit('"')),
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
