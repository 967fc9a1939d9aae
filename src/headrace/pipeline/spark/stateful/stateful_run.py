"""One run of a stateful query: resumes its checkpoint, and starts Spark on it, batch by batch.

The resumption comes first, because it decides how the sources are read: a run that derives rows again does so
in one batch, so that those rows can be compared with what the sinks hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import ROWTIME_HEADER
from headrace.pipeline.plan import Aggregate, QueryPlan, StreamJoin, TableJoin, steps_of
from headrace.pipeline.rules.modes import output_mode
from headrace.pipeline.runs.commits import Commit, History, Offsets, offset_in
from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.fair_turns import pace_of
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.stateful.batch_writer import BatchWriter, Repetition
from headrace.pipeline.spark.stateful.checkpoint_files import positions_after
from headrace.pipeline.spark.stateful.generations import Generation, Generations
from headrace.pipeline.spark.stateful.present_rows import present_rows
from headrace.pipeline.spark.stateful.resuming_state import ResumedState, SoundCheck, StateResumption
from headrace.pipeline.spark.stateful.row_identity import row_identity
from headrace.pipeline.spark.stateless_run import RunContext, beginning, refuse_gaps
from headrace.pipeline.spark.steps.read import last_header


class StatefulRun:
    def __init__(
        self,
        query: PlannedQuery,
        context: RunContext,
        topics: Mapping[str, TopicIdentity],
        *,
        is_sound: SoundCheck,
    ) -> None:
        """`is_sound` checks what belongs to the state but is not Spark's. Raises log_unavailable."""
        self._query = query
        self._plan = query.plan
        self._context = context
        self._cluster = context.cluster
        self._sources = [topics[name] for name in query.source_topics]
        self._sink = topics[self._plan.sink.topic]
        # Of rows that cannot be written; those of a source's records are written by a query of their own.
        self._letters = topics[query.dead_letter_topics[query.source_topics[0]]]
        resumption = StateResumption(
            context.cluster,
            query=query.name,
            sources=self._sources,
            sink=self._sink,
            dead_letters=self._letters,
            quiet_seconds=context.settle_seconds,
        )
        history = context.commits.history(query.name)
        self._resumed: ResumedState = resumption.resume(
            Generations(query.checkpoint(topics)),
            history,
            start=context.start,
            trailing_batches=_trailing_batches(self._plan),
            error=context.former_error,
            is_sound=is_sound,
        )
        gaps, kept = self._resumed.gaps, history
        if self.base.batch < 0:
            # It begins, or rebuilds its state: what has expired since it first began is lacking there.
            begun = beginning(
                context, history.start or context.start, [topics[name] for name in query.stream_topics]
            )
            gaps += begun.gaps
            kept = _with_start(history, begun.positions)
        refuse_gaps(context, gaps)
        kept = kept.with_gaps(gaps)
        if kept != history:
            context.commits.replace(query.name, kept)
        self.gaps = kept.gaps

    @property
    def generation(self) -> Generation:
        return self._resumed.generation

    @property
    def base(self) -> Commit:
        """Where the run goes on: positions of the sources and ends of the sinks."""
        return self._resumed.base

    @property
    def positions(self) -> Offsets:
        """Where it begins to read its sources, as far as it does not read them from their beginning."""
        known = self.base.positions if self.base.batch >= 0 else self._context.start.positions
        return {source.topic_id: known.get(source.topic_id, {}) for source in self._sources}

    @property
    def remark(self) -> str:
        """What had to be healed; empty if nothing had to."""
        return self._resumed.remark

    def derives_again(self, batch: int) -> bool:
        """Whether former generations may have written rows of this batch, in other batches."""
        rows = self._resumed.sink_rows
        return rows is not None and rows.derives_again and batch <= rows.last_batch

    def writer(self, session: SparkSession, options: Mapping[str, Any], gate: BatchGate) -> BatchWriter:
        """`options` are those of Spark's Kafka sink."""
        return BatchWriter(
            self.generation,
            query=self._query.name,
            sink=self._sink.name,
            identity=row_identity(self._plan),
            options=options,
            repetition=self._repetition(session),
            standing=self._standing,
            commits=self._context.commits,
            gate=gate,
        )

    def start(self, records: DataFrame, writer: BatchWriter) -> StreamingQuery:
        """Start on the records for the sink."""
        keeps_one = any(isinstance(step, TableJoin) for step in steps_of(self._plan.root))

        def write(batch: DataFrame, number: int) -> None:
            writer.write(_one_for_each_key(batch, self._sink.name) if keeps_one else batch, number)

        return self.start_with(records, write, output_mode=output_mode(self._plan))

    def start_with(
        self, frame: DataFrame, write: Callable[[DataFrame, int], None], *, output_mode: str = "append"
    ) -> StreamingQuery:
        return (
            frame.writeStream.queryName(self._query.name)
            .foreachBatch(write)
            .outputMode(output_mode)
            .option("checkpointLocation", str(self.generation.folder))
            .trigger(processingTime=pace_of(frame.sparkSession, self._query.name))
            .start()
        )

    def _repetition(self, session: SparkSession) -> Repetition | None:
        rows = self._resumed.sink_rows
        if rows is None:
            return None
        present = present_rows(
            session, self._cluster.bootstrap, query=self._query.name, starts=rows.starts, ends=rows.ends
        )
        return Repetition(present=present, last=rows.last_batch, derives_again=rows.derives_again)

    def _standing(self, batch: int) -> Commit:
        positions = positions_after(self.generation.folder, batch) or {}
        return self._resumed.note(
            batch,
            positions={source.topic_id: positions.get(source.name, {}) for source in self._sources},
            ends=_ends_of_records(self._ends(), self._resumed),
        )

    def _ends(self) -> Offsets:
        topics = (self._sink, self._letters)
        ends = self._cluster.latest(topics)
        return {
            topic.topic_id: {place[1]: ends[place] for place in topic.places if place in ends}
            for topic in topics
        }


