"""One run of a query into the lake: the stream of its topic from where the table goes on, and the writer that
takes its batches.

Never starts a second writer of a table: the lock of `writer_lock.py` comes first. Each run has a checkpoint
of its own, which Spark needs while it runs and nobody afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.layout import TableLayout
from headrace.lake.new_partitions import NewPartitions, partitions_in
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.plan import reads_of
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.inputs import ResumedInputs, TopicInputs
from headrace.pipeline.spark.lake_dead_letters import LakeDeadLetters, LetterTopic
from headrace.pipeline.spark.lake_partitions import PartitionPolicy
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_start import AskedTopic, gaps_before, start_table, starting_offsets
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.short_errors import shortened_errors
from headrace.pipeline.spark.stateless_run import RunContext, kept_gaps, new_checkpoint, refuse_gaps
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.writer_lock import hold_writer_lock

logger = logging.getLogger(__name__)

# A stop waits so long for the commit of a batch; what it interrupts then is read again.
_PATIENCE_SECONDS: Final = 30.0

# Called after each batch of the lake, with its number and its result.
BatchListener = Callable[[int, WrittenBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The writer, the offsets from which its stream must begin, and what can never be read."""

    writer: DeltaLakeWriter
    offsets: str
    gaps: tuple[Gap, ...]
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedLake:
    """A stop closes `gate` first. `began` is where it began to read its topic."""

    handle: StreamingQuery
    gate: BatchGate
    gaps: tuple[Gap, ...]
    began: Offsets


def start_into_lake(
    query: PlannedQuery,
    inputs: TopicInputs,
    table: TableLayout,
    *,
    context: RunContext,
    client_id: str,
    on_batch: BatchListener,
    turns: Turns,
) -> StartedLake:
    """Start the query. `client_id` is for the producers of its dead letters."""
    hold_writer_lock(inputs.session, table.path.parent / f".{table.name}.writer")
    try:
        prepared = prepare(query, inputs, table, context=context, client_id=client_id)
    except OSError as error:
        raise HeadraceError("storage_failed", f"Table {table.name} cannot be opened: {error}.") from error
    gaps = kept_gaps(context, prepared.gaps)
    gate = BatchGate(query.name, patience=_PATIENCE_SECONDS)
    failures: list[HeadraceError] = []

    def write(batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        with gate.batch(batch_id), turns.ahead_of_all(), shortened_errors():
            try:
                written = prepared.writer.write(batch)
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
    rows = lake_rows(built(query.plan.root, ResumedInputs(inputs, prepared.offsets)), table, topic=topic)
    handle = (
        rows.writeStream.queryName(query.name)
        .foreachBatch(write)
        .option("checkpointLocation", str(new_checkpoint(query.folder, "")))
        .trigger(processingTime=f"{query.settings.lake_interval_ms} milliseconds")
        .start()
    )
    told = cast(StreamingQuery, _WithFailures(handle, failures))
    began = {topic.topic_id: prepared.positions}
    return StartedLake(handle=told, gate=gate, gaps=gaps, began=began)


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


def prepare(
    query: PlannedQuery,
    inputs: TopicInputs,
    table: TableLayout,
    *,
    context: RunContext,
    client_id: str,
    looks_up_everything: bool = False,
) -> Prepared:
    """`looks_up_everything`: also rows that the table's commits know to be new; for repairs."""
    topic = _topic_of(query, inputs)
    letters = inputs.topics[query.dead_letter_topics[topic.name]]
    asked = AskedTopic(context.cluster, topic)
    start = start_table(
        inputs.session,
        table,
        topic=asked,
        dead_letters=AskedTopic(context.cluster, letters),
        data_dir=query.settings.data_dir,
    )
    gaps = gaps_before(topic, asked.starts, start.progress, now=time.time_ns() // 1_000_000)
    refuse_gaps(context, gaps)
    letter_topic = LetterTopic(
        context.cluster,
        letters,
        query=query.name,
        topic=topic,
        progress=start.progress,
        settle_seconds=context.settle_seconds,
    )
    writer = DeltaLakeWriter(
        start.files,
        table,
        topic=topic,
        version=start.version,
        progress=start.progress,
        dead_letters=LakeDeadLetters(
            query.settings,
            query=query.name,
            topic=topic,
            dead_letter_topic=letters.name,
            client_id=client_id,
            sent=letter_topic.sent,
            ends=letter_topic.ends,
        ),
        policy=partition_policy(table, query.settings),
        looks_up_everything=looks_up_everything,
    )
    return Prepared(
        writer=writer,
        offsets=starting_offsets(topic, asked.starts, start.progress),
        gaps=gaps,
        positions=start.progress.positions.offsets,
    )


def _topic_of(query: PlannedQuery, inputs: TopicInputs) -> TopicIdentity:
    (read,) = reads_of(query.plan.root)
    return inputs.topics[read.source.topic]
