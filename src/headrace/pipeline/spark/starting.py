"""One start of a query: starts Spark queries for its plan and its inputs.

Rows go to the sink's topic, continuously or in batches, or to a table of the lake.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.message_sizes import derived_message_bytes
from headrace.pipeline.plan import Read, reads_of, steps_of
from headrace.pipeline.rules.modes import MICRO_BATCH, REAL_TIME
from headrace.pipeline.spark.fair_turns import pace_of
from headrace.pipeline.spark.inputs import TableBatch, TopicInputs, has_bad_records
from headrace.pipeline.spark.lake_query import BatchListener, start_into_lake
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.query_schemas import QuerySchemas
from headrace.pipeline.spark.running_query import RunningQuery, together
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.notes import EARLIEST
from headrace.pipeline.spark.steps.refusals import output_mode
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import PRODUCER, dead_letters, sink_records
from headrace.pipeline.spark.steps.table_aggregating import aggregated_table


class Start:
    def __init__(
        self,
        query: PlannedQuery,
        schemas: QuerySchemas,
        inputs: TopicInputs,
        *,
        on_batch: BatchListener,
    ) -> None:
        self._query = query
        self._plan = query.plan
        self._settings = query.settings
        self._schemas = schemas
        self._inputs = inputs
        self._on_batch = on_batch
        # Held while a batch must not be interrupted; None if an interrupted batch is repeated.
        self._between_batches: AbstractContextManager[object] | None = None

    def run(self) -> RunningQuery:
        handles: list[StreamingQuery] = []
        try:
            table = self._plan.lake_table
            if table is not None:
                handle, self._between_batches = start_into_lake(
                    self._query, self._inputs, table, on_batch=self._on_batch
                )
                handles.append(handle)
            else:
                self._into_topics(handles)
        except BaseException:
            for handle in (*handles, *self._inputs.refreshers):
                handle.stop()
            raise
        mode = self._inputs.mode
        running = together((*handles, *self._inputs.refreshers))
        return RunningQuery(running, mode.name, self._between_batches, mode_reason=mode.reason)

    def _into_topics(self, handles: list[StreamingQuery]) -> None:
        """The query itself, and one for each source whose dead letters it does not write itself."""
        plan = self._plan
        # The source whose records become results; in a look-up the stream comes first, too.
        first, *others = reads_of(plan.root)
        table = next((read for step in steps_of(plan.root) if (read := aggregated_table(step))), None)
        if table is not None:
            handles.append(self._started_in_batches(table))
            handles_first = False
        else:
            rows = built(plan.root, self._inputs)
            records = self._sink_records(rows)
            handles.append(
                self._started(records, "", output_mode=output_mode(plan), mode=self._inputs.mode.name)
            )
            handles_first = rows.has_reasons
        for number, read in enumerate(others if handles_first else (first, *others)):
            if has_bad_records(read.source):
                handles.append(self._dead_letters(read, number))

    def _sink_records(self, rows: Rows) -> DataFrame:
        sink = self._plan.sink
        first = reads_of(self._plan.root)[0]
        return sink_records(
            rows,
            sink,
            topic=self._inputs.topics[sink.topic],
            keys=self._schemas.writer(sink, "key"),
            values=self._schemas.writer(sink, "value"),
            dead_letter_topic=self._query.dead_letter_topics[first.source.topic],
            read=first,
        )

    def _started_in_batches(self, table: Read) -> StreamingQuery:
        """An aggregation of a table, whose batches need the table as it was before them."""
        copy = self._inputs.copy(table)

        def write(batch: DataFrame, _batch_id: int) -> None:
            before, after = copy.records(batch.sparkSession), copy.with_batch(batch).persist()
            try:
                inputs = TableBatch(self._inputs, before=before, after=after, batch=batch)
                (
                    self._sink_records(built(self._plan.root, inputs))
                    .write.format("kafka")
                    .options(**self._sink_options())
                    .save()
                )
                copy.replace(after)
            finally:
                after.unpersist()

        records = self._inputs.records(self._inputs.topics[table.source.topic], EARLIEST)
        return self._in_batches(records, write)

    def _in_batches(self, frame: DataFrame, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
        return (
            frame.writeStream.queryName(self._query.name)
            .foreachBatch(write)
            .option("checkpointLocation", str(self._inputs.checkpoint))
            .trigger(processingTime=pace_of(self._inputs.session))
            .start()
        )

    def _started(self, records: DataFrame, part: str, *, output_mode: str, mode: str) -> StreamingQuery:
        writer = (
            records.writeStream.queryName(self._query.name + part)
            .format("kafka")
            .outputMode(output_mode)
            .options(**self._sink_options())
            .option("checkpointLocation", str(self._inputs.checkpoint) + part)
        )
        if mode == REAL_TIME:
            # The stubs of PySpark 4.2 do not know this trigger yet; its code does.
            writer = writer.trigger(realTime=f"{self._settings.real_time_batch_seconds} seconds")  # type: ignore[call-overload]
        else:
            writer = writer.trigger(processingTime=pace_of(self._inputs.session))
        return writer.start()

    def _dead_letters(self, read: Read, number: int) -> StreamingQuery:
        topic = self._query.dead_letter_topics[read.source.topic]
        letters = dead_letters(self._inputs.changes(read), dead_letter_topic=topic, read=read)
        return self._started(letters, f"-dead-letters-{number}", output_mode="append", mode=MICRO_BATCH)

    def _sink_options(self) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.max.request.size": str(derived_message_bytes(self._settings)),
            **PRODUCER,
        }
