"""Runs plans on a real Spark against a real broker: records in by a Kafka client, records out by another."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.plan import Named, Project, QueryPlan, Read, Step, reads_of
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import VARCHAR, DataType

AT = Position(3, 14)
# A busy machine takes its time to compile a query; waiting costs nothing where it succeeds.
SECONDS = 240.0
_PAUSE_SECONDS = 0.02


def computed(spark: str, kind: DataType = VARCHAR) -> Computed:
    return Computed(text=spark, spark=spark, type=kind, at=AT)


def named(name: str, spark: str, kind: DataType = VARCHAR) -> Named:
    return Named(name=name, value=computed(spark, kind))


def columns(**types: DataType) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=kind) for name, kind in types.items())


def source(
    topic: str,
    *,
    key: tuple[Column, ...] = (),
    value: tuple[Column, ...] = (),
    kind: SourceKind = SourceKind.STREAM,
    key_format: Format = Format.KAFKA,
    value_format: Format = Format.JSON,
    **more: Any,
) -> Source:
    more.setdefault("key_encoding", Encoding(format=key_format if key else Format.NONE))
    more.setdefault("value_encoding", Encoding(format=value_format))
    return Source(name=topic.upper(), kind=kind, topic=topic, key=key, value=value, **more)


def read(of: Source, alias: str = "S") -> Read:
    return Read(source=of, alias=alias, at=AT)


def everything(of: Source, alias: str = "S") -> Project:
    """`SELECT *`."""
    return Project(
        input=read(of, alias),
        keys=tuple(named(each.name, f"`{alias}.{each.name}`", each.type) for each in of.key),
        values=tuple(named(each.name, f"`{alias}.{each.name}`", each.type) for each in of.value),
    )


def plan(root: Step, sink: Source, emit: Emit = Emit.CHANGES) -> QueryPlan:
    return QueryPlan(root=root, sink=sink, emit=emit)


@dataclass(frozen=True, kw_only=True)
class Out:
    """A record as a client reads it."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return None if self.value is None else json.loads(self.value)

    @property
    def rowtime(self) -> int:
        return int(self.headers["headrace-rowtime"])