def _with_start(history: History, positions: dict[str, dict[int, int]]) -> History:
    """With the positions where it first began to read each topic, so that a rebuild knows what it lacks."""
    start = history.start or Commit(at=0, positions={}, sinks_from={}, sinks_to={})
    start = dataclasses.replace(start, positions={**positions, **start.positions})
    return dataclasses.replace(history, start=start)


def _ends_of_records(ends: Offsets, resumed: ResumedState) -> dict[str, dict[int, int]]:
    """`ends`, but where nothing was written since the run began, the end that is known to follow a record.

    After a power failure a log goes on behind the offsets that it had reserved: until something follows,
    there is no record before its end.
    """
    return {
        topic_id: {
            partition: (
                offset_in(resumed.base.sinks_to, topic_id, partition) or 0
                if offset_in(resumed.sinks_at_start, topic_id, partition) == end
                and _is_unchanged(resumed, topic_id)
                else end
            )
            for partition, end in of_topic.items()
        }
        for topic_id, of_topic in ends.items()
    }


def _is_unchanged(resumed: ResumedState, topic_id: str) -> bool:
    """Whether nothing followed in a topic between the batch that the run goes on from and its start."""
    known, ends = resumed.base.sinks_from.get(topic_id), resumed.sinks_at_start[topic_id]
    return known is not None and all(known.get(partition, 0) >= end for partition, end in ends.items())


def _trailing_batches(plan: QueryPlan) -> int:
    """Rows that wait for a watermark come one batch after the records that advance it, in each step."""
    if output_mode(plan) != "append":
        return 0
    return sum(isinstance(step, Aggregate | StreamJoin) for step in steps_of(plan.root))


def _one_for_each_key(batch: DataFrame, sink: str) -> DataFrame:
    """The newest of the rows of each key; they differ in their time only. Dead letters may have no key."""
    letter = F.when(F.col("topic") != F.lit(sink), F.col("value"))
    time = last_header(ROWTIME_HEADER).cast("string").cast("bigint")
    newest = F.max_by(F.struct(*batch.columns), time).alias("record")
    return (
        batch.groupBy(F.col("topic").alias("of_topic"), F.col("key").alias("of_key"), letter.alias("letter"))
        .agg(newest)
        .select("record.*")
    )


def copies_are_sound(topic_ids: Sequence[str], has_batch: Callable[[Path, int], bool]) -> SoundCheck:
    """Whether the copies of tables contain a batch, too."""
    return lambda generation, batch: all(has_batch(generation.copy_of(each), batch) for each in topic_ids)
