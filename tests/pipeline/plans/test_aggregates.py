"""Aggregations: of everything, of windows, final ones; tables with their deletions."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.catalogue.catalogue import Format, KeyWindow, Source
from headrace.pipeline.plan import Aggregate, AggregateCall, Filter, Project, QueryPlan
from headrace.pipeline.statements.position import NOWHERE
from headrace.pipeline.statements.queries import Duration, Emit, Window, WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import BIGINT, INTEGER, VARCHAR
from tests.pipeline.plans.harness import (
    Out,
    Plans,
    columns,
    computed,
    everything,
    latest,
    named,
    plan,
    read,
    source,
)

TUMBLING = Window(
    at=NOWHERE,
    kind=WindowKind.TUMBLING,
    size=Duration(at=NOWHERE, amount=10, unit="SECONDS"),
    grace=Duration(at=NOWHERE, amount=5, unit="SECONDS"),
)
HOPPING = Window(
    at=NOWHERE,
    kind=WindowKind.HOPPING,
    size=Duration(at=NOWHERE, amount=10, unit="SECONDS"),
    advance=Duration(at=NOWHERE, amount=5, unit="SECONDS"),
    grace=Duration(at=NOWHERE, amount=0, unit="SECONDS"),
)
SESSION = Window(
    at=NOWHERE,
    kind=WindowKind.SESSION,
    size=Duration(at=NOWHERE, amount=5, unit="SECONDS"),
    grace=Duration(at=NOWHERE, amount=1, unit="SECONDS"),
)


def call(name: str, spark: str) -> AggregateCall:
    return AggregateCall(name=name, value=computed(spark, BIGINT))


def _clicks(topic: str) -> Source:
    return source(topic, key=columns(ID=VARCHAR), value=columns(PAGE=VARCHAR, N=INTEGER))


def _sums(
    plans: Plans, clicks: Source, window: Window | None = None, *, emit: Emit = Emit.CHANGES, having: str = ""
) -> QueryPlan:
    """SELECT PAGE, COUNT(*), SUM(N), LATEST_BY_OFFSET(N) … GROUP BY PAGE."""
    aggregate = Aggregate(
        input=read(clicks),
        keys=(named("PAGE", "`S.PAGE`"),),
        calls=(
            call("HITS", "count(1)"),
            call("TOTAL", "sum(`S.N`)"),
            call("LAST", "max_by(`S.N`, `__ORDER`)"),
        ),
        window=window,
    )
    rows = Filter(input=aggregate, condition=computed(having)) if having else aggregate
    values = [named("HITS", "HITS", BIGINT), named("TOTAL", "TOTAL", BIGINT), named("LAST", "LAST", INTEGER)]
    types = {"HITS": BIGINT, "TOTAL": BIGINT, "LAST": INTEGER}
    key_window = None
    if window is not None:
        values += [named("FROM", "WINDOWSTART", BIGINT), named("TO", "WINDOWEND", BIGINT)]
        types |= {"FROM": BIGINT, "TO": BIGINT}
        is_session = window.kind is WindowKind.SESSION
        key_window = KeyWindow(kind=window.kind, size_ms=None if is_session else window.size.milliseconds)
    sink = source(
        plans.topic("sums"),
        kind=SourceKind.TABLE,
        key=columns(PAGE=VARCHAR),
        value=columns(**types),
        window=key_window,
    )
    return plan(Project(input=rows, keys=(named("PAGE", "PAGE"),), values=tuple(values)), sink, emit)


def _click(page: str | None, number: int | None, at: int = 1) -> tuple[str, dict[str, object], int]:
    return ("u", {"page": page, "n": number}, at)


def _windowed(records: list[Out]) -> dict[tuple[str, int, int], tuple[int, int]]:
    """The table: (page, start, end) to (count, sum)."""
    rows = {}
    for out in records:
        assert out.key is not None
        page, start = out.key[:-8].decode(), int.from_bytes(out.key[-8:], "big")
        assert out.json["FROM"] == start
        rows[(page, start, out.json["TO"])] = (out.json["HITS"], out.json["TOTAL"])
    return rows


def test_an_aggregation_of_everything(plans: Plans) -> None:
    topic = plans.topic("clicks", partitions=2)
    the_plan = _sums(plans, _clicks(topic))
    plans.produce(
        topic, _click("home", 1, 5_000), _click("cart", 2), _click("home", 10, 4_000), _click(None, 99)
    )
    plans.produce(topic, ("u", None), ("u", b"broken"), _click("cart", None, 9_000))
    with plans.running(the_plan) as query:
        results = plans.until(the_plan.sink.topic, lambda found: len(latest(found)) == 2, query)
        assert latest(results) == {
            b"home": {"HITS": 2, "TOTAL": 11, "LAST": 1},
            b"cart": {"HITS": 2, "TOTAL": 2, "LAST": None},
        }
        assert {out.key: out.rowtime for out in results} == {b"home": 5_000, b"cart": 9_000}
        (dead,) = plans.read(f"{topic}_dlq", 1, query)
        assert (dead.value, dead.headers["headrace-error"]) == (b"broken", "The value is not a JSON object.")
        plans.produce(topic, _click("home", 100, 6_000))
        results = plans.until(the_plan.sink.topic, lambda found: latest(found)[b"home"]["HITS"] == 3, query)
        assert latest(results)[b"home"] == {"HITS": 3, "TOTAL": 111, "LAST": 100}
        assert query.mode == "micro-batch"


@pytest.mark.long
def test_an_aggregation_goes_on_after_a_restart(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic))
    for round_number in (1, 2, 3):
        plans.produce(topic, _click("home", 1))
        with plans.running(the_plan, name="CTAS_SUMS_1") as query:
            plans.until(
                the_plan.sink.topic,
                lambda found, hits=round_number: bool(found) and found[-1].json["HITS"] == hits,  # type: ignore[misc]
                query,
            )
    folder = plans.settings.data_dir / "pipeline" / "checkpoints" / "CTAS_SUMS_1"
    names = {path.suffix for path in folder.rglob("state/0/*/*")}
    assert ".changelog" in names, f"RocksDB with changelog checkpoints: {names}"


def test_having_deletes_what_falls_out(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), having="TOTAL > 10")
    plans.produce(topic, _click("home", 20), _click("cart", 5))
    with plans.running(the_plan) as query:
        results = plans.read(the_plan.sink.topic, 2, query)
        assert latest(results) == {b"home": {"HITS": 1, "TOTAL": 20, "LAST": 20}}
        plans.produce(topic, _click("home", -15))
        results = plans.until(
            the_plan.sink.topic, lambda found: found[-1].key == b"home" and len(found) > 2, query
        )
        assert results[-1].value is None
        assert latest(results) == {}


def test_tumbling_windows(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), TUMBLING)
    plans.produce(topic, _click("home", 1, 1_000), _click("home", 2, 9_999), _click("home", 4, 10_000))
    with plans.running(the_plan) as query:
        expected = {("home", 0, 10_000): (2, 3), ("home", 10_000, 20_000): (1, 4)}
        plans.until(the_plan.sink.topic, lambda found: _windowed(list(found)) == expected, query)
        # Within the grace period of five seconds the first window still takes rows ...
        plans.produce(topic, _click("home", 8, 5_000), _click("home", 16, 14_999))
        expected = {("home", 0, 10_000): (3, 11), ("home", 10_000, 20_000): (2, 20)}
        plans.until(the_plan.sink.topic, lambda found: _windowed(list(found)) == expected, query)
        # ... and then no more.
        plans.produce(topic, _click("cart", 1, 15_000))
        expected |= {("cart", 10_000, 20_000): (1, 1)}
        plans.until(the_plan.sink.topic, lambda found: _windowed(list(found)) == expected, query)
        plans.wait_for_watermark(query, 10_000)
        plans.produce(topic, _click("home", 32, 9_999))
        plans.produce(topic, _click("home", 64, 16_000))
        expected |= {("home", 10_000, 20_000): (3, 84)}
        plans.until(the_plan.sink.topic, lambda found: _windowed(list(found)) == expected, query)


@pytest.mark.long
def test_hopping_windows(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), HOPPING)
    plans.produce(topic, _click("home", 1, 7_000), _click("home", 2, 12_000))
    expected = {
        ("home", 0, 10_000): (1, 1),
        ("home", 5_000, 15_000): (2, 3),
        ("home", 10_000, 20_000): (1, 2),
    }
    with plans.running(the_plan) as query:
        plans.until(the_plan.sink.topic, lambda found: _windowed(list(found)) == expected, query)


def test_final_windows_come_once_they_are_closed(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), TUMBLING, emit=Emit.FINAL)
    plans.produce(topic, _click("home", 1, 1_000), _click("home", 2, 12_000))
    with plans.running(the_plan) as query:
        plans.produce(topic, _click("home", 4, 2_000), _click("home", 8, 15_000))
        results = plans.read(the_plan.sink.topic, 1, query)
        assert [(out.json["FROM"], out.json["HITS"], out.json["TOTAL"]) for out in results] == [(0, 2, 5)]
        plans.produce(topic, _click("cart", 1, 25_000))
        results = plans.read(the_plan.sink.topic, 2, query)
        assert _windowed(results) == {("home", 0, 10_000): (2, 5), ("home", 10_000, 20_000): (2, 10)}


def test_final_session_windows(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), SESSION, emit=Emit.FINAL)
    plans.produce(
        topic,
        _click("home", 1, 1_000),
        _click("home", 2, 8_000),
        _click("home", 4, 4_500),
        _click("cart", 8, 2_000),
        _click("home", 16, 40_000),
    )
    results, _ = plans.results(the_plan, 2)
    found = {
        (out.key[:-16], int.from_bytes(out.key[-8:], "big"), int.from_bytes(out.key[-16:-8], "big")): out.json
        for out in results
        if out.key is not None
    }
    assert {place: (row["HITS"], row["TOTAL"]) for place, row in found.items()} == {
        (b"home", 1_000, 8_000): (3, 7),
        (b"cart", 2_000, 2_000): (1, 8),
    }
    assert {(row["FROM"], row["TO"]) for row in found.values()} == {(1_000, 8_000), (2_000, 2_000)}


@pytest.mark.long
def test_a_windowed_table_can_be_read_again(plans: Plans) -> None:
    topic = plans.topic("clicks")
    the_plan = _sums(plans, _clicks(topic), TUMBLING)
    plans.produce(topic, _click("home", 1, 12_000))
    plans.results(the_plan, 1)
    table = the_plan.sink
    rows = everything(table)
    sink = source(
        plans.new_name("again"),
        kind=SourceKind.TABLE,
        key=table.key,
        value=columns(HITS=BIGINT, FROM=BIGINT, TO=BIGINT),
        key_format=Format.JSON,
        window=table.window,
    )
    root = Project(
        input=rows.input,
        keys=rows.keys,
        values=(
            named("HITS", "`S.HITS`", BIGINT),
            named("FROM", "`S.WINDOWSTART`", BIGINT),
            named("TO", "`S.WINDOWEND`", BIGINT),
        ),
    )
    results, _ = plans.results(plan(root, sink), 1, mode="real-time")
    assert [(out.key, out.json) for out in results] == [
        (b'"home"' + (10_000).to_bytes(8, "big"), {"HITS": 1, "FROM": 10_000, "TO": 20_000})
    ]


@pytest.mark.long
def test_an_aggregation_of_a_table(plans: Plans) -> None:
    topic = plans.topic("table", partitions=2)
    table = source(
        topic, kind=SourceKind.TABLE, key=columns(ID=VARCHAR), value=columns(PAGE=VARCHAR, N=INTEGER)
    )
    the_plan = _sums(plans, table, having="HITS < 4")

    def shown(found: Any) -> dict[Any, Any]:
        return {key: (row["HITS"], row["TOTAL"]) for key, row in latest(found).items()}

    plans.produce(
        topic,
        ("a", {"page": "home", "n": 1}),
        ("b", {"page": "home", "n": 2}),
        ("c", {"page": "cart", "n": 4}),
        ("d", {"page": None, "n": 100}),
        ("a", {"page": "home", "n": 8}),
        ("c", b"broken"),
    )
    sink = the_plan.sink.topic
    with plans.running(the_plan, name="CTAS_OF_TABLE_1") as query:
        plans.until(sink, lambda found: shown(found) == {b"home": (2, 10), b"cart": (1, 4)}, query)
        (dead,) = plans.read(f"{topic}_dlq", 1, query)
        assert dead.value == b"broken"
        # A row moves to another group, and one goes: the groups that they were in are counted anew.
        plans.produce(topic, ("a", {"page": "cart", "n": 8}))
        plans.until(sink, lambda found: shown(found) == {b"home": (1, 2), b"cart": (2, 12)}, query)
    plans.produce(topic, ("b", None), ("e", {"page": "cart", "n": 16}))
    with plans.running(the_plan, name="CTAS_OF_TABLE_1") as query:
        # A group that has lost all its rows stays, with the aggregates of nothing.
        plans.until(sink, lambda found: shown(found) == {b"home": (0, None), b"cart": (3, 28)}, query)
        plans.produce(topic, ("f", {"page": "cart", "n": 1}))
        plans.until(sink, lambda found: shown(found) == {b"home": (0, None)}, query)


@pytest.mark.long
def test_the_latest_by_offset(plans: Plans) -> None:
    """By the key: offsets decide, however the times are."""
    topic = plans.topic("clicks", partitions=3)
    aggregate = Aggregate(
        input=read(_clicks(topic)),
        keys=(named("ID", "`S.ID`"),),
        calls=(call("LAST", "max_by(`S.N`, `__ORDER`)"), call("FIRST", "min_by(`S.N`, `__ORDER`)")),
        window=None,
    )
    sink = source(
        plans.new_name("last"),
        kind=SourceKind.TABLE,
        key=columns(ID=VARCHAR),
        value=columns(LAST=INTEGER, FIRST=INTEGER),
    )
    root = Project(
        input=aggregate,
        keys=(named("ID", "ID"),),
        values=(named("LAST", "LAST", INTEGER), named("FIRST", "FIRST", INTEGER)),
    )
    for key in "abc":
        plans.produce(topic, *((key, {"n": number}, 9_000 - number) for number in (1, 2, 3)))
    with plans.running(plan(root, sink)) as query:
        results = plans.until(sink.topic, lambda found: len(latest(found)) == 3, query)
    assert latest(results) == {key: {"LAST": 3, "FIRST": 1} for key in (b"a", b"b", b"c")}
