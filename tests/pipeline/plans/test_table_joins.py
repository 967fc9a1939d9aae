"""Joins of tables with tables, and what stands on top of joins."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.plan import (
    Aggregate,
    AggregateCall,
    Project,
    QueryPlan,
    StreamJoin,
    TableJoin,
    TableLookup,
)
from headrace.pipeline.statements.queries import JoinKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import BIGINT, VARCHAR
from tests.pipeline.plans.harness import Plans, columns, computed, latest, named, plan, read, source


def _table(topic: str) -> Source:
    return source(
        topic, kind=SourceKind.TABLE, key=columns(ID=VARCHAR), value=columns(V=VARCHAR, REF=VARCHAR)
    )


def _stream(topic: str) -> Source:
    return source(topic, key=columns(ID=VARCHAR), value=columns(V=VARCHAR))


def _join_plan(plans: Plans, join: TableJoin, key: str, *values: str) -> QueryPlan:
    sink = source(
        plans.new_name("joined"),
        kind=SourceKind.TABLE,
        key=columns(ID=VARCHAR),
        value=columns(**{f"V{number}": VARCHAR for number in range(len(values))}),
    )
    root = Project(
        input=join,
        keys=(named("ID", key),),
        values=tuple(named(f"V{number}", value) for number, value in enumerate(values)),
    )
    return plan(root, sink)


@pytest.mark.parametrize(
    ("kind", "key", "first", "second"),
    [
        (JoinKind.INNER, "`L.ID`", {b"a": ["l1", "r1"]}, {b"b": ["l2", "r3"]}),
        (
            JoinKind.LEFT,
            "`L.ID`",
            {b"a": ["l1", "r1"], b"b": ["l2", None]},
            {b"b": ["l2", "r3"]},
        ),
        (
            JoinKind.FULL,
            "coalesce(`L.ID`, `R.ID`)",
            {b"a": ["l1", "r1"], b"b": ["l2", None], b"c": [None, "r2"]},
            {b"a": [None, "r1"], b"b": ["l2", "r3"], b"c": [None, "r2"]},
        ),
    ],
)
@pytest.mark.long
def test_tables_by_their_keys(
    plans: Plans, kind: JoinKind, key: str, first: dict[bytes, Any], second: dict[bytes, Any]
) -> None:
    left, right = _table(plans.topic("left", partitions=2)), _table(plans.topic("right"))
    join = TableJoin(
        kind=kind,
        left=read(left, "L"),
        right=read(right, "R"),
        left_key=computed("`L.ID`"),
        right_key=computed("`R.ID`"),
        by_foreign_key=False,
    )
    the_plan = _join_plan(plans, join, key, "`L.V`", "`R.V`")
    plans.produce(left.topic, ("a", {"v": "l0"}, 1_000), ("a", {"v": "l1"}, 2_000), ("b", {"v": "l2"}, 3_000))
    plans.produce(right.topic, ("a", {"v": "r1"}, 4_000), ("c", {"v": "r2"}, 5_000), ("b", b"broken"))

    def shown(found: Any) -> dict[Any, list[Any]]:
        return {each: list(row.values()) for each, row in latest(found).items()}

    with plans.running(the_plan) as query:
        results = plans.until(the_plan.sink.topic, lambda found: shown(found) == first, query)
        assert max(out.rowtime for out in results if out.key == b"a") == 4_000
        plans.produce(left.topic, ("a", None, 6_000))
        plans.produce(right.topic, ("b", {"v": "r3"}, 7_000))
        plans.until(the_plan.sink.topic, lambda found: shown(found) == second, query)
        (dead,) = plans.read(f"{right.topic}_dlq", 1, query)
        assert (dead.key, dead.value) == (b"b", b"broken")


def test_tables_by_a_foreign_key(plans: Plans) -> None:
    orders, users = _table(plans.topic("orders", partitions=2)), _table(plans.topic("users", partitions=3))
    join = TableJoin(
        kind=JoinKind.INNER,
        left=read(orders, "O"),
        right=read(users, "U"),
        left_key=computed("`O.REF`"),
        right_key=computed("`U.ID`"),
        by_foreign_key=True,
    )
    the_plan = _join_plan(plans, join, "`O.ID`", "`O.V`", "`U.V`")
    plans.produce(users.topic, ("u", {"v": "Ann"}), ("w", {"v": "Will"}))
    plans.produce(orders.topic, *((f"o{n}", {"v": f"v{n}", "ref": ref}) for n, ref in enumerate("uuwx")))

    def shown(found: Any) -> dict[Any, list[Any]]:
        return {each: list(row.values()) for each, row in latest(found).items()}

    expected = {b"o0": ["v0", "Ann"], b"o1": ["v1", "Ann"], b"o2": ["v2", "Will"]}
    with plans.running(the_plan) as query:
        plans.until(the_plan.sink.topic, lambda found: shown(found) == expected, query)
        # A change on the right concerns all that refer to it, and a reference may move.
        plans.produce(users.topic, ("u", {"v": "Anna"}), ("w", None))
        plans.produce(orders.topic, ("o1", {"v": "v1", "ref": "gone"}))
        plans.until(the_plan.sink.topic, lambda found: shown(found) == {b"o0": ["v0", "Anna"]}, query)
        plans.produce(users.topic, ("x", {"v": "Xenia"}))
        expected = {b"o0": ["v0", "Anna"], b"o3": ["v3", "Xenia"]}
        plans.until(the_plan.sink.topic, lambda found: shown(found) == expected, query)


@pytest.mark.long
def test_three_tables(plans: Plans) -> None:
    sources = [_table(plans.topic(name)) for name in ("one", "two", "three")]
    inner = TableJoin(
        kind=JoinKind.INNER,
        left=read(sources[0], "A"),
        right=read(sources[1], "B"),
        left_key=computed("`A.ID`"),
        right_key=computed("`B.ID`"),
        by_foreign_key=False,
    )
    outer = TableJoin(
        kind=JoinKind.LEFT,
        left=inner,
        right=read(sources[2], "C"),
        left_key=computed("`A.ID`"),
        right_key=computed("`C.ID`"),
        by_foreign_key=False,
    )
    the_plan = _join_plan(plans, outer, "`A.ID`", "`A.V`", "`B.V`", "`C.V`")
    for each in sources[:2]:
        plans.produce(each.topic, ("k", {"v": "x"}))
    with plans.running(the_plan) as query:
        sink = the_plan.sink.topic
        plans.until(sink, lambda found: latest(found) == {b"k": {"V0": "x", "V1": "x", "V2": None}}, query)
        plans.produce(sources[2].topic, ("k", {"v": "y"}))
        plans.until(sink, lambda found: latest(found) == {b"k": {"V0": "x", "V1": "x", "V2": "y"}}, query)
        plans.produce(sources[1].topic, ("k", None))
        plans.until(sink, lambda found: latest(found) == {} and bool(found), query)


def _within(kind: JoinKind, left: Any, right: Any, left_key: str, right_key: str) -> StreamJoin:
    return StreamJoin(
        kind=kind,
        left=left,
        right=right,
        left_key=computed(left_key),
        right_key=computed(right_key),
        before_ms=5_000,
        after_ms=5_000,
        grace_ms=0,
    )


@pytest.mark.long
def test_three_streams(plans: Plans) -> None:
    sources = [_stream(plans.topic(name)) for name in ("one", "two", "three")]
    inner = _within(JoinKind.INNER, read(sources[0], "A"), read(sources[1], "B"), "`A.ID`", "`B.ID`")
    outer = _within(JoinKind.LEFT, inner, read(sources[2], "C"), "`A.ID`", "`C.ID`")
    sink = source(
        plans.new_name("three"), key=columns(ID=VARCHAR), value=columns(A=VARCHAR, B=VARCHAR, C=VARCHAR)
    )
    root = Project(
        input=outer,
        keys=(named("ID", "`A.ID`"),),
        values=(named("A", "`A.V`"), named("B", "`B.V`"), named("C", "`C.V`")),
    )
    for number, each in enumerate(sources):
        plans.produce(each.topic, ("k", {"v": f"v{number}"}, 10_000 + number))
    for each in sources[:2]:
        plans.produce(each.topic, ("alone", {"v": "v"}, 11_000))
    with plans.running(plan(root, sink)) as query:
        results = plans.read(sink.topic, 1, query)
        assert [(out.key, out.json) for out in results] == [(b"k", {"A": "v0", "B": "v1", "C": "v2"})]
        for moment in (100_000, 200_000, 300_000):
            for each in sources:
                plans.produce(each.topic, ("later", {"v": "x"}, moment))
        results = plans.until(sink.topic, lambda found: any(out.key == b"alone" for out in found), query)
        (alone,) = [out for out in results if out.key == b"alone"]
        assert alone.json == {"A": "v", "B": "v", "C": None}


def _counted(plans: Plans, step: Any, key: str) -> QueryPlan:
    aggregate = Aggregate(
        input=step,
        keys=(named("K", key),),
        calls=(AggregateCall(name="N", value=computed("count(1)", BIGINT)),),
        window=None,
    )
    sink = source(
        plans.topic("counts"), kind=SourceKind.TABLE, key=columns(K=VARCHAR), value=columns(N=BIGINT)
    )
    return plan(Project(input=aggregate, keys=(named("K", "K"),), values=(named("N", "N", BIGINT),)), sink)


@pytest.mark.long
def test_an_aggregation_of_what_was_looked_up(plans: Plans) -> None:
    stream, table = _stream(plans.topic("views")), _table(plans.topic("pages"))
    lookup = TableLookup(
        kind=JoinKind.INNER,
        stream=read(stream, "S"),
        table=read(table, "T"),
        stream_key=computed("`S.V`"),
        table_key=computed("`T.ID`"),
        is_global=False,
    )
    the_plan = _counted(plans, lookup, "`T.V`")
    plans.produce(table.topic, ("h", {"v": "home"}), ("c", {"v": "cart"}))
    plans.produce(stream.topic, ("1", {"v": "h"}), ("2", {"v": "h"}), ("3", {"v": "c"}), ("4", {"v": "-"}))
    with plans.running(the_plan) as query:
        plans.until(
            the_plan.sink.topic, lambda found: latest(found) == {b"home": {"N": 2}, b"cart": {"N": 1}}, query
        )
        plans.produce(table.topic, ("-", {"v": "home"}))
        plans.produce(stream.topic, ("5", {"v": "-"}))
        plans.until(
            the_plan.sink.topic, lambda found: latest(found) == {b"home": {"N": 3}, b"cart": {"N": 1}}, query
        )


@pytest.mark.long
def test_an_aggregation_of_an_inner_join_of_streams(plans: Plans) -> None:
    left, right = _stream(plans.topic("left")), _stream(plans.topic("right"))
    join = _within(JoinKind.INNER, read(left, "L"), read(right, "R"), "`L.ID`", "`R.ID`")
    the_plan = _counted(plans, join, "`L.V`")
    plans.produce(left.topic, ("a", {"v": "x"}, 1_000), ("b", {"v": "x"}, 1_000), ("c", {"v": "x"}, 1_000))
    plans.produce(right.topic, ("a", {"v": "x"}, 1_000), ("b", {"v": "x"}, 1_000))
    with plans.running(the_plan) as query:
        plans.until(the_plan.sink.topic, lambda found: latest(found) == {b"x": {"N": 2}}, query)
        plans.produce(right.topic, ("c", {"v": "x"}, 1_500))
        plans.until(the_plan.sink.topic, lambda found: latest(found) == {b"x": {"N": 3}}, query)


@pytest.mark.long
def test_the_times_of_three_streams_are_compared_by_the_joined_row(plans: Plans) -> None:
    """The third is near enough to the second, not to the first: the joined row has the later time."""
    sources = [_stream(plans.topic(name)) for name in ("one", "two", "three")]
    first = _within(JoinKind.INNER, read(sources[0], "A"), read(sources[1], "B"), "`A.ID`", "`B.ID`")
    second = _within(JoinKind.INNER, first, read(sources[2], "C"), "`A.ID`", "`C.ID`")
    sink = source(plans.new_name("three"), key=columns(ID=VARCHAR), value=columns(C=VARCHAR))
    root = Project(input=second, keys=(named("ID", "`A.ID`"),), values=(named("C", "`C.V`"),))
    plans.produce(sources[0].topic, ("k", {"v": "a"}, 10_000))
    plans.produce(sources[1].topic, ("k", {"v": "b"}, 15_000))
    for moment in (9_999, 10_000, 20_000, 20_001):
        plans.produce(sources[2].topic, ("k", {"v": str(moment)}, moment))
    results, _ = plans.results(plan(root, sink), 2)
    assert sorted((out.json["C"], out.rowtime) for out in results) == [("10000", 15_000), ("20000", 20_000)]
