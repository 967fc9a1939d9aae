"""Runs the cases of `tests/statements/cases`: rules, plans, Spark and a broker as they are.

Topics get a prefix for each case, so that cases can run side by side; what the statements say stays as it is.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Encoding, Source
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.serving.inferring import inferred_columns
from headrace.pipeline.spark.formats.avro_format import new_schema_id
from headrace.pipeline.spark.formats.choosing import schema_to_register
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource, CreateType, InsertSelect, Parsed
from tests.pipeline.case_pull_queries import compare_with_pull_queries
from tests.pipeline.case_records import expected_text, raw_text, to_bytes, to_text
from tests.pipeline.plans.harness import MemoryRegistry
from tests.statements.case_files import DEAD_LETTERS, Case, Expect, Line, Schema, Settle, Write

SECONDS = 240.0
_MOST_RESTARTS = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What all cases share."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    registry: MemoryRegistry


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Shown:
    """A record as text, to be compared; the time is left out where nobody asked for it."""

    key: str
    window: str
    value: str
    time: str

    def __str__(self) -> str:
        parts = (f"{self.key} {self.window}".strip(), self.value, self.time)
        return " | ".join(part for part in parts if part)


class SharedRegistry(MemoryRegistry):
    """A registry that cases use at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def register(self, subject: str, schema: str) -> int:
        with self._lock:
            return super().register(subject, schema)


class _PrefixedSchemas:
    """The registry with the subjects of one case, as its statements know them."""

    def __init__(self, registry: MemoryRegistry, prefix: str) -> None:
        self._registry = registry
        self._prefix = prefix

    def schemas_of(self, subject: str) -> dict[int, str]:
        return self._registry.schemas_of(self._prefix + subject)

    def schema_by_id(self, schema_id: int) -> str | None:
        return self._registry.schema_by_id(schema_id)

    def register(self, subject: str, schema: str) -> int:
        return self._registry.register(self._prefix + subject, schema)


def run(case: Case, around: Around) -> None:
    """Raises AssertionError where the case is not met."""
    _RunningCase(case, around).run()


