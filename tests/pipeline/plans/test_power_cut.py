"""A derived topic that loses its newest records in a power failure gets them again, each once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import KEPT
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.statements.types import INTEGER
from tests.broker.broker_process import PowerCutBroker
from tests.pipeline.plans.harness import SECONDS, Plans, columns, everything, plan, source

SYNCED = {"flush.messages": KEPT["flush.messages"]}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[PowerCutBroker]:
    process = PowerCutBroker(tmp_path / "log")
    process.start()
    yield process
    process.end()


@pytest.mark.long
@pytest.mark.parametrize("survivors", ["none", "some"])
def test_what_a_sink_has_lost_is_derived_again(
    spark: SparkSession, machine: PowerCutBroker, tmp_path: Path, survivors: str
) -> None:
    plans = Plans(spark=spark, bootstrap=machine.bootstrap, folder=tmp_path)
    topic = plans.new_name("in")
    # Its records are synced before they are acknowledged; those of the sink are not.
    plans.cluster.create_topic(topic, partitions=2, config=SYNCED)
    sink = source(plans.new_name("out"), value=columns(A=INTEGER), partitions=2)
    the_plan = plan(everything(source(topic, value=columns(A=INTEGER))), sink)
    name = f"CSAS_CUT_{survivors}"
    query = plans.query(the_plan, mode="micro-batch", name=name)
    for begin in (0, 100, 200):
        for number in range(begin, begin + 100):
            plans.produce(topic, (None, {"a": number}), partition=number % 2)
        _run(plans, query, name, sink.topic, begin + 100)
        machine.cut_power("some" if survivors == "some" else "none")
        machine.start()
        plans.cluster = Cluster(machine.bootstrap)
        # The pipeline's machine went down, too: all it knows is in the log.
        plans.commits = CommitLog(plans.cluster)
        query = plans.query(the_plan, mode="micro-batch", name=name)
    results = _run(plans, query, name, sink.topic, 300)
    assert results == list(range(300))


@pytest.mark.long
def test_a_chain_of_two_queries_derives_each_record_once(
    spark: SparkSession, machine: PowerCutBroker, tmp_path: Path
) -> None:
    """The topic between them loses nothing, not even what was written before anybody read it."""
    plans = Plans(spark=spark, bootstrap=machine.bootstrap, folder=tmp_path)
    topic = plans.new_name("in")
    plans.cluster.create_topic(topic, partitions=2, config=SYNCED)
    between = source(plans.new_name("between"), value=columns(A=INTEGER), partitions=2)
    out = source(plans.new_name("out"), value=columns(A=INTEGER), partitions=2)
    plans.cluster.create_topic(out.topic, partitions=2, config=SYNCED)
    first = plan(everything(source(topic, value=columns(A=INTEGER))), between)
    second = plan(everything(between), out)
    results: list[int] = []
    for begin in (0, 50, 100):
        for number in range(begin, begin + 50):
            plans.produce(topic, (None, {"a": number}), partition=number % 2)
        # The first query knows nothing of the second when it starts for the first time.
        synced = frozenset({between.topic}) if begin else frozenset[str]()
        query = plans.query(first, name="CSAS_FIRST", synced_topics=synced)
        _run(plans, query, "CSAS_FIRST", between.topic, begin + 50)
        query = plans.query(second, name="CSAS_SECOND", synced_topics=frozenset({between.topic}))
        results = _run(plans, query, "CSAS_SECOND", out.topic, begin + 50)
        machine.cut_power("none")
        machine.start()
        plans.cluster = Cluster(machine.bootstrap)
        plans.commits = CommitLog(plans.cluster)
    assert results == list(range(150))


def _run(plans: Plans, query: PlanQuery, name: str, sink: str, count: int) -> list[int]:
    """Run until all records are there and committed; what is in the sink."""
    running = query.start(plans.cluster.lookup((*query.source_topics, *query.written_topics)))
    try:
        results = plans.read(sink, count, running)
        deadline = time.monotonic() + SECONDS
        while (newest := plans.commits.history(name).newest) is None or sum(
            sum(each.values()) for each in newest.positions.values()
        ) < count:
            assert time.monotonic() < deadline, newest
            running.record(time.monotonic())
            time.sleep(0.02)
    finally:
        running.stop()
    return sorted(record.json["A"] for record in results)
