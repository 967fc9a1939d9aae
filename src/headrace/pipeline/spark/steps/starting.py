"""One start of a query: from its plan and its topics as they are now to running queries of Spark's.

Owns where a query's files are (checkpoints, copies of tables, notes of what a start has found out): beside
each other in the query's folder, under names made of the ids of its topics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.topics import TopicIdentity, largest_message
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Encoding, Source
from headrace.pipeline.query_plan import Aggregate, QueryPlan, Read, StreamJoin, TableJoin, reads_of
from headrace.pipeline.rules.modes import REAL_TIME, Mode, steps_of
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.formats.choosing import can_fail
from headrace.pipeline.spark.formats.reading import BytesWriter
from headrace.pipeline.spark.incarnations import TakenRange, taken_under_former_ids
from headrace.pipeline.spark.queries import RunningQuery
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.notes import EARLIEST, noted, starting_offsets
from headrace.pipeline.spark.steps.read import latest_rows, read_rows
from headrace.pipeline.spark.steps.refusals import output_mode
from headrace.pipeline.spark.steps.rows import OFFSET, PARTITION, Rows, column, good
from headrace.pipeline.spark.steps.sink import PRODUCER, dead_letters, sink_records
from headrace.pipeline.spark.steps.table_aggregating import aggregate_table, aggregated_table
from headrace.pipeline.spark.steps.table_copy import TableCopy
from headrace.pipeline.statements.tree import SourceKind

logger = logging.getLogger(__name__)

_LARGEST_BATCH: Final = 200_000


class StartedQuery(Protocol):
    """What a start needs to know of its query (`plan_query.py`)."""

    @property
    def name(self) -> str: ...

    @property
    def plan(self) -> QueryPlan: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def folder(self) -> Path: ...

    @property
    def source_topics(self) -> tuple[str, ...]: ...

    @property
    def written_topics(self) -> tuple[str, ...]: ...

    @property
    def dead_letter_topics(self) -> Mapping[str, str]:
        """By source topic."""
        ...

    @property
    def starting_offsets(self) -> str: ...

    def writer(self, encoding: Encoding, side: str) -> BytesWriter: ...

    def writer_schemas(self, source: Source, side: str) -> WriterSchemas: ...


class Start:
    """One start of a query: has the topics as they are now, and is the plan's `Inputs`."""

    def __init__(
        self, query: StartedQuery, session: SparkSession, topics: Mapping[str, TopicIdentity], mode: Mode
    ) -> None:
        self._query = query
        self._plan = query.plan
        self._settings = query.settings
        self._session = session
        self._topics = topics
        self._mode = mode
        ids = [topics[name].topic_id for name in (*query.source_topics, query.plan.sink.topic)]
        self._checkpoint = query.folder / "-".join(ids)
        self._starting_offsets = starting_offsets(self._checkpoint, query.starting_offsets)
        self._taken = self._taken_before()
        self._refreshers: list[StreamingQuery] = []

    def run(self) -> RunningQuery:
        handles: list[StreamingQuery] = []
        try:
            self._start_all(handles)
        except BaseException:
            for handle in (*handles, *self._refreshers):
                handle.stop()
            raise
        # A batch that is cut short is repeated; there is no moment between batches to wait for.
        handles += self._refreshers
        handle = handles[0] if len(handles) == 1 else cast(StreamingQuery, _Together(handles))
        return RunningQuery(handle, self._mode.name, nullcontext(), mode_reason=self._mode.reason)

    def _start_all(self, handles: list[StreamingQuery]) -> None:
        """The query itself, and one for the dead letters of each source that it does not see to."""
        plan = self._plan
        # The source whose records become results: also in a look-up the stream comes first.
        first, *others = reads_of(plan.root)
        table = next((read for step in steps_of(plan.root) if (read := aggregated_table(step))), None)
        if table is not None:
            handles.append(self._started_in_batches(table))
            sees_to_first = False
        else:
            rows = built(plan.root, self)
            records = self._sink_records(rows)
            handles.append(self._started(records, "", output_mode=output_mode(plan), mode=self._mode.name))
            sees_to_first = rows.has_reasons
        for number, read in enumerate(others if sees_to_first else (first, *others)):
            if _can_fail(read.source):
                handles.append(self._dead_letters(read, number))

    def _sink_records(self, rows: Rows) -> DataFrame:
        query, sink = self._query, self._plan.sink
        first = reads_of(self._plan.root)[0]
        return sink_records(
            rows,
            sink,
            topic=self._topics[sink.topic],
            keys=query.writer(sink.key_encoding, "key"),
            values=query.writer(sink.value_encoding, "value"),
            dead_letter_topic=query.dead_letter_topics[first.source.topic],
            read=first,
        )

    def _started_in_batches(self, table: Read) -> StreamingQuery:
        """An aggregation of a table, whose batches need to know how the table was before them."""
        copy = self._copy(table)

        def write(batch: DataFrame, _batch_id: int) -> None:
            before, after = copy.records(batch.sparkSession), copy.with_batch(batch).persist()
            try:
                inputs = _TableBatch(self, before=before, after=after, batch=batch)
                (
                    self._sink_records(built(self._plan.root, inputs))
                    .write.format("kafka")
                    .options(**self._sink_options())
                    .save()
                )
                copy.replace(after)
            finally:
                after.unpersist()

        records = self._records(self._topics[table.source.topic], EARLIEST)
        return (
            records.writeStream.queryName(self._query.name)
            .foreachBatch(write)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _sink_options(self) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.max.request.size": largest_message(self._settings),
            **PRODUCER,
        }

    def changes(self, read: Read) -> Rows:
        is_table = read.source.kind is SourceKind.TABLE
        starting = EARLIEST if is_table else self._starting_offsets
        return self._rows(read, self._records(self._topics[read.source.topic], starting))

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        topic = self._topics[read.source.topic]
        if not is_global:
            reader = self._session.read.format("kafka").option("subscribe", topic.name)
            records = reader.options(**self._options()).option("endingOffsets", "latest").load()
            return latest_rows(self._rows(read, records))
        copy = self._copy(read)
        self._keep_refreshed(copy, topic)
        return self._rows(read, copy.records(self._session))

    def table_groups(self, step: Aggregate) -> Rows:  # noqa: ARG002 - of the interface
        raise HeadraceError(
            "pipeline_failed",
            "An aggregation of a table cannot stand behind another step of the same query.",
            remedy="Write it to a table of its own (CREATE TABLE … AS SELECT), and go on from that.",
        )

    def _copy(self, read: Read) -> TableCopy:
        topic = self._topics[read.source.topic]
        folder = self._checkpoint.with_name(f"{self._checkpoint.name}-copy-{topic.topic_id}")
        copy = TableCopy(folder, readable=lambda records: self._readable(read, records))
        copy.make(self._session)
        return copy

    def _readable(self, read: Read, records: DataFrame) -> DataFrame:
        """The records that can be read: the others change nothing."""
        if not _can_fail(read.source):
            return records
        rows = good(self._rows(read, records)).select(
            column(PARTITION).alias("partition"), column(OFFSET).alias("offset")
        )
        return records.join(rows, ["partition", "offset"], "left_semi")

    def _rows(self, read: Read, records: DataFrame) -> Rows:
        return read_rows(
            read,
            records,
            query=self._query.name,
            topic=self._topics[read.source.topic],
            key_schemas=self._query.writer_schemas(read.source, "key"),
            value_schemas=self._query.writer_schemas(read.source, "value"),
        )

    def _records(self, topic: TopicIdentity, starting_offsets: str) -> DataFrame:
        reader = self._session.readStream.format("kafka").option("subscribe", topic.name)
        reader = reader.options(**self._options()).option("startingOffsets", starting_offsets)
        if self._mode.name != REAL_TIME:
            reader = reader.option("maxOffsetsPerTrigger", str(_LARGEST_BATCH))
        records = reader.load()
        for taken in self._taken if topic.name == self._query.source_topics[0] else ():
            in_range = F.col("offset").between(taken.first, taken.last)
            records = records.filter(~((F.col("partition") == taken.partition) & in_range))
        return records

    def _options(self) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.isolation.level": "read_committed",
            # A topic that was deleted is made again by whoever wants it, not by a reader.
            "kafka.allow.auto.create.topics": "false",
            "startingOffsets": EARLIEST,
            # Data that is gone before it was read stops the query instead of passing unseen.
            "failOnDataLoss": "true",
            "includeHeaders": "true",
        }

    def _started(self, records: DataFrame, part: str, *, output_mode: str, mode: str) -> StreamingQuery:
        writer = (
            records.writeStream.queryName(self._query.name + part)
            .format("kafka")
            .outputMode(output_mode)
            .options(**self._sink_options())
            .option("checkpointLocation", str(self._checkpoint) + part)
        )
        if mode == REAL_TIME:
            # The stubs of PySpark 4.2 do not know this trigger yet; its code does.
            writer = writer.trigger(realTime=f"{self._settings.real_time_batch_seconds} seconds")  # type: ignore[call-overload]
        else:
            writer = writer.trigger(processingTime="0 seconds")
        return writer.start()

    def _dead_letters(self, read: Read, number: int) -> StreamingQuery:
        topic = self._query.dead_letter_topics[read.source.topic]
        letters = dead_letters(self.changes(read), dead_letter_topic=topic, read=read)
        return self._started(letters, f"-dead-letters-{number}", output_mode="append", mode="micro-batch")

    def _keep_refreshed(self, copy: TableCopy, topic: TopicIdentity) -> None:
        """Bring the copy up to the topic's end, then keep it there."""
        part = f"-refresh-{len(self._refreshers)}"
        writer = (
            self._session.readStream.format("kafka")
            .option("subscribe", topic.name)
            .options(**self._options())
            .load()
            .writeStream.queryName(self._query.name + part)
            .foreachBatch(copy.refresh)
            .option("checkpointLocation", str(self._checkpoint) + part)
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        self._refreshers.append(writer.trigger(processingTime="0 seconds").start())

    def _taken_before(self) -> tuple[TakenRange, ...]:
        """What was passed on under a former id of the source; found out once per incarnation."""
        query = self._query
        if any(isinstance(step, Aggregate | StreamJoin | TableJoin) for step in steps_of(self._plan.root)):
            return ()  # nothing in their results says which record they are of

        def find_out() -> bytes:
            taken = taken_under_former_ids(
                self._settings.bootstrap,
                query=query.name,
                source=self._topics[query.source_topics[0]],
                derived=[self._topics[name] for name in query.written_topics],
            )
            if taken:
                logger.warning("Query %s leaves out what it took under a former id: %s", query.name, taken)
            return msgspec.json.encode(taken)

        note = noted(Path(f"{self._checkpoint}.taken.json"), find_out)
        return msgspec.json.decode(note, type=tuple[TakenRange, ...])


class _TableBatch:
    """The `Inputs` of one batch of a table that is aggregated."""

    def __init__(self, start: Start, *, before: DataFrame, after: DataFrame, batch: DataFrame) -> None:
        self._start = start
        self._before = before
        self._after = after
        self._batch = batch

    def changes(self, read: Read) -> Rows:
        return self._start.changes(read)

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        return self._start.standing(read, is_global=is_global)

    def table_groups(self, step: Aggregate) -> Rows:
        return aggregate_table(
            step, before=self._before, after=self._after, batch=self._batch, decode=self._start._rows
        )


class _Together:
    """Several of Spark's queries as one: it runs while all do, and fails with the first that fails.

    Whatever else is asked of it, the first one answers.
    """

    def __init__(self, handles: list[StreamingQuery]) -> None:
        self._handles = handles

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handles[0], name)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if all(handle.isActive for handle in self._handles):
            return True
        self.stop()
        return False

    def exception(self) -> Exception | None:
        return next((error for handle in self._handles if (error := handle.exception()) is not None), None)

    def stop(self) -> None:
        for handle in self._handles:
            handle.stop()


def _can_fail(source: Source) -> bool:
    return (
        can_fail(source.key_encoding, source.key)
        or can_fail(source.value_encoding, source.value)
        or source.timestamp is not None
    )
