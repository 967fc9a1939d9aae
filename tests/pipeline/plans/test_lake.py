"""A plan whose sink is a table of the lake, behind a keeper, as the pipeline process runs it."""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Callable

from headrace.client.cluster import Cluster
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.lake.topic_values import TopicValues
from headrace.pipeline.spark.stateless import value_schema
from headrace.pipeline.spark.turns import Turns
from tests.example_plans import avro_plan, lake_sink
from tests.pipeline.plans.harness import SECONDS, Plans
from tests.pipeline.records import avro


def test_rows_of_known_new_and_absent_schemas(plans: Plans) -> None:
    events = f"e{uuid.uuid4().hex[:8]}"
    settings = dataclasses.replace(plans.settings, events_topic=events, lake_interval_ms=50)
    topic = f"{events}_avro"
    plans.cluster.create_topic(topic, partitions=1)
    known = value_schema(avro_plan(events))
    written: list[WrittenBatch] = []
    statuses: list[QueryStatus] = []
    sink = lake_sink(settings)
    query = TableQuery(
        plans.spark,
        sink,
        topic,
        settings,
        commits=plans.commits,
        turns=Turns(1),
        values=TopicValues(sink, topic, cluster=plans.cluster, registry_at=lambda _: plans.registry),
        on_batch=lambda _query, _number, batch: written.append(batch),
    )
    assert query.name == f"events-lake.{topic}"
    keeper = QueryKeeper(query, cluster=plans.cluster, on_status=statuses.append, wall_clock_ms=lambda: 1)

    def users() -> list[str]:
        rows = plans.spark.read.format("delta").load(query.location.uri).collect()
        return sorted(row["USER_ID"] for row in rows)

    try:
        plans.produce(
            topic, ("k", avro(known, _row("a"), schema_id=plans.registry.register(f"{topic}-value", known)))
        )
        _kept_until(keeper, plans.cluster, lambda: sum(batch.rows for batch in written) == 1)
        assert users() == ["a"]
        assert (statuses[-1].mode, statuses[-1].mode_reason) == (
            "micro-batch",
            "a batch is one commit of the lake",
        )

        fields = [{"name": name, "type": ["null", "string"]} for name in ("EVENT_TYPE", "USER_ID")]
        new = json.dumps({"type": "record", "name": "New", "fields": fields})
        new_id = plans.registry.register(f"{topic}-value", new)
        plans.produce(topic, ("k", avro(new, {"EVENT_TYPE": "View", "USER_ID": "b"}, schema_id=new_id)))
        _kept_until(keeper, plans.cluster, lambda: sum(batch.rows for batch in written) == 2)
        assert users() == ["a", "b"]
        assert f"schema {new_id}" in next(each.message for each in statuses if each.state == "WAITING")

        plans.produce(topic, ("k", b"\x00\x00\x00\x00\x63abc"))
        _kept_until(keeper, plans.cluster, lambda: sum(batch.dead_letters for batch in written) == 1)
        assert not [each for each in statuses if each.state == "FAILED"]
    finally:
        keeper.stop()
    (letter,) = plans.read(f"{topic}_dlq", 1)
    assert letter.headers["headrace-error"] == "The registry has no schema with id 99."
    checkpoints = settings.data_dir / "pipeline" / "checkpoints" / query.name
    assert len([each for each in checkpoints.iterdir() if each.is_dir()]) == 1, "each run has its own"


def test_a_table_may_begin_at_the_end_of_its_topic(plans: Plans) -> None:
    events = f"e{uuid.uuid4().hex[:8]}"
    settings = dataclasses.replace(plans.settings, events_topic=events, lake_interval_ms=50)
    topic = f"{events}_avro"
    plans.cluster.create_topic(topic, partitions=1)
    schema = value_schema(avro_plan(events))
    schema_id = plans.registry.register(f"{topic}-value", schema)
    sink = dataclasses.replace(lake_sink(settings), starts_at_latest=True)

    def users() -> list[str]:
        rows = plans.spark.read.format("delta").load(query().location.uri).collect()
        return sorted(row["USER_ID"] for row in rows)

    def query() -> TableQuery:
        return TableQuery(
            plans.spark,
            sink,
            topic,
            settings,
            commits=plans.commits,
            turns=Turns(1),
            values=TopicValues(sink, topic, cluster=plans.cluster, registry_at=lambda _: plans.registry),
        )

    def run(is_done: Callable[[QueryKeeper], bool]) -> None:
        keeper = QueryKeeper(
            query(), cluster=plans.cluster, on_status=lambda _: None, wall_clock_ms=lambda: 1
        )
        try:
            _kept_until(keeper, plans.cluster, lambda: is_done(keeper))
        finally:
            keeper.stop()

    plans.produce(topic, ("k", avro(schema, _row("before"), schema_id=schema_id)))
    run(lambda keeper: keeper.state == "RUNNING")
    # Nothing was read until the run ended: what comes between two runs is not forgotten.
    plans.produce(topic, ("k", avro(schema, _row("between"), schema_id=schema_id)))
    run(lambda _: users() == ["between"])


def _row(user: str) -> dict[str, str | None]:
    values = {"EVENT_TYPE": "View", "USER_ID": user, "SERVER_DATE": "2026-03-14"}
    others = ("EVENT_VERSION", "LISTING_ID", "SERVER_TIME", "DEVICE_TYPE")
    return values | dict.fromkeys(others, None)


def _kept_until(keeper: QueryKeeper, cluster: Cluster, is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_done():
        keeper.tick(cluster.lookup(keeper.topic_names), time.monotonic())
        assert time.monotonic() < deadline, f"not in time: {keeper.state}"
        time.sleep(0.05)
