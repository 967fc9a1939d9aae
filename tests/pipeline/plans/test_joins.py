"""Joins: of streams within a span of time, and of streams with tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.lake.coordinates import parse_source
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.plan import Filter, Project, QueryPlan, StreamJoin, TableLookup
from headrace.pipeline.spark.steps.table_copy import TableCopy
from headrace.pipeline.statements.queries import JoinKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import INTEGER, VARCHAR
from tests.pipeline.plans.harness import SECONDS, Out, Plans, columns, computed, named, plan, read, source


def _stream(topic: str) -> Source:
    return source(topic, key=columns(ID=VARCHAR), value=columns(V=VARCHAR))


def _pairs(records: list[Out]) -> set[tuple[str, Any, Any]]:
    return {((out.key or b"").decode(), out.json["L"], out.json["R"]) for out in records}


def _stream_join(plans: Plans, left: Source, right: Source, kind: JoinKind) -> QueryPlan:
    """LEFT within (2 seconds before, 4 seconds after), GRACE PERIOD 1 SECOND."""
    join = StreamJoin(
        kind=kind,
        left=read(left, "L"),
        right=read(right, "R"),
        left_key=computed("`L.ID`"),
        right_key=computed("`R.ID`"),
        before_ms=2_000,
        after_ms=4_000,
        grace_ms=1_000,
    )
    root = Project(
        input=join,
        keys=(named("ID", "coalesce(`L.ID`, `R.ID`)"),),
        values=(named("L", "`L.V`"), named("R", "`R.V`")),
    )
    sink = source(plans.new_name("joined"), key=columns(ID=VARCHAR), value=columns(L=VARCHAR, R=VARCHAR))
    return plan(root, sink)


MATCHED = {("a", "a@10", "a@8"), ("a", "a@10", "a@14"), ("b", "b@11", "b@11")}
ONLY_LEFT = {("c", "c@10", None)}
ONLY_RIGHT = {("a", None, "a@7.9"), ("d", None, "d@10")}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, MATCHED),
        (JoinKind.LEFT, MATCHED | ONLY_LEFT),
        (JoinKind.RIGHT, MATCHED | ONLY_RIGHT),
        (JoinKind.FULL, MATCHED | ONLY_LEFT | ONLY_RIGHT),
    ],
)
def test_streams_within_a_span_of_time(
    plans: Plans, kind: JoinKind, expected: set[tuple[str, Any, Any]]
) -> None:
    left, right = _stream(plans.topic("left", partitions=2)), _stream(plans.topic("right", partitions=3))
    the_plan = _stream_join(plans, left, right, kind)
    plans.produce(
        left.topic,
        ("a", {"v": "a@10"}, 10_000),
        ("b", {"v": "b@11"}, 11_000),
        ("c", {"v": "c@10"}, 10_000),
        (None, {"v": "no key"}, 10_000),
        ("c", None, 10_000),
    )
    plans.produce(
        right.topic,
        ("a", {"v": "a@7.9"}, 7_900),
        ("a", {"v": "a@8"}, 8_000),
        ("a", {"v": "a@14"}, 14_000),
        ("b", {"v": "b@11"}, 11_000),
        ("d", {"v": "d@10"}, 10_000),
        (None, {"v": "no key"}, 10_000),
    )
    with plans.running(the_plan) as query:
        plans.until(the_plan.sink.topic, lambda found: _pairs(list(found)) >= MATCHED, query)
        # Time goes on, on both sides: what has found no partner by now finds none any more.
        for number in (1, 2):
            plans.produce(left.topic, (f"later{number}", {"v": "x"}, 60_000 * number))
            plans.produce(right.topic, (f"later{number + 2}", {"v": "y"}, 60_000 * number))
        results = plans.until(the_plan.sink.topic, lambda found: _pairs(list(found)) >= expected, query)
    early = [out for out in results if not (out.key or b"").startswith(b"later")]
    assert _pairs(early) == expected
    assert len(early) == len(expected), "each pair once"
    times = {(out.json["L"], out.json["R"]): out.rowtime for out in early}
    assert times[("a@10", "a@8")] == 10_000
    assert times[("a@10", "a@14")] == 14_000


@pytest.mark.long
def test_late_and_repeated_records_of_a_stream_join(plans: Plans) -> None:
    left, right = _stream(plans.topic("left")), _stream(plans.topic("right"))
    the_plan = _stream_join(plans, left, right, JoinKind.INNER)
    plans.produce(left.topic, ("a", {"v": "l1"}, 10_000), ("a", {"v": "l1"}, 10_000))
    plans.produce(right.topic, ("a", {"v": "r1"}, 10_000))
    with plans.running(the_plan) as query:
        results = plans.read(the_plan.sink.topic, 2, query)
        assert [(out.json["L"], out.json["R"]) for out in results] == [("l1", "r1"), ("l1", "r1")]
        plans.produce(left.topic, ("b", {"v": "l2"}, 100_000))
        plans.produce(right.topic, ("b", {"v": "r2"}, 100_000))
        plans.read(the_plan.sink.topic, 3, query)
        # The next batch has the new watermark: this pair is too late by far ...
        plans.produce(left.topic, ("a", {"v": "late"}, 10_000))
        plans.produce(right.topic, ("a", {"v": "late"}, 10_000))
        plans.produce(left.topic, ("b", {"v": "l3"}, 100_500))
        results = plans.read(the_plan.sink.topic, 4, query)
    # ... and the state of the first one is gone.
    assert [(out.json["L"], out.json["R"]) for out in results[2:]] == [("l2", "r2"), ("l3", "r2")]


def _lookup(
    plans: Plans, stream: Source, table: Source, kind: JoinKind, *, is_global: bool = False
) -> QueryPlan:
    join = TableLookup(
        kind=kind,
        stream=read(stream, "S"),
        table=read(table, "T"),
        stream_key=computed("`S.V`"),
        table_key=computed("`T.ID`"),
        is_global=is_global,
    )
    root = Project(
        input=join, keys=(named("ID", "`S.ID`"),), values=(named("L", "`S.V`"), named("R", "`T.NAME`"))
    )
    sink = source(plans.topic("enriched"), key=columns(ID=VARCHAR), value=columns(L=VARCHAR, R=VARCHAR))
    return plan(root, sink)


def _table(topic: str) -> Source:
    return source(
        topic, kind=SourceKind.TABLE, key=columns(ID=VARCHAR), value=columns(NAME=VARCHAR, N=INTEGER)
    )


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
def test_a_stream_with_a_table_that_changes(plans: Plans, kind: JoinKind) -> None:
    stream, table = (
        _stream(plans.topic("orders", partitions=2)),
        _table(plans.topic("products", partitions=3)),
    )
    the_plan = _lookup(plans, stream, table, kind)
    plans.produce(
        table.topic, ("t", {"name": "old"}), ("t", {"name": "tea"}), ("x", {"name": "gone"}), ("x", None)
    )
    plans.produce(table.topic, ("c", {"name": "cup"}), ("c", b"broken"))
    plans.produce(stream.topic, ("1", {"v": "t"}), ("2", {"v": "x"}), ("3", {"v": None}), ("4", {"v": "c"}))
    plans.produce(stream.topic, ("5", b"broken too"))
    matched = {("1", "t", "tea"), ("4", "c", "cup")}
    expected = matched | ({("2", "x", None), ("3", None, None)} if kind is JoinKind.LEFT else set())
    with plans.running(the_plan) as query:
        results = plans.until(the_plan.sink.topic, lambda found: len(found) >= len(expected), query)
        assert _pairs(results) == expected
        identity = plans.cluster.lookup([stream.topic])[stream.topic]
        assert {parse_source(out.headers["headrace-source"].encode()).topic_id for out in results} == {
            identity.topic_id
        }
        # Each source has its dead letters in its own topic.
        (of_table,) = plans.read(f"{table.topic}_dlq", 1, query)
        (of_stream,) = plans.read(f"{stream.topic}_dlq", 1, query)
        assert (of_table.key, of_table.value) == (b"c", b"broken")
        assert (of_stream.key, of_stream.value) == (b"5", b"broken too")
        plans.produce(table.topic, ("t", {"name": "green tea"}), ("c", None))
        plans.produce(stream.topic, ("6", {"v": "c"}), ("7", {"v": "t"}))
        results = plans.until(the_plan.sink.topic, lambda found: any(out.key == b"7" for out in found), query)
        assert ("7", "t", "green tea") in _pairs(results)
        assert (("6", "c", None) in _pairs(results)) == (kind is JoinKind.LEFT)
    assert query.mode == "micro-batch"


@pytest.mark.long
def test_a_stream_with_a_part_of_a_table(plans: Plans) -> None:
    stream, table = _stream(plans.topic("orders")), _table(plans.topic("products"))
    join = TableLookup(
        kind=JoinKind.LEFT,
        stream=Filter(input=read(stream, "S"), condition=computed("`S.V` <> 'no'")),
        table=Filter(input=read(table, "T"), condition=computed("`T.N` > 1")),
        stream_key=computed("`S.V`"),
        table_key=computed("`T.ID`"),
        is_global=False,
    )
    root = Project(
        input=join, keys=(named("ID", "`S.ID`"),), values=(named("L", "`S.V`"), named("R", "`T.NAME`"))
    )
    sink = source(plans.topic("enriched"), key=columns(ID=VARCHAR), value=columns(L=VARCHAR, R=VARCHAR))
    plans.produce(table.topic, ("t", {"name": "tea", "n": 1}), ("c", {"name": "cup", "n": 2}))
    plans.produce(stream.topic, ("1", {"v": "t"}), ("2", {"v": "no"}), ("3", {"v": "c"}))
    results, _ = plans.results(plan(root, sink), 2)
    assert _pairs(results) == {("1", "t", None), ("3", "c", "cup")}


@pytest.mark.parametrize("mode", [pytest.param("micro-batch", marks=pytest.mark.long), "real-time"])
def test_a_global_table_changes_while_the_query_runs(plans: Plans, mode: str) -> None:
    stream, table = _stream(plans.topic("orders", partitions=2)), _table(plans.topic("products"))
    the_plan = _lookup(plans, stream, table, JoinKind.LEFT, is_global=True)
    plans.produce(
        table.topic, ("t", {"name": "tea"}), ("c", {"name": "cup"}), ("x", {"name": "x"}), ("x", None)
    )
    plans.produce(stream.topic, ("1", {"v": "t"}), ("2", {"v": "c"}), ("3", {"v": "x"}))
    with plans.running(the_plan, mode=mode) as query:
        assert query.mode == mode
        results = plans.read(the_plan.sink.topic, 3, query)
        assert _pairs(results) == {("1", "t", "tea"), ("2", "c", "cup"), ("3", "x", None)}
        spark_plan = query.handle._jsq.explainInternal(False)
        assert "BroadcastHashJoin" in spark_plan
        assert "Exchange hashpartitioning" not in spark_plan, "no row of the stream is moved"
        plans.produce(table.topic, ("t", {"name": "green tea"}), ("c", None))
        seen = _repeat_until(
            plans, stream.topic, the_plan, query, lambda pairs: {("t", "green tea"), ("c", None)} <= pairs
        )
        assert {row for row in seen if row[0] == "x"} == {("x", None)}


def _repeat_until(
    plans: Plans,
    topic: str,
    the_plan: QueryPlan,
    query: Any,
    enough: Callable[[set[tuple[Any, Any]]], bool],
) -> set[tuple[Any, Any]]:
    """Ask again and again until the query has seen the change: it does so at the end of a batch."""
    deadline = time.monotonic() + SECONDS
    sent = 3
    while True:
        assert time.monotonic() < deadline, "the change was never seen"
        plans.produce(topic, ("n", {"v": "t"}), ("n", {"v": "c"}), ("n", {"v": "x"}))
        sent += 3
        results = plans.read(the_plan.sink.topic, sent, query)
        pairs = {(out.json["L"], out.json["R"]) for out in results[-3:]}
        if enough(pairs):
            return pairs


@pytest.mark.long
def test_a_join_of_streams_goes_on_after_a_restart(plans: Plans) -> None:
    left, right = _stream(plans.topic("left")), _stream(plans.topic("right"))
    the_plan = _stream_join(plans, left, right, JoinKind.LEFT)
    plans.produce(left.topic, ("a", {"v": "l1"}, 10_000), ("b", {"v": "l2"}, 10_000))
    plans.produce(right.topic, ("b", {"v": "r2"}, 10_000))
    with plans.running(the_plan, name="CSAS_JOINED_1") as query:
        plans.read(the_plan.sink.topic, 1, query)
    plans.produce(right.topic, ("a", {"v": "r1"}, 10_500))
    with plans.running(the_plan, name="CSAS_JOINED_1") as query:
        results = plans.read(the_plan.sink.topic, 2, query)
    assert [(out.json["L"], out.json["R"]) for out in results] == [("l2", "r2"), ("l1", "r1")]


@pytest.mark.long
def test_a_copy_of_a_table_does_not_grow_by_its_past(plans: Plans) -> None:
    copy = TableCopy(plans.spark, plans.folder / "copy", readable=lambda records: records)
    copy.make()
    for number in range(3):
        batch = plans.spark.sql(
            f"SELECT CAST('k' AS BINARY) AS key, CAST('{number}' AS BINARY) AS value, 't' AS topic, "
            f"0 AS partition, {number}L AS offset, current_timestamp() AS timestamp, "
            "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
        )
        copy.refresh(batch, {0: number + 1})
    copy.tidy(hours=0)
    assert len(list((plans.folder / "copy").glob("*.parquet"))) == 1
    assert [bytes(row["value"]) for row in copy.records().collect()] == [b"2"]
