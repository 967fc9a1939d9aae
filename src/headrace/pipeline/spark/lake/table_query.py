"""One topic of a sink into its table, for the keeper (`keeper.py`).

A start finds out what the records look like, makes the table or adds the columns that it lacks, and goes on
where the table has got to. The columns of a run are fixed: a record with a schema that is new ends it, and
the next one knows the schema.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_topic_config
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.columns.plan import ColumnPlan, column_plan
from headrace.lake.evolution import rules_of
from headrace.lake.layout import TableLayout
from headrace.lake.plain_columns import evolve_plain
from headrace.lake.plain_log import PlainLog, refuse_plain
from headrace.lake.read_columns import ReadColumns
from headrace.lake.sink import LakeSink, S3Storage, TableFormat
from headrace.lake.storage.opening import files_at
from headrace.lake.types import Struct
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.rules.modes import MICRO_BATCH
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.sink_tables import letters_of, query_id, table_location, table_name
from headrace.pipeline.spark.fair_turns import LAKE_POOL, in_pool
from headrace.pipeline.spark.lake.avro_values import AvroValues
from headrace.pipeline.spark.lake.evolving import evolve_table, present_columns, with_columns
from headrace.pipeline.spark.lake.partition_rebuild import PartitionRebuild
from headrace.pipeline.spark.lake.plain_files import PlainTable
from headrace.pipeline.spark.lake.rows import with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.table_repair import TableRepair
from headrace.pipeline.spark.lake.table_run import start_run
from headrace.pipeline.spark.lake.topic_values import TopicValues
from headrace.pipeline.spark.lake.values import ValueReader
from headrace.pipeline.spark.lake.work import TableWork
from headrace.pipeline.spark.producers import new_client_id, silence
from headrace.pipeline.spark.restarts import restart_reason
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.s3a import use_storage
from headrace.pipeline.spark.short_errors import first_line, with_cause
from headrace.pipeline.spark.stateless_run import RunContext
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.writer_lock import hold_writer_lock, lock_of

logger = logging.getLogger(__name__)

_MODE_REASON: Final = "a batch is one commit of the lake"
# How long dead letters of a process that was killed may wait in the sockets of a log that answers.
_SETTLE_SECONDS: Final = 1.0
_REPAIR: Final = "-repair"
# Plain files wait for as many records as `flush.size` says, if no interval says how long, at most so long.
_LONGEST_WAIT_MS: Final = 300_000
_MOST_CAUSES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The table, with the columns that it lacked, how records become its rows, what it is as plain files
    (None for a Delta table), and how it is written in columns (None if it cannot be). `reads` is None if
    nothing transforms records.
    """

    table: TableLayout
    rows: Callable[[DataFrame], DataFrame]
    plain: PlainTable | None
    columns: ColumnPlan | None
    reads: ReadColumns | None