class _RunningCase:
    def __init__(self, case: Case, around: Around) -> None:
        self._case = case
        self._around = around
        self._prefix = f"c{uuid.uuid4().hex[:8]}_"
        self._schemas = _PrefixedSchemas(around.registry, self._prefix)
        self._cluster = Cluster(around.bootstrap)
        self._settings = dataclasses.replace(
            Settings(),
            engine="external",
            bootstrap_servers=around.bootstrap,
            data_dir=around.folder / self._prefix,
            real_time_batch_seconds=5,
            pipeline_slots=12,
            pipeline_mode="real-time" if case.is_real_time else "micro-batch",
        )
        self._commits = CommitLog(self._cluster)
        self._producer = Producer({"bootstrap.servers": around.bootstrap, "linger.ms": 20})
        self._catalogue = Catalogue()
        self._queries: list[PlanQuery] = []
        self._running: list[RunningQuery] = []
        # The next offset to read, by topic and partition.
        self._positions: dict[tuple[str, int], int] = defaultdict(int)
        self._live: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def run(self) -> None:
        is_planned = False
        try:
            for action in self._case.actions:
                if not is_planned and not isinstance(action, Schema):
                    self._plan()
                    is_planned = True
                match action:
                    case Schema():
                        self._schemas.register(action.subject, action.text)
                    case Write():
                        self._write(action)
                    case Settle():
                        self._settle()
                    case Expect():
                        self._check(action)
            if not self._case.is_real_time:
                statements = [parsed.statement for parsed in parse(self._case.statements)]
                compare_with_pull_queries(statements, self._catalogue, self._cluster, self._around.registry)
        finally:
            for running in self._running:
                running.stop()

    # Statements.

    def _plan(self) -> None:
        for parsed in parse(self._case.statements):
            self._take(parsed)

    def _take(self, parsed: Parsed) -> None:
        statement, catalogue = parsed.statement, self._catalogue
        match statement:
            case CreateSource():
                inferred = inferred_columns(statement, self._schemas)
                planned = plan_source(statement, catalogue, text=parsed.text, inferred=inferred)
                source = dataclasses.replace(planned, topic=self._prefix + planned.topic)
                self._cluster.create_topic(source.topic, partitions=source.partitions)
                catalogue.sources[source.name] = source
            case CreateType():
                catalogue.types[statement.name] = statement.type
            case CreateAs() | InsertSelect():
                plan = plan_query(statement, catalogue, text=parsed.text)
                if isinstance(statement, CreateAs):
                    sink = dataclasses.replace(plan.sink, topic=self._prefix + plan.sink.topic)
                    plan = dataclasses.replace(plan, sink=sink)
                    catalogue.sources[sink.name] = sink
                self._queries.append(self._query(plan))
            case _:
                raise AssertionError(f"cases have no {type(statement).__name__}")

    def _query(self, plan: QueryPlan) -> PlanQuery:
        query = PlanQuery(
            self._around.spark,
            plan,
            self._settings,
            self._around.registry,
            query_id=f"Q{len(self._queries)}_{self._prefix}",
            commits=self._commits,
        )
        query.make_topics(self._cluster)
        return query

    # Records that go in.

    def _write(self, action: Write) -> None:
        topic = self._prefix + action.topic
        source = self._source_of(topic)
        for line in action.lines:
            key = self._to_bytes(line.key, source, "key")
            if line.window is not None:
                assert key is not None
                key += line.window[0].to_bytes(8, "big")
            more: dict[str, Any] = {} if line.time is None else {"timestamp": line.time}
            if line.partition is not None:
                more["partition"] = line.partition
            headers = [(name, content.encode()) for name, content in line.headers]
            value = self._to_bytes(line.value, source, "value")
            self._producer.produce(topic, value, key, headers=headers, **more)
        assert self._producer.flush(SECONDS) == 0

    def _source_of(self, topic: str) -> Source:
        return next(source for source in self._catalogue.sources.values() if source.topic == topic)

    def _to_bytes(self, text: str, source: Source, side: str) -> bytes | None:
        encoding, columns = _side(source, side)
        subject = f"{source.topic.removeprefix(self._prefix)}-{side}"

        def schema() -> tuple[int, str]:
            known = self._schemas.schemas_of(subject)
            if known:
                return list(known.items())[-1]
            made = schema_to_register(encoding, columns, side=side)
            assert made is not None
            return self._schemas.register(subject, made), made

        return to_bytes(text, encoding, columns, schema)

    # Queries.

    def _settle(self) -> None:
        """Wait until the queries have nothing left to do, those that feed others first."""
        if not self._running:
            for query in self._queries:
                self._running.append(self._started(query))
        if self._case.is_real_time:
            return
        for number, query in enumerate(self._queries):
            for _ in range(_MOST_RESTARTS):
                try:
                    for handle in _handles(self._running[number]):
                        handle.processAllAvailable()
                    break
                except Exception as error:
                    # A schema that is new to the query ends it, and the keeper starts it again.
                    if new_schema_id(str(error)) is None:
                        raise
                    self._running[number].stop()
                    self._running[number] = self._started(query)

    def _started(self, query: PlanQuery) -> RunningQuery:
        return query.start(self._cluster.lookup((*query.source_topics, *query.written_topics)))

    # Records that come out.

    def _check(self, action: Expect) -> None:
        self._settle()
        is_dead = action.topic == DEAD_LETTERS
        topic = self._prefix + action.topic
        messages = self._read_dead() if is_dead else self._read(topic)
        deadline = time.monotonic() + SECONDS
        while self._case.is_real_time and len(messages) < len(action.lines):
            assert all(running.handle.isActive for running in self._running), "a query has ended"
            assert time.monotonic() < deadline, f"{action.topic} has only {len(messages)} records"
            messages += self._read_dead() if is_dead else self._read(topic)
        if is_dead:
            found = [_dead(message) for message in messages]
            expected = [Shown(line.key, "", line.value, line.reason) for line in action.lines]
        else:
            source = self._source_of(topic)
            with_time = any(line.time is not None for line in action.lines)
            found = [self._shown(message, source, with_time=with_time) for message in messages]
            expected = [_expected(line, with_time=with_time) for line in action.lines]
        if action.how == "as a table":
            found = self._changes(topic, found)
        if action.how != "in order":
            found, expected = sorted(found), sorted(expected)
        if found != expected:
            dead = [] if is_dead else [_dead(message) for message in self._read_dead()]
            raise AssertionError(_difference(action.topic, found, expected, dead))

    def _changes(self, topic: str, found: list[Shown]) -> list[Shown]:
        last = {(each.key, each.window): each for each in found}
        live = self._live[topic]
        changes = [each for where, each in last.items() if each.value != "null" or where in live]
        live |= set(last)
        live -= {where for where, each in last.items() if each.value == "null"}
        return changes

    def _shown(self, message: Any, source: Source, *, with_time: bool) -> Shown:
        raw_key, window = message.key(), ""
        if source.window is not None and raw_key is not None:
            start = int.from_bytes(raw_key[-8:], "big")
            if source.window.size_ms is None:
                end, raw_key = int.from_bytes(raw_key[-16:-8], "big"), raw_key[:-16]
            else:
                end, raw_key = start + source.window.size_ms, raw_key[:-8]
            window = f"[{start}..{end}]"
        headers = dict(message.headers() or ())
        return Shown(
            key=to_text(raw_key, *_side(source, "key"), self._around.registry),
            window=window,
            value=to_text(message.value(), *_side(source, "value"), self._around.registry),
            time=f"@{headers['headrace-rowtime'].decode()}" if with_time else "",
        )

    def _read_dead(self) -> list[Any]:
        topics = {topic for query in self._queries for topic in query.query.dead_letter_topics.values()}
        return [message for topic in sorted(topics) for message in self._read(topic)]

    def _read(self, topic: str) -> list[Any]:
        """What was added to a topic since it was last read."""
        partitions = self._cluster.lookup([topic])[topic].partitions
        consumer: Any = Consumer(
            {
                "bootstrap.servers": self._around.bootstrap,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        found: list[Any] = []
        at_end: set[int] = set()
        deadline = time.monotonic() + SECONDS
        try:
            consumer.assign(
                [
                    TopicPartition(topic, number, self._positions[topic, number])
                    for number in range(partitions)
                ]
            )
            while len(at_end) < partitions:
                assert time.monotonic() < deadline, f"{topic} cannot be read"
                message = consumer.poll(0.2)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(message.partition())
                    continue
                self._positions[topic, message.partition()] = message.offset() + 1
                found.append(message)
        finally:
            consumer.close()
        return found


def _handles(running: RunningQuery) -> list[StreamingQuery]:
    """Spark's queries behind one of ours: several where it copies tables or looks for dead letters."""
    several: list[StreamingQuery] = vars(running.handle).get("_handles", [])
    return several or [running.handle]


def _side(source: Source, side: str) -> tuple[Encoding, tuple[Column, ...]]:
    if side == "key":
        return source.key_encoding, source.key
    return source.value_encoding, source.value


def _expected(line: Line, *, with_time: bool) -> Shown:
    return Shown(
        key=expected_text(line.key),
        window="" if line.window is None else f"[{line.window[0]}..{line.window[1]}]",
        value=expected_text(line.value),
        time=f"@{line.time}" if with_time else "",
    )


def _difference(topic: str, found: list[Shown], expected: list[Shown], dead: list[Shown]) -> str:
    parts = {f"{topic} has:": found, "instead of:": expected, "dead letters:": dead}
    return "\n".join(
        line for title, records in parts.items() for line in (title, *(f"  {each}" for each in records))
    )


def _dead(message: Any) -> Shown:
    headers = dict(message.headers() or ())
    return Shown(raw_text(message.key()), "", raw_text(message.value()), headers["headrace-error"].decode())