class MemoryRegistry:
    """A registry without a server: the same answers as `RegistryClient`."""

    def __init__(self) -> None:
        self.by_id: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}

    def register(self, subject: str, schema: str) -> int:
        known = next((number for number, each in self.by_id.items() if each == schema), None)
        number = known if known is not None else len(self.by_id) + 1
        self.by_id[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def schema_by_id(self, schema_id: int) -> str | None:
        return self.by_id.get(schema_id)

    def schemas_of(self, subject: str) -> dict[int, str]:
        return {number: self.by_id[number] for number in self.subjects.get(subject, ())}

    def why_not(self, _subject: str, _schema: str) -> str | None:
        """Any schema may follow any other."""
        return None


@dataclass(kw_only=True)
class Plans:
    """What a test of plans needs: topics of its own, ways to write and read them, and to run a plan."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    # Those of queries that share the machine with many others.
    turns: Turns | None = None

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.bootstrap)
        self.commits = CommitLog(self.cluster)
        self.settings = dataclasses.replace(
            Settings(),
            engine="external",
            bootstrap_servers=self.bootstrap,
            data_dir=self.folder,
            real_time_batch_seconds=5,
            pipeline_slots=12,
        )
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})

    def topic(self, name: str, partitions: int = 1) -> str:
        full = f"{name}_{uuid.uuid4().hex[:8]}"
        self.cluster.create_topic(full, partitions=partitions)
        return full

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(SECONDS)
        while self.cluster.lookup([topic]):
            time.sleep(_PAUSE_SECONDS)

    def new_name(self, name: str) -> str:
        return f"{name}_{uuid.uuid4().hex[:8]}"

    def produce(
        self,
        topic: str,
        *records: tuple[bytes | str | None, Any] | tuple[bytes | str | None, Any, int],
        partition: int = -1,
        headers: dict[str, bytes] | None = None,
    ) -> None:
        """Records as (key, value, timestamp); a value that is no bytes is written as JSON."""
        for record in records:
            key, value = record[0], record[1]
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            more: dict[str, Any] = {"timestamp": record[2]} if len(record) == 3 else {}
            if partition >= 0:
                more["partition"] = partition
            self.producer.produce(topic, raw, key, headers=headers, **more)
        assert self.producer.flush(SECONDS) == 0

    def query(
        self,
        the_plan: QueryPlan,
        *,
        mode: str = "micro-batch",
        name: str | None = None,
        starting_offsets: str = "earliest",
        synced_topics: frozenset[str] = frozenset(),
    ) -> PlanQuery:
        query = PlanQuery(
            self.spark,
            the_plan,
            dataclasses.replace(self.settings, pipeline_mode=mode),
            self.registry,
            commits=self.commits,
            query_id=name or f"CSAS_{uuid.uuid4().hex[:8]}",
            starting_offsets=starting_offsets,
            synced_topics=synced_topics,
            pace=lambda: 0 if self.turns is None else 10,
            turns=self.turns,
        )
        query.make_topics(self.cluster)
        return query

    @contextmanager
    def running(
        self,
        the_plan: QueryPlan,
        *,
        mode: str = "micro-batch",
        name: str | None = None,
        starting_offsets: str = "earliest",
    ) -> Iterator[RunningQuery]:
        query = self.query(the_plan, mode=mode, name=name, starting_offsets=starting_offsets)
        started = query.start(self.cluster.lookup((*query.source_topics, *query.written_topics)))
        try:
            yield started
        finally:
            started.stop()

    def results(
        self, the_plan: QueryPlan, count: int, *, mode: str = "micro-batch", dead: int = 0
    ) -> tuple[list[Out], list[Out]]:
        """Run until there are so many results and dead letters; then all that is there of both."""
        with self.running(the_plan, mode=mode) as query:
            results = self.read(the_plan.sink.topic, count, query)
            first = reads_of(the_plan.root)[0].source.topic
            return results, self.read(f"{first}_dlq", dead, query)

    def wait_until_ended(self, query: RunningQuery) -> None:
        """Wait for a query that is to fail."""
        deadline = time.monotonic() + SECONDS
        while query.handle.isActive:
            assert time.monotonic() < deadline, "the query runs on"
            time.sleep(_PAUSE_SECONDS)

    def wait_for_a_batch(self, query: RunningQuery) -> None:
        """Wait until a query has settled where it begins: its first batch may be empty."""
        deadline = time.monotonic() + SECONDS
        while query.handle.lastProgress is None:
            assert query.handle.isActive, query.handle.exception()
            assert time.monotonic() < deadline, "no batch"
            time.sleep(_PAUSE_SECONDS)

    def wait_for_watermark(self, query: RunningQuery, milliseconds: int) -> None:
        """Wait for a batch with this watermark: the one after it drops what comes too late for it."""
        wanted = datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        deadline = time.monotonic() + SECONDS
        while (query.handle.lastProgress or {}).get("eventTime", {}).get("watermark", "") < wanted:
            assert query.handle.isActive, query.handle.exception()
            assert time.monotonic() < deadline, f"no batch after {wanted}"
            time.sleep(_PAUSE_SECONDS)

    def read(self, topic: str, count: int, query: RunningQuery | None = None) -> list[Out]:
        """All records of a topic, once there are at least `count`."""
        return self.until(topic, lambda found: len(found) >= count, query)

    def until(
        self, topic: str, enough: Callable[[Sequence[Out]], bool], query: RunningQuery | None = None
    ) -> list[Out]:
        """All records of a topic, once they are `enough`; fails when the query does, or after a while."""
        partitions = self.cluster.lookup([topic])[topic].partitions
        consumer: Any = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # The end of a partition is told with an answer that has no records.
                "fetch.wait.max.ms": 50,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[Out] = []
        at_end: set[int] = set()
        deadline = time.monotonic() + SECONDS
        try:
            while not (len(at_end) == partitions and enough(found)):
                if query is not None and not query.handle.isActive:
                    raise AssertionError(f"the query ended: {query.handle.exception()}")
                if time.monotonic() > deadline:
                    raise AssertionError(f"{topic} has only {found}")
                message = consumer.poll(0.2)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(message.partition())
                    continue
                at_end.discard(message.partition())
                found.append(_out(message))
            return found
        finally:
            consumer.close()


def _out(message: Any) -> Out:
    return Out(
        key=message.key(),
        value=message.value(),
        partition=message.partition(),
        offset=message.offset(),
        headers={name: (value or b"").decode("utf-8", "replace") for name, value in message.headers() or ()},
    )


def latest(records: Sequence[Out]) -> dict[bytes | None, Any]:
    """A table's topic as a table: the last value of each key, as JSON; deletions left out."""
    rows: dict[bytes | None, Any] = {}
    for record in records:
        rows[record.key] = record.json
    return {key: value for key, value in rows.items() if value is not None}
