"""The two kinds of query that Spark runs here, each made from a plan and the identities of its topics.

A query's checkpoint belongs to the incarnations of its topics: their ids are part of its folder's name. So a
topic that was deleted and made again is read from its beginning, and a derived topic that was is filled
again; the marks of the lake drop what it already holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.core.settings import Settings
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.incarnations import TakenRange, taken_under_former_ids
from headrace.pipeline.plan import LakeFlow, TranscodeFlow
from headrace.pipeline.registry_client import RegistryClient
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.transcode import transcoded
from headrace.pipeline.spark.writer_lock import hold_writer_lock
from headrace.pipeline.topics import TopicDirectory, TopicIdentity, largest_message

logger = logging.getLogger(__name__)

# Slots that stay free for the lake's micro-batches when a real-time query holds the others for good.
_SLOTS_FOR_BATCHES = 2
_LARGEST_BATCH = 200_000

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
    """A started query: Spark's handle, the mode it runs in, and a way to stop between batches."""

    def __init__(
        self, handle: StreamingQuery, mode: str, between_batches: AbstractContextManager[object]
    ) -> None:
        self.handle = handle
        self.mode = mode
        self._between_batches = between_batches

    def stop(self) -> None:
        with self._between_batches:
            self.handle.stop()


class TranscodeQuery:
    """JSON to Avro: in real-time mode, or in micro-batches where the settings say so or the slots do not
    suffice.
    """

    def __init__(
        self, spark: SparkSession, flow: TranscodeFlow, settings: Settings, registry: RegistryClient
    ) -> None:
        self.name = flow.query
        self.source_topics = (flow.source_topic,)
        self.written_topics = (flow.sink_topic, flow.dead_letter_topic)
        self._spark = spark
        self._flow = flow
        self._settings = settings
        self._registry = registry

    def make_topics(self, directory: TopicDirectory) -> None:
        _make_topics(directory, self.written_topics, self._settings)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        flow = self._flow
        source, sink = topics[flow.source_topic], topics[flow.sink_topic]
        schema_id = self._registry.register(flow.subject, flow.avro_schema)
        records = _kafka_records(self._spark, source, self._settings).load()
        for taken in self._taken(topics):
            in_range = (F.col("partition") == taken.partition) & F.col("offset").between(
                taken.first, taken.last
            )
            records = records.filter(~in_range)
        writer = (
            transcoded(records, flow, source=source, sink=sink, schema_id=schema_id)
            .writeStream.queryName(flow.query)
            .format("kafka")
            .outputMode("update")
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("kafka.max.request.size", largest_message(self._settings))
            .option("checkpointLocation", str(_checkpoint(self._settings, flow.query, source, sink)))
        )
        mode = self._mode(source)
        if mode == "real-time":
            # The stubs of PySpark 4.2 do not know this trigger yet; its code does.
            writer = writer.trigger(realTime=f"{self._settings.real_time_batch_seconds} seconds")  # type: ignore[call-overload]
        else:
            writer = writer.trigger(processingTime="0 seconds")
        # A real-time batch that is cut short is repeated; there is no moment between batches to wait for.
        return RunningQuery(writer.start(), mode, nullcontext())

    def _taken(self, topics: Mapping[str, TopicIdentity]) -> tuple[TakenRange, ...]:
        """What was passed on under a former id of the source; found out once per incarnation, then
        remembered.
        """
        flow = self._flow
        source, sink = topics[flow.source_topic], topics[flow.sink_topic]
        memory = _checkpoint(self._settings, flow.query, source, sink).with_suffix(".taken.json")
        if memory.exists():
            return msgspec.json.decode(memory.read_bytes(), type=tuple[TakenRange, ...])
        taken = taken_under_former_ids(
            self._settings.bootstrap,
            query=flow.query,
            source=source,
            derived=[topics[t] for t in self.written_topics],
        )
        if taken:
            logger.warning(
                "Query %s leaves out what it took under a former id of its source: %s", self.name, taken
            )
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_bytes(msgspec.json.encode(taken))
        return taken

    def _mode(self, source: TopicIdentity) -> str:
        slots = self._settings.pipeline_slots - _SLOTS_FOR_BATCHES
        if self._settings.pipeline_mode == "real-time" and source.partitions > slots:
            logger.warning(
                "Query %s runs in micro-batches: real-time mode holds a slot for each of %d partitions of "
                "%s, and %d are to be had. Raise pipeline_slots to at least %d.",
                self.name,
                source.partitions,
                source.name,
                slots,
                source.partitions + _SLOTS_FOR_BATCHES,
            )
            return "micro-batch"
        return self._settings.pipeline_mode


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
        return RunningQuery(query, "micro-batch", in_batch)

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
