"""A `QueryPlan` as a query of Spark's, for the keeper.

What holds for every plan: its checkpoint belongs to the incarnations of its topics, whose ids are in the
folder's name; records that cannot be read leave for the dead letters, as they came, with the reason and their
coordinates; records without a key stay in the lane of their source. A plan without state passes all that on
by one sink. One with state loses sight of single records, so its dead letters are found by a second query on
the same source, and its results carry no coordinates: they count with those of their own topic.

A record of an Avro schema that was not known at the start ends the query; the next start knows it
(`formats/avro_format.py`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue import Encoding, Format, Source
from headrace.pipeline.incarnations import TakenRange, taken_under_former_ids
from headrace.pipeline.query_plan import Aggregate, QueryPlan, Read, StreamJoin, TableJoin, reads_of
from headrace.pipeline.spark.formats.avro_format import WriterSchemas, new_schema_id
from headrace.pipeline.spark.formats.choosing import can_fail, schema_to_register, writer_of
from headrace.pipeline.spark.formats.reading import BytesWriter
from headrace.pipeline.spark.queries import RunningQuery
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.global_copy import GlobalCopy
from headrace.pipeline.spark.steps.modes import REAL_TIME, Mode, mode_of, steps_of
from headrace.pipeline.spark.steps.read import latest_rows, read_rows
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import dead_letters, sink_records
from headrace.pipeline.statements.queries import Emit, JoinKind, WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.topics import TopicDirectory, TopicIdentity, largest_message

logger = logging.getLogger(__name__)

EARLIEST: Final = "earliest"

_LARGEST_BATCH: Final = 200_000
_STATE_SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class SchemaRegistry(Protocol):
    """What a query asks of a registry; `registry_client.py` has it."""

    def register(self, subject: str, schema: str) -> int: ...

    def schema_by_id(self, schema_id: int) -> str | None: ...

    def schemas_of(self, subject: str) -> dict[int, str]: ...


class PlanQuery:
    """One query. `free_slots` tells how many task slots no other query holds for good.

    `starting_offsets`, earliest or latest, is where streams are read from at the very first start; tables are
    always read whole. From then on nothing is left out: a topic made again is read from its beginning.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: QueryPlan,
        settings: Settings,
        registry: SchemaRegistry,
        *,
        query_id: str,
        dead_letter_topic: str,
        free_slots: Callable[[], int] | None = None,
        starting_offsets: str = EARLIEST,
    ) -> None:
        self.name = query_id
        self.plan = plan
        self.source_topics = tuple(dict.fromkeys(read.source.topic for read in reads_of(plan.root)))
        self.written_topics = (plan.sink.topic, dead_letter_topic)
        self._spark = spark
        self._settings = settings
        self._registry = registry
        self._dead_letter_topic = dead_letter_topic
        self.starting_offsets = starting_offsets
        self._free_slots = free_slots or (lambda: settings.pipeline_slots)
        self._handle: StreamingQuery | None = None
        self._learned: dict[int, str] = {}
        self._absent: set[int] = set()
        _refuse_what_spark_cannot(plan)

    def mode(self, topics: Mapping[str, TopicIdentity]) -> Mode:
        return mode_of(
            self.plan,
            partitions=topics[self.source_topics[0]].partitions,
            free_slots=self._free_slots(),
            settings=self._settings,
        )

    def make_topics(self, directory: TopicDirectory) -> None:
        """Make what the query writes to, as the sink has it: a table's topic is compacted."""
        size = {"max.message.bytes": largest_message(self._settings)}
        sink = self.plan.sink
        config = dict(size)
        if sink.kind is SourceKind.TABLE:
            # A windowed table's keys never end, so old windows have to go by their age as well.
            config["cleanup.policy"] = "compact" if sink.window is None else "compact,delete"
        if sink.cleanup_policy is not None:
            config["cleanup.policy"] = sink.cleanup_policy
        if sink.retention_ms is not None:
            config["retention.ms"] = str(sink.retention_ms)
        directory.ensure(sink.topic, partitions=sink.partitions, config=config)
        directory.ensure(self._dead_letter_topic, partitions=self._settings.default_partitions, config=size)

    @property
    def folder(self) -> Path:
        """Where its checkpoints are, one for each incarnation of its topics."""
        return self._settings.data_dir / "pipeline" / "checkpoints" / self.name

    def forget(self) -> None:
        """Remove what it knows of its progress; for a query that is stopped and will not come back."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:
        topics = self._all(topics)
        self._learn()
        mode = self.mode(topics)
        session = self._spark.newSession()
        for name, value in _STATE_SETTINGS.items():
            session.conf.set(name, value)
        start = _Start(self, session, topics, mode)
        running = start.run()
        self._handle = running.handle
        return running

    def _all(self, topics: Mapping[str, TopicIdentity]) -> Mapping[str, TopicIdentity]:
        """The keeper knows one source; the others are looked up here."""
        names = (*self.source_topics, *self.written_topics)
        lacking = [name for name in names if name not in topics]
        found = dict(topics)
        if lacking:
            found |= TopicDirectory(self._settings.bootstrap).lookup(lacking)
        gone = [name for name in names if name not in found]
        if gone:
            raise HeadraceError(
                "pipeline_failed",
                f"Query {self.name} needs topics that do not exist: {', '.join(gone)}.",
                remedy="Create them, or drop the query.",
            )
        return found

    def _learn(self) -> None:
        """Look up the schema for want of which the query ended, and again those that were not there."""
        exception = self._handle.exception() if self._handle is not None else None
        wanted = new_schema_id(str(exception)) if exception is not None else None
        asked = self._absent | ({wanted} if wanted is not None else set())
        self._absent = set()
        for schema_id in asked:
            schema = self._registry.schema_by_id(schema_id)
            if schema is None:
                self._absent.add(schema_id)
            else:
                self._learned[schema_id] = schema

    def writer_schemas(self, source: Source, side: str) -> WriterSchemas:
        encoding = source.key_encoding if side == "key" else source.value_encoding
        if encoding.format is not Format.AVRO:
            return WriterSchemas()
        known = dict(self._registry.schemas_of(f"{source.topic}-{side}"))
        if encoding.schema_id is not None:
            schema = self._registry.schema_by_id(encoding.schema_id)
            known |= {encoding.schema_id: schema} if schema is not None else {}
        return WriterSchemas(by_id=known | self._learned, absent_from=min(self._absent, default=None))

    def writer(self, encoding: Encoding, side: str) -> BytesWriter:
        sink = self.plan.sink
        columns = sink.key if side == "key" else sink.value
        schema: tuple[int, str] | None = None
        text = schema_to_register(encoding, columns, side=side)
        if text is not None:
            schema = (self._registry.register(f"{sink.topic}-{side}", text), text)
        elif encoding.schema_id is not None:
            found = self._registry.schema_by_id(encoding.schema_id)
            if found is None:
                raise HeadraceError(
                    "schema_not_found",
                    f"The registry has no schema with id {encoding.schema_id}, which {sink.name} is to be "
                    "written with.",
                )
            schema = (encoding.schema_id, found)
        return writer_of(encoding, columns, side=side, schema=schema)


class _Start:
    """One start of a query: has the topics as they are now, and is the plan's `Inputs`."""

    def __init__(
        self, query: PlanQuery, session: SparkSession, topics: Mapping[str, TopicIdentity], mode: Mode
    ) -> None:
        self._query = query
        self._plan = query.plan
        self._settings = query._settings
        self._session = session
        self._topics = topics
        self._mode = mode
        ids = [topics[name].topic_id for name in (*query.source_topics, query.plan.sink.topic)]
        self._checkpoint = query.folder / "-".join(ids)
        self._starting_offsets = self._first_offsets()
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
        return RunningQuery(handle, self._mode.name, nullcontext())

    def _start_all(self, handles: list[StreamingQuery]) -> None:
        """The query itself, and one for the dead letters of each source that it does not see to."""
        query, plan = self._query, self._plan
        rows = built(plan.root, self)
        # The source whose records become results: also in a look-up the stream comes first.
        first, *others = reads_of(plan.root)
        records = sink_records(
            rows,
            plan.sink,
            topic=self._topics[plan.sink.topic],
            keys=query.writer(plan.sink.key_encoding, "key"),
            values=query.writer(plan.sink.value_encoding, "value"),
            dead_letter_topic=query.written_topics[1],
            at=first.at,
        )
        handles.append(self._started(records, "", output_mode=_output_mode(plan), mode=self._mode.name))
        for number, read in enumerate(others if rows.has_reasons else (first, *others)):
            if _can_fail(read.source):
                handles.append(self._dead_letters(read, number))

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
        copy = GlobalCopy(
            self._session, self._checkpoint.with_name(f"{self._checkpoint.name}-copy-{topic.topic_id}")
        )
        copy.make()
        self._keep_refreshed(copy, topic)
        return self._rows(read, copy.records())

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

    def _first_offsets(self) -> str:
        """Said once and kept: a second start before the first batch must not think that it is a later one."""
        memory = Path(f"{self._checkpoint}.starting.txt")
        if not memory.exists():
            is_first = not self._query.folder.exists()
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.write_text(self._query.starting_offsets if is_first else EARLIEST)
        return memory.read_text()

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
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("kafka.max.request.size", largest_message(self._settings))
            .option("checkpointLocation", str(self._checkpoint) + part)
        )
        if mode == REAL_TIME:
            # The stubs of PySpark 4.2 do not know this trigger yet; its code does.
            writer = writer.trigger(realTime=f"{self._settings.real_time_batch_seconds} seconds")  # type: ignore[call-overload]
        else:
            writer = writer.trigger(processingTime="0 seconds")
        return writer.start()

    def _dead_letters(self, read: Read, number: int) -> StreamingQuery:
        letters = dead_letters(
            self.changes(read), dead_letter_topic=self._query.written_topics[1], at=read.at
        )
        return self._started(letters, f"-dead-letters-{number}", output_mode="append", mode="micro-batch")

    def _keep_refreshed(self, copy: GlobalCopy, topic: TopicIdentity) -> None:
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
        memory = Path(f"{self._checkpoint}.taken.json")
        if memory.exists():
            return msgspec.json.decode(memory.read_bytes(), type=tuple[TakenRange, ...])
        taken = taken_under_former_ids(
            self._settings.bootstrap,
            query=query.name,
            source=self._topics[query.source_topics[0]],
            derived=[self._topics[name] for name in query.written_topics],
        )
        if taken:
            logger.warning("Query %s leaves out what it took under a former id: %s", query.name, taken)
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_bytes(msgspec.json.encode(taken))
        return taken


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


