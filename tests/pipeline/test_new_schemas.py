"""A writer's schema that is new to a running query: that query starts again and knows it, no other does."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.spark import statement_runner
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.registry.registry import Registry
from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import Plans
from tests.pipeline.running_statements import RunningStatements, running_statements

TOPICS = {"in": TopicIdentity(name="in", topic_id="i", partitions=1)}


class Ended:
    """A query of Spark's that has ended."""

    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, error: str) -> None:
        self._error = error

    def exception(self) -> str:
        return self._error


class Query:
    """Ends as soon as it has started, with the next of the errors."""

    name = "CSAS_O_1"
    source_topics = ("in",)
    written_topics = ()

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)
        self.starts = 0

    def make_topics(self, cluster: Cluster) -> None: ...

    def unready(self, topics: Mapping[str, TopicIdentity]) -> str:  # noqa: ARG002 - of the interface
        return ""

    def start(self, topics: Mapping[str, TopicIdentity]) -> RunningQuery:  # noqa: ARG002 - of the interface
        self.starts += 1
        handle: Any = Ended(self.errors.pop(0))
        return RunningQuery(handle, "real-time")


def test_a_new_schema_is_no_failure_and_nothing_is_waited_for() -> None:
    query, said = Query("[USER_RAISED] HEADRACE_NEW_SCHEMA 7 SQLSTATE", "disk full", ""), list[QueryStatus]()
    nothing: Any = None
    keeper = QueryKeeper(query, cluster=nothing, on_status=said.append, wall_clock_ms=lambda: 1)
    for _ in range(3):
        keeper.tick(TOPICS, 0.0)
    assert query.starts == 2
    assert [status.state for status in said] == ["RUNNING", "WAITING", "RUNNING"]
    assert "schema 7" in said[1].message
    for _ in range(3):
        keeper.tick(TOPICS, 0.0)
    assert query.starts == 2, "after a failure it waits a while"
    assert (said[-1].state, said[-1].message) == ("FAILED", "disk full")


def schema(**fields: Any) -> str:
    made = [{"name": name, "type": kind, "default": None} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Theirs", "fields": made})


@pytest.fixture
def registry(broker: EmbeddedBroker) -> Iterator[Registry]:
    started = Registry(broker.bootstrap, topic=f"_schemas_{uuid.uuid4().hex}")
    started.start()
    yield started
    started.stop()


@pytest.fixture
def plans(spark: SparkSession, broker: EmbeddedBroker, registry: Registry, tmp_path: Path) -> Plans:
    """With a registry that is one, unlike that of other tests of plans."""
    schemas: Any = RegistrySchemas(registry)
    return Plans(spark=spark, bootstrap=broker.bootstrap, folder=tmp_path, registry=schemas)


@pytest.fixture
def prefix() -> str:
    return f"n{uuid.uuid4().hex[:8]}_"


class Writer:
    """A producer elsewhere, with the registry's rules."""

    def __init__(self, plans: Plans, registry: Registry, topic: str) -> None:
        self._plans = plans
        self._registry = registry
        self._topic = topic

    def write(self, text: str, row: dict[str, Any]) -> int:
        schema_id = self._registry.register(f"{self._topic}-value", text)
        body = io.BytesIO(b"\x00" + schema_id.to_bytes(4, "big"))
        body.seek(5)
        fastavro.schemaless_writer(body, json.loads(text), row)
        self._plans.produce(self._topic, (None, body.getvalue()))
        return schema_id


def runs(running: RunningStatements) -> dict[str, str]:
    """Which run of Spark's each query is on."""
    keepers = running.reconcile()
    return {keeper.name: str(keeper._running.handle.runId) for keeper in keepers if keeper._running}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["real-time", "micro-batch", "in turns"])
