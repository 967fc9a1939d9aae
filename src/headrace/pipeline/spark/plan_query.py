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

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.topics import TopicDirectory, TopicIdentity, largest_message
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.catalogue.catalogue import Encoding, Format, Source
from headrace.pipeline.query_plan import QueryPlan, reads_of
from headrace.pipeline.rules.modes import Mode, mode_of
from headrace.pipeline.spark.formats.avro_format import WriterSchemas, new_schema_id, writer_schemas
from headrace.pipeline.spark.formats.choosing import schema_to_register, writer_of
from headrace.pipeline.spark.formats.reading import BytesWriter
from headrace.pipeline.spark.queries import RunningQuery
from headrace.pipeline.spark.steps.notes import EARLIEST
from headrace.pipeline.spark.steps.refusals import refuse_what_spark_cannot
from headrace.pipeline.spark.steps.starting import Start
from headrace.pipeline.statements.tree import SourceKind

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
        free_slots: Callable[[], int] | None = None,
        starting_offsets: str = EARLIEST,
    ) -> None:
        self.name = query_id
        self.plan = plan
        self.source_topics = tuple(dict.fromkeys(read.source.topic for read in reads_of(plan.root)))
        self.dead_letter_topics = {topic: dead_letter_topic(topic) for topic in self.source_topics}
        self.written_topics = tuple(dict.fromkeys((plan.sink.topic, *self.dead_letter_topics.values())))
        self._spark = spark
        self.settings = settings
        self._registry = registry
        self.starting_offsets = starting_offsets
        self._free_slots = free_slots or (lambda: settings.pipeline_slots)
        self._handle: StreamingQuery | None = None
        self._learned: dict[int, str] = {}
        self._absent: set[int] = set()
        refuse_what_spark_cannot(plan)

    def mode(self, topics: Mapping[str, TopicIdentity]) -> Mode:
        return mode_of(
            self.plan,
            partitions=topics[self.source_topics[0]].partitions,
            free_slots=self._free_slots(),
            settings=self.settings,
        )

    def make_topics(self, directory: TopicDirectory) -> None:
        """Make what the query writes to, as the sink has it: a table's topic is compacted."""
        size = {"max.message.bytes": largest_message(self.settings)}
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
        for topic in self.dead_letter_topics.values():
            directory.ensure(topic, partitions=self.settings.default_partitions, config=size)

    @property
    def folder(self) -> Path:
        """Where its checkpoints are, one for each incarnation of its topics."""
        return self.settings.data_dir / "pipeline" / "checkpoints" / self.name

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
        try:
            running = Start(self, session, topics, mode).run()
        except (PySparkException, Py4JError) as error:
            first_line = next(iter(str(error).splitlines()), type(error).__name__)
            raise HeadraceError(
                "pipeline_failed", f"Spark refuses the plan of query {self.name}: {first_line}"
            ) from error
        self._handle = running.handle
        running.outdated = self._outdated
        return running

    def _outdated(self) -> str:
        """A schema that was not in the registry when it was asked for may be there now."""
        for schema_id in sorted(self._absent):
            if self._registry.schema_by_id(schema_id) is not None:
                return f"starts again to read records of schema {schema_id}, which the registry has by now"
        return ""

    def _all(self, topics: Mapping[str, TopicIdentity]) -> Mapping[str, TopicIdentity]:
        """Those that the caller did not look up."""
        names = (*self.source_topics, *self.written_topics)
        lacking = [name for name in names if name not in topics]
        found = dict(topics)
        if lacking:
            found |= TopicDirectory(self.settings.bootstrap).lookup(lacking)
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
        return writer_schemas(known | self._learned, absent=self._absent)

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
