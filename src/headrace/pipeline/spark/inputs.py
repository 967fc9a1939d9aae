"""The inputs of a query: its topics, which Spark reads as streams or as a whole.

`TopicInputs` implements the plan's `Inputs` for one start; `ResumedInputs` goes on where the runs before have
ended. Owns what a start must find out first: the records that were processed under a former id of the source,
and the copies of tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.plan import Aggregate, Read, is_stateful
from headrace.pipeline.rules.modes import REAL_TIME, Mode
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.runs.identities import Written
from headrace.pipeline.spark.formats.choosing import can_fail
from headrace.pipeline.spark.incarnations import TakenRow, taken_under_former_ids, written_of
from headrace.pipeline.spark.kafka_source import all_records, stream_of
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.query_schemas import QuerySchemas
from headrace.pipeline.spark.refreshing import Refreshing
from headrace.pipeline.spark.steps.notes import EARLIEST, noted
from headrace.pipeline.spark.steps.read import latest_rows, read_rows
from headrace.pipeline.spark.steps.rows import OFFSET, PARTITION, Rows, column, good
from headrace.pipeline.spark.steps.table_aggregating import aggregate_table
from headrace.pipeline.spark.steps.table_copy import TableCopy
from headrace.pipeline.statements.tree import SourceKind

logger = logging.getLogger(__name__)

_LARGEST_BATCH: Final = 200_000


class TopicInputs:
    def __init__(
        self,
        query: PlannedQuery,
        schemas: QuerySchemas,
        session: SparkSession,
        topics: Mapping[str, TopicIdentity],
        mode: Mode,
        *,
        starting_offsets: Callable[[TopicIdentity], str] = lambda _: EARLIEST,
        committed: Offsets | None = None,
    ) -> None:
        """`starting_offsets` says where to begin to read a stream, for a query that keeps state. `committed`
        is how far former incarnations of its topics were read some time ago.
        """
        self.topics = topics
        self.mode = mode
        self.checkpoint = query.checkpoint(topics)
        # The most records of a batch; None has all that there are.
        self.largest_batch: int | None = _LARGEST_BATCH
        # The most tasks that read a topic at the same time; None has one for each partition.
        self.most_tasks: int | None = None
        # Spark queries that keep copies of tables up to date.
        self.refreshers: list[StreamingQuery] = []
        self._query = query
        self._schemas = schemas
        self.session = session
        self._starting_offsets = starting_offsets
        # What was derived under a former id of the source, by partition.
        self.taken: Mapping[int, Written] = written_of(self._taken_before(committed or {}))

    def changes(self, read: Read) -> Rows:
        topic = self.topics[read.source.topic]
        is_table = read.source.kind is SourceKind.TABLE
        return self.rows(read, self.records(topic, EARLIEST if is_table else self._starting_offsets(topic)))

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        topic = self.topics[read.source.topic]
        if not is_global:
            records = all_records(self.session, self._query.settings.bootstrap, topic)
            return latest_rows(read, self.rows(read, records))
        folder = self.checkpoint.with_name(f"{self.checkpoint.name}-copy-{topic.topic_id}")
        copy = self.copy(read, folder)
        self._keep_refreshed(copy, topic, folder)
        return self.rows(read, copy.records())

    def table_groups(self, step: Aggregate) -> Rows:  # noqa: ARG002 - of the interface
        raise HeadraceError(
            "pipeline_failed",
            "An aggregation of a table cannot follow another step in the same query.",
            remedy="Write it to its own table (CREATE TABLE … AS SELECT), and continue from that.",
        )

    def copy(self, read: Read, folder: Path) -> TableCopy:
        copy = TableCopy(self.session, folder, readable=lambda records: self._readable(read, records))
        copy.make()
        return copy

    def _readable(self, read: Read, records: DataFrame) -> DataFrame:
        """Only the records that can be decoded; the others have no effect."""
        if not has_bad_records(read.source):
            return records
        rows = good(self.rows(read, records)).select(
            column(PARTITION).alias("partition"), column(OFFSET).alias("offset")
        )
        return records.join(rows, ["partition", "offset"], "left_semi")

    def rows(self, read: Read, records: DataFrame) -> Rows:
        return read_rows(
            read,
            records,
            query=self._query.name,
            topic=self.topics[read.source.topic],
            key_schemas=self._schemas.of_writers(read.source, "key"),
            value_schemas=self._schemas.of_writers(read.source, "value"),
        )

    def records(self, topic: TopicIdentity, starting_offsets: str) -> DataFrame:
        records = stream_of(
            self.session,
            self._query.settings.bootstrap,
            topic,
            starting_offsets,
            largest_batch=self.largest_batch,
            is_real_time=self.mode.name == REAL_TIME,
        )
        return self._in_few_tasks(records)

    def _in_few_tasks(self, records: DataFrame) -> DataFrame:
        """Partitions one after the other: a task is not interrupted, so others wait until all have ended."""
        return records if self.most_tasks is None else records.coalesce(self.most_tasks)

    def _keep_refreshed(self, copy: TableCopy, topic: TopicIdentity, folder: Path) -> None:
        part = f"-refresh-{len(self.refreshers)}"
        refreshing = Refreshing(copy, topic, folder=folder, checkpoint=Path(f"{self.checkpoint}{part}"))

        bootstrap = self._query.settings.bootstrap

        def stream(starting_offsets: str) -> DataFrame:
            return stream_of(self.session, bootstrap, topic, starting_offsets)

        cluster = Cluster(bootstrap)
        self.refreshers.append(refreshing.start(stream, name=self._query.name + part, cluster=cluster))

    def _taken_before(self, committed: Offsets) -> tuple[TakenRow, ...]:
        """Rows that were processed under a former id of the source; determined once per incarnation."""
        query = self._query
        if is_stateful(query.plan):
            return ()  # their results have no source coordinates

        def find_out() -> tuple[TakenRow, ...]:
            taken = taken_under_former_ids(
                self._query.settings.bootstrap,
                query=query.name,
                source=self.topics[query.source_topics[0]],
                derived=[self.topics[name] for name in query.written_topics],
                committed=committed,
            )
            if taken:
                logger.warning(
                    "Query %s leaves out %d rows that it derived under a former id", query.name, len(taken)
                )
            return taken

        return noted(Path(f"{self.checkpoint}.taken.json"), find_out, tuple[TakenRow, ...])


class ResumedInputs:
    """The `Inputs` of a run that begins to read its one stream at given offsets."""

    def __init__(self, inputs: TopicInputs, starting_offsets: str) -> None:
        self._inputs = inputs
        self._starting_offsets = starting_offsets

    def changes(self, read: Read) -> Rows:
        inputs = self._inputs
        return inputs.rows(read, inputs.records(inputs.topics[read.source.topic], self._starting_offsets))

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        return self._inputs.standing(read, is_global=is_global)

    def table_groups(self, step: Aggregate) -> Rows:
        return self._inputs.table_groups(step)


class TableBatch:
    """The `Inputs` of one batch of an aggregated table."""

    def __init__(
        self,
        inputs: TopicInputs,
        *,
        before: DataFrame,
        after: DataFrame,
        batch: DataFrame,
        passes_through: bool,
    ) -> None:
        self._inputs = inputs
        self._passes_through = passes_through
        self._before = before
        self._after = after
        self._batch = batch

    def changes(self, read: Read) -> Rows:
        return self._inputs.changes(read)

    def standing(self, read: Read, *, is_global: bool) -> Rows:
        return self._inputs.standing(read, is_global=is_global)

    def table_groups(self, step: Aggregate) -> Rows:
        return aggregate_table(
            step,
            before=self._before,
            after=self._after,
            batch=self._batch,
            decode=self._inputs.rows,
            passes_through=self._passes_through,
        )


def has_bad_records(source: Source) -> bool:
    return (
        can_fail(source.key_encoding, source.key)
        or can_fail(source.value_encoding, source.value)
        or source.timestamp is not None
    )
