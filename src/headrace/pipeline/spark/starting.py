"""One start of a query: starts Spark queries for its plan and its inputs.

Rows go to the sink's topic, continuously or in batches.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.message_sizes import derived_message_bytes
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.plan import QueryPlan, Read, is_stateful, reads_of, steps_of
from headrace.pipeline.rules.modes import MICRO_BATCH, REAL_TIME
from headrace.pipeline.runs.commit_log import part_key
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.fair_turns import pace_of
from headrace.pipeline.spark.inputs import ResumedInputs, TableBatch, TopicInputs, has_bad_records
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.producers import new_client_id
from headrace.pipeline.spark.query_schemas import QuerySchemas
from headrace.pipeline.spark.running_query import RecordsCommits, RunningQuery, together
from headrace.pipeline.spark.short_errors import shortened_errors
from headrace.pipeline.spark.sink_limits import limits_of
from headrace.pipeline.spark.stateful.batch_writer import BatchWriter
from headrace.pipeline.spark.stateful.stateful_run import StatefulRun, copies_are_sound
from headrace.pipeline.spark.stateless_run import RunContext, StatelessRun, new_checkpoint
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.notes import EARLIEST
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import PRODUCER, dead_letters, sink_records
from headrace.pipeline.spark.steps.table_aggregating import aggregated_table
from headrace.pipeline.spark.steps.table_copy import has_batch
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.written_filter import without_written
from headrace.pipeline.statements.tree import SourceKind

# A stop waits so long for batches that are being written. One that takes longer is interrupted, for example
# if the sink was deleted, and repeated.
_PATIENCE_SECONDS: Final = 5.0


class Start:
    def __init__(
        self,
        query: PlannedQuery,
        schemas: QuerySchemas,
        inputs: TopicInputs,
        context: RunContext,
        *,
        turns: Turns | None,
    ) -> None:
        """With `turns`, micro-batches wait for theirs."""
        self._query = query
        self._context = context
        self._plan = query.plan
        self._settings = query.settings
        self._schemas = schemas
        self._inputs = inputs
        self._limits = limits_of(query)
        self._turns = turns
        # Without state, it does not matter where a batch is interrupted.
        patience = _PATIENCE_SECONDS if is_stateful(query.plan) else 0.0
        self._gate = BatchGate(query.name, patience=patience, turns=turns)
        self._recordings: list[RecordsCommits] = []
        self._remark = ""
        self._gaps: list[Gap] = []
        self._began: Offsets = {}
        # Of the producers of this start, by which the next one finds out whether they are done.
        self._client_id = new_client_id(query.name)

    def run(self) -> RunningQuery:
        handles: list[StreamingQuery] = []
        try:
            self._into_topics(handles)
        except BaseException:
            self._gate.close()
            for handle in (*handles, *self._inputs.refreshers):
                handle.stop()
            raise
        mode = self._inputs.mode
        running = together((*handles, *self._inputs.refreshers), self._gate)
        return RunningQuery(
            running,
            mode.name,
            self._gate,
            mode_reason=mode.reason,
            remark=self._remark,
            recordings=self._recordings,
            gaps=tuple(self._gaps),
            began=self._began,
        )

    def _into_topics(self, handles: list[StreamingQuery]) -> None:
        """The query itself, and one for each source whose dead letters it does not write itself."""
        if is_stateful(self._plan):
            handles.append(self._with_state())
        else:
            # The source whose records become results; in a look-up the stream comes first, too.
            handles.append(self._without_state(reads_of(self._plan.root)[0]))
        for number, read in dead_letter_parts(self._plan).items():
            handles.append(self._dead_letters(read, number))

    def _without_state(self, read: Read) -> StreamingQuery:
        """All its rows come from single records of one source, good and bad ones."""
        sink = self._inputs.topics[self._plan.sink.topic]
        letters = self._inputs.topics[self._query.dead_letter_topics[read.source.topic]]
        run = StatelessRun(
            self._context,
            self._query.name,
            source=self._inputs.topics[read.source.topic],
            sinks=(sink, letters),
            dead_letters=letters,
            is_table=self._plan.sink.kind is SourceKind.TABLE,
        )
        self._began = run.positions
        rows = built(self._plan.root, ResumedInputs(self._inputs, run.starting_offsets))
        rows = without_written(without_written(rows, run.written), self._inputs.taken)
        records = self._sink_records(rows)
        return self._resumed(run, records, "", mode=self._inputs.mode.name)

    def _with_state(self) -> StreamingQuery:
        topics = self._inputs.topics
        table = next((read for step in steps_of(self._plan.root) if (read := aggregated_table(step))), None)
        copies = () if table is None else (topics[table.source.topic].topic_id,)
        run = StatefulRun(self._query, self._context, topics, is_sound=copies_are_sound(copies, has_batch))
        if run.derives_again(run.base.batch + 1):
            # In one batch, so that its rows can be compared with those in the sink.
            self._inputs.largest_batch = None
        writer = run.writer(self._inputs.session, self._sink_options(), self._gate)
        self._remark, self._began = run.remark, run.positions
        self._recordings.append(writer)
        self._gaps += run.gaps
        if table is not None:
            return self._started_in_batches(table, run, writer)
        return run.start(self._sink_records(built(self._plan.root, self._inputs)), writer)

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
            query=self._query.name,
            limits=self._limits[first.source.topic],
        )

    def _started_in_batches(self, table: Read, run: StatefulRun, writer: BatchWriter) -> StreamingQuery:
        """An aggregation of a table, whose batches need the table as it was before them."""
        topic = self._inputs.topics[table.source.topic]
        copy = self._inputs.copy(table, run.generation.copy_of(topic.topic_id))

        def write(batch: DataFrame, number: int) -> None:
            before = copy.records_before(number)
            after = copy.with_batch(before, batch).persist()
            try:
                inputs = TableBatch(
                    self._inputs,
                    before=before,
                    after=after,
                    batch=batch,
                    passes_through=run.derives_again(number),
                )
                records = self._sink_records(built(self._plan.root, inputs))
                writer.write_then(records, number, lambda: copy.replace(after, number))
            finally:
                after.unpersist()

        return run.start_with(self._inputs.records(topic, EARLIEST), write)

    def _dead_letters(self, read: Read, number: int) -> StreamingQuery:
        topic = self._query.dead_letter_topics[read.source.topic]
        run = StatelessRun(
            self._context,
            part_key(self._query.name, number),
            source=self._inputs.topics[read.source.topic],
            sinks=(self._inputs.topics[topic],),
            dead_letters=self._inputs.topics[topic],
        )
        rows = ResumedInputs(self._inputs, run.starting_offsets).changes(read)
        letters = dead_letters(
            without_written(rows, run.written),
            dead_letter_topic=topic,
            read=read,
            query=self._query.name,
            limits=self._limits[read.source.topic],
        )
        return self._resumed(run, letters, f"-dead-letters-{number}", mode=MICRO_BATCH)

    def _resumed(self, run: StatelessRun, records: DataFrame, part: str, *, mode: str) -> StreamingQuery:
        checkpoint = str(new_checkpoint(self._query.folder, part))
        handle = self._started(records, part, checkpoint, mode=mode)
        self._recordings.append(run.recording(handle))
        self._gaps += run.gaps
        return handle

    def _started(self, records: DataFrame, part: str, checkpoint: str, *, mode: str) -> StreamingQuery:
        options, name = self._sink_options(), self._query.name + part
        writer = (
            records.writeStream.queryName(name).outputMode("update").option("checkpointLocation", checkpoint)
        )
        if mode == REAL_TIME:
            # The stubs of PySpark 4.2 do not know this trigger yet; its code does.
            writer = writer.trigger(realTime=f"{self._settings.real_time_batch_seconds} seconds")  # type: ignore[call-overload]
        else:
            writer = writer.trigger(processingTime=pace_of(self._inputs.session, name))
        if mode == REAL_TIME or self._turns is None:
            return writer.format("kafka").options(**options).start()

        def write(batch: DataFrame, number: int) -> None:
            with self._gate.batch(number), shortened_errors():
                batch.write.format("kafka").options(**options).save()

        return writer.foreachBatch(write).start()

    def _sink_options(self) -> dict[str, Any]:
        return {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.client.id": self._client_id,
            "kafka.max.request.size": str(derived_message_bytes(self._settings)),
            **PRODUCER,
        }


def dead_letter_parts(plan: QueryPlan) -> dict[int, Read]:
    """The sources whose dead letters the query itself does not write, by the number of their part.

    A topic that is read twice has its dead letters once. Without state, the dead letters of the first source
    come with its rows.
    """
    first, *others = reads_of(plan.root)
    if is_stateful(plan):
        others = [first, *others]
    by_topic = {read.source.topic: read for read in reversed(others) if has_bad_records(read.source)}
    if not is_stateful(plan):
        by_topic.pop(first.source.topic, None)
    return {number: read for number, read in enumerate(others) if by_topic.get(read.source.topic) is read}
