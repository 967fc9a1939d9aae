"""What a query is to its keeper, and the query that fills the lake.

A query's checkpoint belongs to the incarnations of its topics: their ids are part of its folder's name. So a
topic that was deleted and made again is read from its beginning, and a derived topic that was is filled
again; the marks of the lake drop what it already holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.client.topics import TopicDirectory, TopicIdentity, largest_message
from headrace.core.settings import Settings
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import LakeFlow
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.registry_client import RegistryClient
from headrace.pipeline.spark.writer_lock import hold_writer_lock

logger = logging.getLogger(__name__)

_LARGEST_BATCH = 200_000
# Spark's words where a query has had no batch yet.
_NO_PLAN = "No physical plan"

BatchListener = Callable[[int, WrittenBatch], None]


class Query(Protocol):
    """Something that can be started on Spark once its topics are there."""

    @property
    def name(self) -> str: ...

    @property
    def source_topics(self) -> tuple[str, ...]: ...

    @property
    def written_topics(self) -> tuple[str, ...]: ...

    def make_topics(self, directory: TopicDirectory) -> None:
        """Make the topics that it writes to, so that its lanes are fixed before its first record."""
        ...

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        """Start, with the topics as they are now."""
        ...


class RunningQuery:
    """A started query: Spark's handle, the mode it runs in and why, and a way to stop between batches."""

    def __init__(
        self,
        handle: StreamingQuery,
        mode: str,
        between_batches: AbstractContextManager[object],
        *,
        mode_reason: str = "",
    ) -> None:
        self.handle = handle
        self.mode = mode
        self.mode_reason = mode_reason
        # Why it should be started anew although it runs; nothing where it should not.
        self.outdated: Callable[[], str] = lambda: ""
        self._between_batches = between_batches

    def spark_plan(self) -> str:
        """How Spark runs its newest batch; nothing before the first."""
        # What `StreamingQuery.explain` prints; PySpark has no way to get it as text.
        text = str(self.handle._jsq.explainInternal(False)).strip()
        return "" if text.startswith(_NO_PLAN) else text

    def stop(self) -> None:
        with self._between_batches:
            self.handle.stop()


class LakeQuery:
    """Avro to the lake, in micro-batches."""

    def __init__(
        self,
        spark: SparkSession,
        flow: LakeFlow,
        settings: Settings,
        registry: RegistryClient,
        on_batch: BatchListener,
    ) -> None:
        self.name = flow.query
        self.source_topics = (flow.topic,)
        self.written_topics = (flow.dead_letter_topic,)
        self._spark = spark
        self._flow = flow
        self._settings = settings
        self._registry = registry
        self._on_batch = on_batch
        self._schemas: dict[int, str] = {}

    def make_topics(self, directory: TopicDirectory) -> None:
        _make_topics(directory, self.written_topics, self._settings)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        flow = self._flow
        topic = topics[flow.topic]
        hold_writer_lock(self._spark, flow.table.path.parent / f".{flow.table.name}.writer")
        lake_writer = DeltaLakeWriter(
            self._spark, flow, topic=topic, settings=self._settings, learn_schema=self._learn_schema
        )
        if not self._schemas:
            self._schemas = self._registry.schemas_of(flow.subject)

        # Held while a batch is written, so that stopping the query never cuts a commit short.
        in_batch = threading.Lock()

        def write(batch: DataFrame, batch_id: int) -> None:
            began = time.monotonic()
            with in_batch:
                written = lake_writer.write(batch)
            logger.info(
                "lake batch %d: %d rows, %d repeated, %d dead letters in %d ms",
                batch_id,
                written.rows,
                written.repeated,
                written.dead_letters,
                (time.monotonic() - began) * 1000,
            )
            self._on_batch(batch_id, written)

        records = (
            _kafka_records(self._spark, topic, self._settings)
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", str(_LARGEST_BATCH))
            .load()
        )
        query = (
            lake_rows(records, flow, topic=topic, schemas=self._schemas)
            .writeStream.queryName(flow.query)
            .foreachBatch(write)
            .option("checkpointLocation", str(_checkpoint(self._settings, flow.query, topic)))
            .trigger(processingTime=f"{self._settings.lake_interval_ms} milliseconds")
            .start()
        )
        return RunningQuery(query, "micro-batch", in_batch, mode_reason="a batch is one commit of the lake")

    def _learn_schema(self, schema_id: int) -> bool:
        """True if the registry has a schema of that id and it is new here."""
        schema = None if schema_id in self._schemas else self._registry.schema_by_id(schema_id)
        if schema is not None:
            self._schemas[schema_id] = schema
        return schema is not None


def _make_topics(directory: TopicDirectory, names: tuple[str, ...], settings: Settings) -> None:
    for name in names:
        config = {"max.message.bytes": largest_message(settings)}
        directory.ensure(name, partitions=settings.default_partitions, config=config)


def _kafka_records(spark: SparkSession, topic: TopicIdentity, settings: Settings) -> DataStreamReader:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        # A topic that was deleted is made again by whoever wants it, with its partitions, not by a reader.
        .option("kafka.allow.auto.create.topics", "false")
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        # Data that is gone before it was read stops the query with a clear error instead of passing unseen.
        .option("failOnDataLoss", "true")
    )


def _checkpoint(settings: Settings, query: str, *topics: TopicIdentity) -> Path:
    return (
        settings.data_dir / "pipeline" / "checkpoints" / query / "-".join(topic.topic_id for topic in topics)
    )
