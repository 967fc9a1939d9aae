"""Every derived topic holds each record once, whatever became of the runs before, on a real Spark.

A run is stopped without a last commit: what it wrote since its newest one is known only to the sinks.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import StartPositions
from headrace.pipeline.plan import Explode, Filter, Project, QueryPlan, TableLookup
from headrace.pipeline.runs.commits import History
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.statements.queries import JoinKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import INTEGER, VARCHAR, ArrayType
from tests.pipeline.plans.harness import (
    SECONDS,
    Out,
    Plans,
    columns,
    computed,
    everything,
    named,
    plan,
    read,
    source,
)


@contextmanager
def _started(plans: Plans, query: PlanQuery) -> Iterator[RunningQuery]:
    running = query.start(plans.cluster.lookup((*query.source_topics, *query.written_topics)))
    try:
        yield running
    finally:
        running.stop()


def _recorded(plans: Plans, running: RunningQuery, name: str, position: int) -> None:
    """Record commits until one covers so many records of the source."""
    deadline = time.monotonic() + SECONDS
    while _committed(plans.commits.history(name)) < position:
        assert running.handle.isActive, running.handle.exception()
        assert time.monotonic() < deadline, plans.commits.history(name)
        running.record(time.monotonic())
        time.sleep(0.02)


def _committed(history: History) -> int:
    newest = history.newest
    return sum(sum(each.values()) for each in newest.positions.values()) if newest is not None else 0


def _numbers(records: Sequence[Out]) -> list[int]:
    return sorted(record.json["A"] for record in records)


def _copy(plans: Plans, *, partitions: int = 2, name: str = "in") -> tuple[str, QueryPlan]:
    """`SELECT *` of a topic of numbers."""
    topic = plans.topic(name, partitions)
    sink = source(plans.new_name("out"), value=columns(A=INTEGER), partitions=partitions)
    return topic, plan(everything(source(topic, value=columns(A=INTEGER))), sink)


def _produce(plans: Plans, topic: str, numbers: Sequence[int], partitions: int = 2) -> None:
    for number in numbers:
        plans.produce(topic, (None, {"a": number}), partition=number % partitions)


@pytest.mark.parametrize("mode", ["real-time", pytest.param("micro-batch", marks=pytest.mark.long)])
def test_a_run_stopped_in_the_middle_leaves_nothing_twice_and_nothing_out(plans: Plans, mode: str) -> None:
    topic, the_plan = _copy(plans)
    query = plans.query(the_plan, mode=mode, name="CSAS_KILLED_1")
    sink = the_plan.sink.topic
    for last in (100, 200, 300):
        _produce(plans, topic, range(last - 100, last))
        plans.produce(topic, (None, b"{"))
        with _started(plans, query) as running:
            # Some rows are there, and no commit; or the commit is of an earlier batch.
            plans.read(sink, last - 70, running)
    with _started(plans, query) as running:
        results = plans.read(sink, 300, running)
        dead = plans.read(f"{topic}_dlq", 3, running)
        _recorded(plans, running, "CSAS_KILLED_1", 303)
    assert _numbers(results) == list(range(300))
    assert len(dead) == 3
    with _started(plans, query) as running:
        _produce(plans, topic, range(300, 310))
        assert _numbers(plans.read(sink, 310, running)) == list(range(310))


@pytest.mark.parametrize("mode", [pytest.param("real-time", marks=pytest.mark.long), "micro-batch"])
def test_a_table_function_and_a_filter(plans: Plans, mode: str) -> None:
    topic = plans.topic("lists", 2)
    stream = source(topic, value=columns(L=ArrayType(INTEGER)))
    sink = source(plans.new_name("out"), value=columns(A=INTEGER), partitions=2)
    odd = Filter(input=read(stream), condition=computed("`S.L`[0] % 2 = 1"))
    root = Explode(input=odd, functions=(named("A", "`S.L`", INTEGER),))
    the_plan = plan(Project(input=root, keys=(), values=(named("A", "`A`", INTEGER),)), sink)
    query = plans.query(the_plan, mode=mode, name=f"CSAS_LISTS_{mode[0]}")
    expected: list[int] = []
    for begin in (0, 40, 80):
        for number in range(begin, begin + 40):
            plans.produce(topic, (None, {"l": [number, -number, 1000]}), partition=number % 2)
            if number % 2:
                expected += [number, -number, 1000]
        with _started(plans, query) as running:
            plans.read(sink.topic, len(expected) - 20, running)
    with _started(plans, query) as running:
        assert _numbers(plans.read(sink.topic, len(expected), running)) == sorted(expected)
        _recorded(plans, running, query.name, 120)
    assert _numbers(plans.read(sink.topic, 0)) == sorted(expected)


def test_a_look_up_that_shuffles(plans: Plans) -> None:
    """The statement that lost rows: offsets leave a look-up in any order."""
    topic, users = plans.topic("events", 4), plans.topic("users", 4)
    stream = source(topic, key=columns(U=VARCHAR), value=columns(A=INTEGER))
    table = source(users, key=columns(U=VARCHAR), value=columns(N=INTEGER), kind=SourceKind.TABLE)
    look_up = TableLookup(
        kind=JoinKind.LEFT,
        stream=read(stream, "S"),
        table=read(table, "T"),
        stream_key=computed("`S.U`"),
        table_key=computed("`T.U`"),
        is_global=False,
    )
    values = (named("A", "`S.A`", INTEGER), named("N", "`T.N`", INTEGER))
    root = Project(input=look_up, keys=(named("U", "`S.U`"),), values=values)
    sink = source(
        plans.new_name("out"), key=columns(U=VARCHAR), value=columns(A=INTEGER, N=INTEGER), partitions=4
    )
    query = plans.query(plan(root, sink), name="CSAS_LOOKED_UP_1")
    plans.produce(users, *((f"u{number}", {"n": number}) for number in range(0, 50, 2)), ("u0", b"{"))
    for begin in (0, 1000):
        records: list[Any] = [(f"u{number % 50}", {"a": number}) for number in range(begin, begin + 1000)]
        plans.produce(topic, *records)
        with _started(plans, query) as running:
            plans.read(sink.topic, begin + 300, running)
    with _started(plans, query) as running:
        results = plans.read(sink.topic, 2000, running)
        _recorded(plans, running, query.name, 2000)
        dead = plans.read(f"{users}_dlq", 1, running)
    assert _numbers(results) == list(range(2000))
    assert all(out.json["N"] == (out.json["A"] % 50 if out.json["A"] % 2 == 0 else None) for out in results)
    with _started(plans, query) as running:
        plans.produce(topic, ("u1", {"a": 2000}))
        assert _numbers(plans.read(sink.topic, 2001, running)) == list(range(2001))
        assert len(plans.read(f"{users}_dlq", 1, running)) == len(dead) == 1


def test_topics_that_are_recreated_and_grow(plans: Plans) -> None:
    """A recreated sink is filled again; a recreated source and new partitions are read from the beginning."""
    topic, the_plan = _copy(plans)
    query = plans.query(the_plan, name="CSAS_AGAIN_1")
    sink = the_plan.sink.topic
    _produce(plans, topic, range(20))
    with _started(plans, query) as running:
        plans.read(sink, 20, running)
        _recorded(plans, running, query.name, 20)
    plans.delete(sink)
    query.make_topics(plans.cluster)
    with _started(plans, query) as running:
        assert _numbers(plans.read(sink, 20, running)) == list(range(20))
        _recorded(plans, running, query.name, 20)
    plans.delete(topic)
    plans.cluster.create_topic(topic, partitions=2)
    _produce(plans, topic, range(20, 30))
    with _started(plans, query) as running:
        assert _numbers(plans.read(sink, 30, running)) == list(range(30))
        _recorded(plans, running, query.name, 10)
    _add_partition(plans, topic, 3)
    _produce(plans, topic, range(30, 60), partitions=3)
    with _started(plans, query) as running:
        assert _numbers(plans.read(sink, 60, running)) == list(range(60))


@pytest.mark.long
def test_a_query_that_began_at_the_end_and_lost_its_checkpoints_and_commits(plans: Plans) -> None:
    topic, the_plan = _copy(plans)
    _produce(plans, topic, range(10))
    of_topic = _offsets(plans, plans.cluster.lookup([topic])[topic])
    _produce(plans, topic, range(10, 20))
    start = StartPositions(sources=of_topic, sinks={})
    settings = dataclasses.replace(plans.settings, pipeline_mode="micro-batch")
    sink = the_plan.sink.topic

    def query() -> PlanQuery:
        return PlanQuery(
            plans.spark,
            the_plan,
            settings,
            plans.registry,
            query_id="CSAS_LATEST_2",
            commits=plans.commits,
            starting_offsets="latest",
            start=start,
        )

    first = query()
    first.make_topics(plans.cluster)
    with _started(plans, first) as running:
        assert _numbers(plans.read(sink, 10, running)) == list(range(10, 20))
        _recorded(plans, running, first.name, 20)
    first.forget()
    _produce(plans, topic, range(20, 30))
    with _started(plans, query()) as running:
        assert _numbers(plans.read(sink, 20, running)) == list(range(10, 30))


def test_two_queries_into_one_topic_and_a_producer_of_its_own(plans: Plans) -> None:
    first_topic, first_plan = _copy(plans)
    second_topic, second_plan = _copy(plans)
    second_plan = dataclasses.replace(second_plan, sink=first_plan.sink)
    first = plans.query(first_plan, name="INSERTQUERY_1")
    second = plans.query(second_plan, name="INSERTQUERY_2")
    sink = first_plan.sink.topic
    _produce(plans, first_topic, range(10))
    _produce(plans, second_topic, range(10))
    plans.produce(sink, (None, {"A": 77}))
    with _started(plans, first) as one, _started(plans, second) as two:
        plans.read(sink, 15, one)
        assert two.handle.isActive
    _produce(plans, first_topic, range(10, 20))
    with _started(plans, second) as two, _started(plans, first) as one:
        plans.read(sink, 31, one)
        _recorded(plans, one, first.name, 20)
        _recorded(plans, two, second.name, 10)
    found = Counter(record.json["A"] for record in plans.read(sink, 31))
    assert found == Counter([*range(10), *range(20), 77])


@pytest.mark.parametrize("on_gap", ["continue", "stop"])
def test_records_that_expired_unread_are_a_gap(plans: Plans, on_gap: str) -> None:
    topic, the_plan = _copy(plans, partitions=1)
    settings = dataclasses.replace(plans.settings, pipeline_mode="micro-batch", pipeline_on_gap=on_gap)
    plans.settings = settings
    query = plans.query(the_plan, name=f"CSAS_GAP_{on_gap}")
    sink = the_plan.sink.topic
    _produce(plans, topic, range(10), partitions=1)
    with _started(plans, query) as running:
        plans.read(sink, 10, running)
        _recorded(plans, running, query.name, 10)
    _produce(plans, topic, range(10, 30), partitions=1)
    _delete_before(plans, topic, 25)
    if on_gap == "stop":
        with pytest.raises(HeadraceError, match="has not read offsets 10 to 24 of partition 0 of topic in_"):
            query.start(plans.cluster.lookup((*query.source_topics, *query.written_topics)))
        return
    with _started(plans, query) as running:
        assert _numbers(plans.read(sink, 15, running)) == [*range(10), *range(25, 30)]
        plans.wait_for_a_batch(running)
        assert running.has_proved_itself()
        (gap,) = running.gaps
        assert (gap.topic, gap.partition, gap.first, gap.end) == (topic, 0, 10, 25)
    with _started(plans, query) as running:
        assert running.gaps == (gap,), "a gap stays known, and counts once"


def _offsets(plans: Plans, topic: TopicIdentity) -> dict[str, dict[int, int]]:
    latest = plans.cluster.latest([topic])
    return {topic.topic_id: {number: latest[topic.name, number] for number in range(topic.partitions)}}


def _add_partition(plans: Plans, topic: str, total: int) -> None:

    admin = AdminClient({"bootstrap.servers": plans.bootstrap})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(SECONDS)
    while len(plans.producer.list_topics(topic).topics[topic].partitions) < total:
        time.sleep(0.02)


def _delete_before(plans: Plans, topic: str, offset: int) -> None:

    admin = AdminClient({"bootstrap.servers": plans.bootstrap})
    place = TopicPartition(topic, 0, offset)
    admin.delete_records([place])[place].result(SECONDS)