def test_a_new_writer_schema_restarts_the_query_that_needs_it_alone(
    plans: Plans, registry: Registry, prefix: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "in turns":
        mode = "micro-batch"
        # As if there were many others.
        monkeypatch.setattr(statement_runner, "pace_ms", lambda _: 10)
    with running_statements(plans, f"_{prefix}statements", mode=mode, prefix=prefix) as running:
        for name in ("a", "b"):
            running.execute(
                f"CREATE STREAM {name} (id BIGINT, name VARCHAR) "
                f"WITH (KAFKA_TOPIC='{{p}}{name}', VALUE_FORMAT='AVRO', PARTITIONS=1);"
            )
        one, other = Writer(plans, registry, f"{prefix}a"), Writer(plans, registry, f"{prefix}b")
        old = schema(id=["null", "int"])
        one.write(old, {"id": 1})
        other.write(old, {"id": 1})
        running.execute(
            "CREATE STREAM oa WITH (KAFKA_TOPIC='{p}oa', VALUE_FORMAT='JSON') AS SELECT * FROM a;"
            "CREATE STREAM ob WITH (KAFKA_TOPIC='{p}ob', VALUE_FORMAT='JSON') AS SELECT * FROM b;"
        )
        running.read("oa", 1)
        running.read("ob", 1)
        before = runs(running)

        new = schema(id=["null", "long"], name=["null", "string"])
        assert one.write(new, {"id": 2**40, "name": "two"}) != one.write(old, {"id": 3})
        newest = schema(Name=["null", "string"])
        one.write(newest, {"Name": "four"})
        rows = [out.json for out in running.read("oa", 4)]
        # Between a start and the end for want of a schema, real-time mode may have written some already.
        assert {(row["ID"], row["NAME"]) for row in rows} == {
            (1, None),
            (2**40, "two"),
            (3, None),
            (None, "four"),
        }
        other.write(old, {"id": 5})
        assert [out.json["ID"] for out in running.read("ob", 2)] == [1, 5]

        after = runs(running)
        first, second = running.query_id("OA"), running.query_id("OB")
        assert after[first] != before[first]
        assert after[second] == before[second], "nobody needed it here"
        with pytest.raises(HeadraceError, match="BACKWARD"):
            one.write(schema(Name=["null", "boolean"]), {"Name": True})


@pytest.mark.long
def test_a_query_with_state_keeps_it_when_it_starts_again_for_a_new_schema(
    plans: Plans, registry: Registry, prefix: str
) -> None:
    with running_statements(plans, f"_{prefix}statements", prefix=prefix) as running:
        running.execute(
            "CREATE STREAM a (id BIGINT, name VARCHAR) "
            "WITH (KAFKA_TOPIC='{p}a', VALUE_FORMAT='AVRO', PARTITIONS=1);"
            "CREATE TABLE t WITH (KAFKA_TOPIC='{p}t', KEY_FORMAT='JSON', VALUE_FORMAT='JSON') AS "
            "SELECT id, COUNT(*) AS n, LATEST_BY_OFFSET(name) AS name FROM a GROUP BY id;"
        )
        writer = Writer(plans, registry, f"{prefix}a")
        old, new = schema(id=["null", "int"]), schema(id=["null", "long"], name=["null", "string"])

        def is_counted(number: int) -> bool:
            return [out.json["N"] for out in running.read("t", 1)][-1] == number

        writer.write(old, {"id": 1})
        running.until(lambda: is_counted(1))
        before = runs(running)
        writer.write(new, {"id": 1, "name": "one"})
        running.until(lambda: is_counted(2))
        assert runs(running) != before
        writer.write(old, {"id": 1})
        running.until(lambda: is_counted(3))
        assert plans.read(f"{prefix}a_dlq", 0) == []


@pytest.mark.long
def test_a_query_writes_with_the_registered_schema_and_goes_on_with_the_next(
    plans: Plans, registry: Registry, prefix: str
) -> None:
    with running_statements(plans, f"_{prefix}statements", prefix=prefix) as running:
        running.execute(
            "CREATE STREAM s (v INT, w INT) WITH (KAFKA_TOPIC='{p}s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        create = "CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{p}o', VALUE_FORMAT='AVRO') AS SELECT"
        running.execute(f"{create} v FROM s;")
        plans.produce(f"{prefix}s", (None, {"v": 1, "w": 2}))
        running.read("o", 1)
        running.until(lambda: running.committed("O") == 1)
        running.execute(f"{create} v, w FROM s;")
        # Until it is replaced the former query goes on.
        running.turn()
        plans.produce(f"{prefix}s", (None, {"v": 3, "w": 4}))
        found = running.read("o", 2)
        assert registry.versions(f"{prefix}o-value") == [1, 2]
        ids = [registry.version(f"{prefix}o-value", number).id for number in (1, 2)]
        assert [int.from_bytes((out.value or b"")[1:5], "big") for out in found] == ids


def test_ids_that_the_registry_has_not_are_known_one_by_one_until_they_are_many() -> None:
    few = writer_schemas({}, absent=[9, 3])
    assert (few.absent, few.absent_from) == ({3, 9}, None)
    many = writer_schemas({}, absent=range(100, 130))
    assert (many.absent, many.absent_from) == (set(range(100, 116)), 116)
