"""One run of a topic into a table: the stream of the topic from where the table goes on, and the writer that
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

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.layout import TableLayout
from headrace.lake.new_partitions import NewPartitions, partitions_in
from headrace.lake.positions import Progress
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.asked_topic import AskedTopic
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.kafka_source import stream_of
from headrace.pipeline.spark.lake.column_batches import BatchStretches, ColumnBatches
from headrace.pipeline.spark.lake.data_files import DataFiles
from headrace.pipeline.spark.lake.dead_letters import LakeDeadLetters, LetterTopic
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.new_folders import PartitionPolicy
from headrace.pipeline.spark.lake.plain_reading import PlainReading
from headrace.pipeline.spark.lake.table_start import gaps_before, start_table, starting_offsets
from headrace.pipeline.spark.lake.work import TableWork
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
from headrace.pipeline.spark.short_errors import shortened_errors
from headrace.pipeline.spark.stateless_run import kept_gaps, new_checkpoint, refuse_gaps
from headrace.pipeline.spark.turns import Turns

logger = logging.getLogger(__name__)

# A stop waits so long for the commit of a batch; what it interrupts then is read again.
_PATIENCE_SECONDS: Final = 30.0
# In records. A batch has costs of its own, planning and syncing, of about half a second.
_LARGEST_BATCH: Final = 1_000_000

# Called after each batch of the lake, with its number and its result.
BatchListener = Callable[[int, WrittenBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The writer, what makes its rows of records, the offsets from which its stream must begin, and what can
    never be read.
    """

    writer: DeltaLakeWriter
    rows: Callable[[DataFrame], DataFrame]
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


def start_run(work: TableWork, *, on_batch: BatchListener, turns: Turns) -> StartedLake:
    """Start the query. The writer's lock of the table is held."""
    try:
        prepared = prepare(work)
    except OSError as error:
        raise HeadraceError(
            "storage_failed", f"Table {work.table.name} cannot be opened: {error}."
        ) from error
    gaps = kept_gaps(work.context, prepared.gaps)
    gate = BatchGate(work.query, patience=_PATIENCE_SECONDS)
    failures: list[HeadraceError] = []

    checkpoint = new_checkpoint(work.folder, "")
    stretches = BatchStretches(checkpoint, topic=work.topic.name, starting_offsets=prepared.offsets)

    def write(batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        of_batch = stretches.of(batch_id)
        with gate.batch(batch_id), turns.ahead_of_all(), shortened_errors():
            try:
                written = prepared.writer.write(batch, of_batch)
            except HeadraceError as error:
                failures.append(error)
                raise
            except OSError as error:
                reason = f"Table {work.table.name} cannot be written: {error}."
                failures.append(HeadraceError("storage_failed", reason))
                raise failures[-1] from error
        logger.info(
            "lake batch %d of %s: %d rows, %d repeated, %d dead letters in %d ms, in %s",
            batch_id,
            work.query,
            written.rows,
            written.repeated,
            written.dead_letters,
            (time.monotonic() - began) * 1000,
            "columns" if written.in_columns else "rows",
        )
        on_batch(batch_id, written)

    records = stream_of(
        work.session,
        work.settings.bootstrap,
        work.topic,
        prepared.offsets,
        largest_batch=_LARGEST_BATCH,
        smallest_batch=min(work.smallest_batch, _LARGEST_BATCH),
        longest_wait_ms=work.longest_wait_ms,
    )
    handle = (
        prepared.rows(records)
        .writeStream.queryName(work.query)
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{work.interval_ms} milliseconds")
        .start()
    )
    told = cast(StreamingQuery, _WithFailures(handle, failures))
    began = {work.topic.topic_id: prepared.positions}
    return StartedLake(handle=told, gate=gate, gaps=gaps, began=began)


def partition_policy(table: TableLayout, settings: Settings) -> PartitionPolicy:
    known = partitions_in(table.location, table.partition_columns)
    partitions = NewPartitions(known, per_hour=settings.lake_new_partitions_per_hour)
    return PartitionPolicy(table.partition_columns, partitions)


def _ends(work: TableWork) -> dict[int, int]:
    """Behind the last committed record of each partition."""
    return {place[1]: end for place, end in work.context.cluster.stable([work.topic]).items()}


def _waiting(work: TableWork, progress: Progress) -> int:
    """About how many records there are to read; offsets can have holes."""
    ends = work.context.cluster.latest([work.topic])
    positions = progress.positions.offsets
    return sum(end - positions.get(place[1], 0) for place, end in ends.items())


def _in_columns(work: TableWork, files: DataFiles, policy: PartitionPolicy) -> ColumnBatches | None:
    """None if the table is written in rows."""
    if work.columns is None or work.measures or not (isinstance(files, DeltaFiles) and files.takes_any_rows):
        return None
    return ColumnBatches(work.session, work.columns, policy)


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


def prepare(work: TableWork, *, looks_up_everything: bool = False) -> Prepared:
    """`looks_up_everything`: also rows that the table's commits know to be new; for repairs."""
    topic, table, context = work.topic, work.table, work.context
    asked = AskedTopic(context.cluster, topic)
    start = start_table(
        work.session,
        table,
        topic=asked,
        dead_letters=AskedTopic(context.cluster, work.letters),
        data_dir=work.settings.data_dir,
        plain=work.plain,
        first=(lambda: _ends(work)) if work.starts_at_latest else None,
    )
    reading = PlainReading(work, start.progress) if work.plain is not None else work
    gaps = gaps_before(topic, asked.starts, start.progress, now=time.time_ns() // 1_000_000)
    refuse_gaps(context, gaps)
    letter_topic = LetterTopic(
        context.cluster,
        work.letters,
        query=work.query,
        topic=topic,
        progress=start.progress,
        settle_seconds=context.settle_seconds,
    )
    policy = partition_policy(table, work.settings)
    writer = DeltaLakeWriter(
        start.files,
        table,
        topic=topic,
        version=start.version,
        progress=start.progress.reading(work.reads),
        dead_letters=LakeDeadLetters(
            work.settings,
            query=work.query,
            topic=topic,
            dead_letter_topic=work.letters.name,
            client_id=work.client_id,
            sent=letter_topic.sent,
            ends=letter_topic.ends,
            connector=work.connector,
        ),
        policy=policy,
        tolerates_errors=work.tolerates_errors,
        measures=reading.measures,
        check=reading.check,
        looks_up_everything=looks_up_everything,
        waiting=_waiting(work, start.progress),
        in_columns=_in_columns(work, start.files, policy),
    )
    if start.begins_late:
        # A crash before the first rows must not move the beginning.
        writer.commit_positions()
    return Prepared(
        writer=writer,
        rows=reading.rows,
        offsets=starting_offsets(topic, asked.starts, start.progress),
        gaps=gaps,
        positions=start.progress.positions.offsets,
    )