class TableQuery:
    """The query of one topic of a sink. `on_batch` is called after each batch with the query's id."""

    def __init__(
        self,
        spark: SparkSession,
        sink: LakeSink,
        topic: str,
        settings: Settings,
        *,
        commits: CommitLog,
        turns: Turns,
        values: TopicValues,
        on_batch: Callable[[str, int, WrittenBatch], None] = lambda _query, _batch, _written: None,
    ) -> None:
        """Raises lake_unsupported if the table can have no name."""
        self.sink = sink
        self.name = query_id(sink.name, topic)
        self.source_topics = (topic,)
        self.written_topics = (letters_of(sink, topic),)
        self.location = table_location(sink, topic)
        self._table_name = table_name(sink, topic)
        self._spark = spark
        self._topic = topic
        self._settings = settings
        self._commits = commits
        self._turns = turns
        self._on_batch = on_batch
        self._values = values
        self._handle: StreamingQuery | None = None

    def make_topics(self, cluster: Cluster) -> None:
        """Create the topic of the dead letters."""
        config = derived_topic_config(self._settings)
        (letters,) = self.written_topics
        cluster.create_topic(letters, partitions=self._settings.default_partitions, config=config)

    def unready(self, topics: Mapping[str, TopicIdentity]) -> str:
        """Why it cannot start yet: nothing is known of the columns. Empty if it can."""
        return self._values.unready(topics[self._topic])

    def forget(self) -> None:
        """Remove what is kept besides the table; for a stopped query that will not run again."""
        self._commits.forget(self.name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        former_error = self._handle.exception() if self._handle is not None else None
        self._values.learn(former_error)
        session = self._spark.newSession()
        try:
            work = self._work(session, topics)
            with in_pool(session, LAKE_POOL):
                started = start_run(work, on_batch=self._written, turns=self._turns)
        except (PySparkException, Py4JError) as error:
            raise HeadraceError(
                "pipeline_failed", f"Spark refuses the plan of query {self.name}: {_cause(error)}"
            ) from error
        self._commits.begun(self.name)
        self._handle = started.handle
        running = RunningQuery(
            started.handle,
            MICRO_BATCH,
            started.gate,
            mode_reason=_MODE_REASON,
            gaps=started.gaps,
            began=started.began,
        )
        running.unwritten = lambda: self._commits.unwritten(self.name)
        running.outdated = self._values.outdated
        return running

    def repair(self, topics: Mapping[str, TopicIdentity]) -> TableRepair:
        """For repairs, while it does not run. Raises lake_unsupported."""
        self._refuse_plain("repaired")
        return TableRepair(self._work(self._spark.newSession(), topics, part=_REPAIR))

    def rebuild(self, topics: Mapping[str, TopicIdentity]) -> PartitionRebuild:
        """For rebuilding partitions, while it does not run. Raises lake_unsupported."""
        self._refuse_plain("rebuilt")
        if unready := self.unready(topics):
            raise HeadraceError("query_failed", f"Query {self.name} cannot read its topic: {unready}.")
        session, topic = self._spark.newSession(), topics[self._topic]
        self._open(session)
        made = self._made(session, topic)
        table, rows = made.table, made.rows
        return PartitionRebuild(
            session,
            table,
            topic=topic,
            bootstrap=self._settings.bootstrap,
            rows=rows,
            measures=self._values.measures,
            check=self._values.check,
        )

    def _refuse_plain(self, what: str) -> None:
        if self.sink.table_format is TableFormat.FILES:
            raise HeadraceError(
                "lake_unsupported",
                f"Table {self._table_name} cannot be {what}: rows of plain files cannot be looked up.",
                remedy="Move its folder away: the connector writes the table again from what its topic still "
                "has.",
            )

    def has_learned(self, error: Exception) -> bool:
        """Whether the error only said what a further attempt knows now."""
        self._values.learn(error)
        return bool(restart_reason(str(error)))

    def _written(self, batch: int, written: WrittenBatch) -> None:
        self._on_batch(self.name, batch, written)

    @property
    def _folder(self) -> Path:
        return self._settings.data_dir / "pipeline" / "checkpoints" / self.name

    def _work(self, session: SparkSession, topics: Mapping[str, TopicIdentity], part: str = "") -> TableWork:
        sink, topic, settings = self.sink, topics[self._topic], self._settings
        # First, as Spark and Delta ask a storage that does not answer for minutes, and say less.
        try:
            files_at(self.location).check_answers()
        except OSError as error:
            raise HeadraceError(
                "storage_failed", f"Table {self._table_name} cannot be opened: {error}."
            ) from error
        # Before anything is read: the dead letters of former runs must all be in the log.
        if silence(session, self.name):
            self._commits.cut_off(self.name)
        self._open(session)
        made = self._made(session, topic)
        plain = made.plain
        context = RunContext(
            query=self.name,
            cluster=self._commits.cluster,
            commits=self._commits,
            start=Commit(at=0, positions={}, sinks_from={}, sinks_to={}),
            on_gap=settings.pipeline_on_gap,
            settle_seconds=max(_SETTLE_SECONDS - self._commits.silent_seconds(self.name), 0.0),
        )
        interval, within = settings.lake_interval_ms, sink.commit_within_ms
        return TableWork(
            query=self.name,
            session=session,
            settings=settings,
            context=context,
            topic=topic,
            letters=topics[self.written_topics[0]],
            table=made.table,
            rows=made.rows,
            folder=self._folder,
            client_id=new_client_id(self.name, part),
            interval_ms=interval if within is None else min(interval, within),
            tolerates_errors=sink.errors.tolerates_all,
            starts_at_latest=sink.starts_at_latest,
            measures=self._values.measures,
            check=self._values.check,
            connector=sink.name if sink.errors.has_context_headers else "",
            columns=made.columns,
            reads=made.reads,
            plain=plain,
            smallest_batch=sink.flush_size * topic.partitions if plain is not None else 0,
            longest_wait_ms=_LONGEST_WAIT_MS if within is None else within,
        )

    def _open(self, session: SparkSession) -> None:
        """Have the writer's lock of the table, and a session that may write it."""
        sink = self.sink
        hold_writer_lock(session, lock_of(self.location, data_dir=self._settings.data_dir))
        if isinstance(sink.storage, S3Storage):
            use_storage(session, sink.storage)
        if sink.table_format is TableFormat.DELTA:
            refuse_plain(self.location)
            session.conf.set("spark.sql.files.maxRecordsPerFile", str(sink.flush_size))
            session.conf.set("spark.sql.parquet.compression.codec", sink.codec)

    def _made(self, session: SparkSession, topic: TopicIdentity) -> _Made:
        sink = self.sink
        present = self._present(session)
        values, keys = self._values.readers(session, topic, present)
        shape = TableShape(sink, topic.name, values, keys)
        table = TableLayout(
            name=self._table_name,
            location=self.location,
            value_columns=(),
            partition_columns=shape.partition_columns,
        )
        rules = rules_of(sink.compatibility)
        plain: PlainTable | None = None
        if sink.table_format is TableFormat.FILES:
            plain = PlainTable(
                sink=sink, columns=shape.struct, derived=shape.derived_columns, partitions=topic.partitions
            )
            columns = evolve_plain(self.location, plain.definition(shape.partition_columns), rules=rules)
            plain = dataclasses.replace(plain, columns=columns)
        else:
            columns = evolve_table(session, table, present, shape.struct, rules=rules)
        table = with_columns(table, columns)

        def rows(records: DataFrame) -> DataFrame:
            return with_coordinates(shape.rows(records, columns), table, topic=topic)

        return _Made(
            table=table,
            rows=rows,
            plain=plain,
            columns=self._column_plan(topic, table, columns, values, shape.derived_columns),
            reads=ReadColumns(value=values.struct, key=None if keys is None else keys.struct)
            if sink.changes_records and plain is None
            else None,
        )

    def _column_plan(
        self,
        topic: TopicIdentity,
        table: TableLayout,
        columns: Struct,
        values: ValueReader,
        derived_columns: tuple[str, ...],
    ) -> ColumnPlan | None:
        plan = column_plan(
            self.sink,
            topic,
            bootstrap=self._settings.bootstrap,
            location=table.location,
            columns=columns,
            partition_columns=table.partition_columns,
            derived_columns=derived_columns,
            schemas=values.schemas.by_id if isinstance(values, AvroValues) else {},
        )
        if isinstance(plan, ColumnPlan):
            return plan
        logger.info("table %s is written row by row: %s", table.name, plan)
        return None

    def _present(self, session: SparkSession) -> Struct | None:
        """The columns of the table, if it exists."""
        if self.sink.table_format is TableFormat.FILES:
            found = PlainLog(self.location).open()
            return found.columns if found is not None else None
        return present_columns(session, self.location.uri, name=self._table_name)


def _cause(error: Exception) -> str:
    """py4j's own first line says only which method was called, Spark's perhaps only that a task failed."""
    if not isinstance(error, Py4JJavaError):
        return first_line(str(error))
    said = [first_line(str(error.java_exception.toString()))]
    cause = error.java_exception.getCause()
    while cause is not None and len(said) < _MOST_CAUSES:
        said.append(first_line(str(cause.toString())))
        cause = cause.getCause()
    return with_cause(said[0], said[1:])