def _output_mode(plan: QueryPlan) -> str:
    return "append" if plan.emit is Emit.FINAL or _outer_joins(plan) else "update"


def _outer_joins(plan: QueryPlan) -> bool:
    joins = [step for step in steps_of(plan.root) if isinstance(step, StreamJoin)]
    return any(join.kind is not JoinKind.INNER for join in joins)


def _refuse_what_spark_cannot(plan: QueryPlan) -> None:
    aggregates = [step for step in steps_of(plan.root) if isinstance(step, Aggregate)]
    for aggregate in aggregates:
        if aggregate.window is not None and any(isinstance(step, StreamJoin) for step in steps_of(aggregate)):
            raise HeadraceError(
                "pipeline_failed",
                "A window behind a join of streams would need a second watermark, which Spark has not.",
                remedy="Write the join to a stream of its own, and aggregate that.",
            )
    if plan.emit is Emit.FINAL or not aggregates:
        return
    windows = [step.window for step in aggregates if step.window is not None]
    if any(window.kind is WindowKind.SESSION for window in windows):
        raise HeadraceError(
            "pipeline_failed",
            "Session windows give their results when they are closed: Spark has no others.",
            remedy="End the statement with EMIT FINAL.",
        )
    if _outer_joins(plan):
        raise HeadraceError(
            "pipeline_failed",
            "An aggregation behind an outer join of streams cannot give changes: Spark has both of them only "
            "for results that are final.",
            remedy="Write the join to a stream of its own and aggregate that, or say EMIT FINAL.",
        )
