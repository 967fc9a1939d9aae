"""One run of a query into the lake: the stream of its topic from where the table goes on, and the writer that
takes its batches.

Never starts a second writer of a table: the lock of `writer_lock.py` comes first. Each run has a checkpoint
of its own, which Spark needs while it runs and nobody afterwards.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.layout import TableLayout
from headrace.lake.new_partitions import NewPartitions, partitions_in
from headrace.lake.positions import Offsets
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import Aggregate, Read, reads_of
from headrace.pipeline.spark.inputs import TopicInputs
from headrace.pipeline.spark.lake_dead_letters import LakeDeadLetters, already_sent
from headrace.pipeline.spark.lake_partitions import PartitionPolicy
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_start import AskedTopic, gaps_before, start_table, starting_offsets
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.writer_lock import hold_writer_lock

logger = logging.getLogger(__name__)

# Called after each batch of the lake, with its number and its result.
BatchListener = Callable[[int, WrittenBatch], None]


def start_into_lake(
    query: PlannedQuery, inputs: TopicInputs, table: TableLayout, *, on_batch: BatchListener
) -> tuple[StreamingQuery, AbstractContextManager[object]]:
    """The running query, and the lock it holds while it writes a batch."""
    hold_writer_lock(inputs.session, table.path.parent / f".{table.name}.writer")
    try:
        writer, offsets = _prepared(query, inputs, table)
        checkpoint = _new_checkpoint(query.folder)
    except OSError as error:
        raise HeadraceError("storage_failed", f"Table {table.name} cannot be opened: {error}.") from error
    # Held while a batch is written, so that stopping the query never interrupts a commit.
    in_batch = threading.Lock()
    failures: list[HeadraceError] = []

    def write(batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        with in_batch:
            try:
                written = writer.write(batch)
            except HeadraceError as error:
                failures.append(error)
                raise
        logger.info(
            "lake batch %d: %d rows, %d repeated, %d dead letters in %d ms",
            batch_id,
            written.rows,
            written.repeated,
            written.dead_letters,
            (time.monotonic() - began) * 1000,
        )
        on_batch(batch_id, written)

    topic = _topic_of(query, inputs)
    rows = lake_rows(built(query.plan.root, _From(inputs, offsets)), table, topic=topic)
    handle = (
        rows.writeStream.queryName(query.name)
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{query.settings.lake_interval_ms} milliseconds")
        .start()
    )
    return cast(StreamingQuery, _WithFailures(handle, failures)), in_batch


def partition_policy(table: TableLayout, settings: Settings) -> PartitionPolicy:
    known = partitions_in(table.path, table.partition_columns)
    partitions = NewPartitions(known, per_hour=settings.lake_new_partitions_per_hour)
    return PartitionPolicy(table.partition_columns, partitions)


class _WithFailures:
    """A Spark query whose failure is told in our words, if it was ours."""

    def __init__(self, handle: StreamingQuery, failures: list[HeadraceError]) -> None:
        self._handle = handle
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def exception(self) -> Exception | None:
        failed = self._handle.exception()
        return self._failures[0] if failed is not None and self._failures else failed


class _From:
    """The inputs of the plan, with its stream from given offsets on."""

    def __init__(self, inputs: TopicInputs, offsets: str) -> None:
        self._inputs = inputs
        self._offsets = offsets

    def changes(self, read: Read) -> Rows:
        topic = self._inputs.topics[read.source.topic]
        return self._inputs.rows(read, self._inputs.records(topic, self._offsets))

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        return self._inputs.standing(read, is_global=is_global)

    def table_groups(self, step: Aggregate) -> Rows:
        return self._inputs.table_groups(step)


def _prepared(query: PlannedQuery, inputs: TopicInputs, table: TableLayout) -> tuple[DeltaLakeWriter, str]:
    """The writer, and the offsets from which its stream must begin."""
    topic = _topic_of(query, inputs)
    letters = inputs.topics[query.dead_letter_topics[topic.name]]
    settings = query.settings
    cluster = Cluster(settings.bootstrap)
    try:
        asked = AskedTopic(cluster, topic)
        start = start_table(
            inputs.session,
            table,
            topic=asked,
            dead_letters=AskedTopic(cluster, letters),
            data_dir=settings.data_dir,
        )
        sent = already_sent(cluster, letters, query=query.name, topic=topic, progress=start.progress)
    finally:
        cluster.close()

    def letter_ends() -> Offsets:
        log = Cluster(settings.bootstrap)
        try:
            return log.end_offsets(letters.name)
        finally:
            log.close()

    writer = DeltaLakeWriter(
        start.files,
        table,
        topic=topic,
        version=start.version,
        progress=start.progress,
        dead_letters=LakeDeadLetters(
            settings,
            query=query.name,
            topic=topic,
            dead_letter_topic=letters.name,
            sent=sent,
            ends=letter_ends,
        ),
        policy=partition_policy(table, settings),
    )
    for gap in gaps_before(topic, asked.starts, start.progress, now=time.time_ns() // 1_000_000):
        logger.warning("table %s has a gap: %s", table.name, gap)
    return writer, starting_offsets(topic, asked.starts, start.progress)


def _topic_of(query: PlannedQuery, inputs: TopicInputs) -> TopicIdentity:
    (read,) = reads_of(query.plan.root)
    return inputs.topics[read.source.topic]


def _new_checkpoint(folder: Path) -> Path:
    """An empty folder. Those of earlier runs are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for former in folder.iterdir():
        if former.is_dir():
            shutil.rmtree(former, ignore_errors=True)
    return folder / f"run-{uuid.uuid4().hex}"
