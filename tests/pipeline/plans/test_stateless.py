"""Plans without state: filters, projections, other keys and exploded rows, in both modes."""

from __future__ import annotations

import pytest

from headrace.core.errors import HeadraceError
from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.pipeline.catalogue.catalogue import Encoding, Format, HeaderColumn, TimestampColumn
from headrace.pipeline.plan import Explode, Filter, Project, Rekey
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import BIGINT, BYTES, DOUBLE, INTEGER, VARCHAR, ArrayType
from tests.pipeline.plans.harness import Plans, columns, computed, everything, named, plan, read, source

BOTH_MODES = pytest.mark.parametrize("mode", ["micro-batch", "real-time"])


@BOTH_MODES
def test_filter_and_project(plans: Plans, mode: str) -> None:
    topic = plans.topic("pageviews", partitions=2)
    views = source(topic, key=columns(USER_ID=VARCHAR), value=columns(PAGE=VARCHAR, SECONDS=INTEGER))
    sink = source(
        plans.new_name("long_views"),
        key=columns(USER_ID=VARCHAR),
        value=columns(PAGE=VARCHAR, MINUTES=DOUBLE),
        partitions=2,
    )
    root = Project(
        input=Filter(input=read(views), condition=computed("`S.SECONDS` >= 60")),
        keys=(named("USER_ID", "`S.USER_ID`"),),
        values=(named("PAGE", "upper(`S.PAGE`)"), named("MINUTES", "`S.SECONDS` / 60D", DOUBLE)),
    )
    plans.produce(
        topic,
        ("ann", {"page": "home", "seconds": 90}, 1_000),
        ("bob", {"PAGE": "cart", "Seconds": "59"}, 2_000),
        ("cat", {"page": "list", "seconds": 120, "more": {"deep": [1]}}, 3_000),
        ("dan", {"page": "none"}, 4_000),
        ("eve", b"no json", 5_000),
        ("fay", {"page": "x", "seconds": "soon"}, 6_000),
    )
    results, dead = plans.results(plan(root, sink), 2, mode=mode, dead=2)
    assert {(out.key, out.value, out.rowtime) for out in results} == {
        (b"ann", b'{"PAGE":"HOME","MINUTES":1.5}', 1_000),
        (b"cat", b'{"PAGE":"LIST","MINUTES":2.0}', 3_000),
    }
    reasons = {(out.key, out.value, out.headers["headrace-error"]) for out in dead}
    assert reasons == {
        (b"eve", b"no json", "The value is not a JSON object."),
        (
            b"fay",
            b'{"page": "x", "seconds": "soon"}',
            "Column SECONDS of the value is not of type INTEGER: soon.",
        ),
    }
    assert {out.headers["headrace-position"] for out in dead} == {"line 3, column 14"}
    identity = plans.cluster.lookup([topic])[topic]
    for out in dead:
        query, *place, _ordinal = out.headers["headrace-source"].split("/")
        assert out.headers["headrace-query"] == query
        assert out.headers["headrace-read-from"] == "/".join([topic, *place])
        assert place[0] == identity.topic_id
        assert out.headers["headrace-attempts"] == "1"


@BOTH_MODES
def test_coordinates_and_lanes(plans: Plans, mode: str) -> None:
    topic = plans.topic("events", partitions=3)
    events = source(topic, value=columns(NUMBER=INTEGER))
    sink = source(plans.new_name("copied"), value=columns(NUMBER=INTEGER), partitions=2)
    for partition in range(3):
        plans.produce(topic, (None, {"number": partition}, 7_000 + partition), partition=partition)
    with plans.running(plan(everything(events), sink), mode=mode, name="CSAS_COPIED_7") as query:
        results = plans.read(sink.topic, 3, query)
        assert query.mode == mode
    identity = plans.cluster.lookup([topic])[topic]
    assert {(out.json["NUMBER"], out.partition) for out in results} == {(0, 0), (1, 1), (2, 0)}
    for out in results:
        number = out.json["NUMBER"]
        assert parse_source(out.headers["headrace-source"].encode()) == SourceCoordinates(
            query="CSAS_COPIED_7", topic_id=identity.topic_id, partition=number, offset=0, ordinal=0
        )
        assert out.headers["headrace-posted-at"] == str(7_000 + number)


@BOTH_MODES
@pytest.mark.long
def test_partition_by_another_column(plans: Plans, mode: str) -> None:
    topic = plans.topic("users")
    users = source(topic, key=columns(ID=VARCHAR), value=columns(CITY=VARCHAR, AGE=INTEGER))
    sink = source(
        plans.new_name("by_city"), key=columns(CITY=VARCHAR), value=columns(AGE=INTEGER, ID=VARCHAR)
    )
    root = Project(
        input=Rekey(input=read(users), keys=(named("CITY", "`S.CITY`"),)),
        keys=(named("CITY", "CITY"),),
        values=(named("AGE", "`S.AGE`", INTEGER), named("ID", "`S.ID`")),
    )
    plans.produce(topic, ("1", {"city": "Basel", "age": 30}), ("2", {"age": 31}))
    results, _ = plans.results(plan(root, sink), 2, mode=mode)
    assert [(out.key, out.json) for out in results] == [
        (b"Basel", {"AGE": 30, "ID": "1"}),
        (None, {"AGE": 31, "ID": "2"}),
    ]


@BOTH_MODES
def test_explode_numbers_its_rows(plans: Plans, mode: str) -> None:
    topic = plans.topic("orders")
    orders = source(
        topic, key=columns(ID=VARCHAR), value=columns(ITEMS=ArrayType(VARCHAR), COUNTS=ArrayType(INTEGER))
    )
    sink = source(
        plans.new_name("lines"), key=columns(ID=VARCHAR), value=columns(ITEM=VARCHAR, COUNT=INTEGER)
    )
    root = Project(
        input=Explode(
            input=read(orders),
            functions=(named("ITEM", "`S.ITEMS`"), named("COUNT", "`S.COUNTS`", INTEGER)),
        ),
        keys=(named("ID", "`S.ID`"),),
        values=(named("ITEM", "ITEM"), named("COUNT", "COUNT", INTEGER)),
    )
    plans.produce(
        topic,
        ("a", {"items": ["tea", "cup"], "counts": [1]}),
        ("b", {"items": [], "counts": None}),
        ("c", {"items": "no array"}),
        ("d", {"items": ["pot", None, "mat"], "counts": [1, 2, 3]}),
    )
    results, dead = plans.results(plan(root, sink), 5, mode=mode, dead=1)
    assert [(out.key, out.json["ITEM"], out.json["COUNT"]) for out in results] == [
        (b"a", "tea", 1),
        (b"a", "cup", None),
        (b"d", "pot", 1),
        (b"d", None, 2),
        (b"d", "mat", 3),
    ]
    ordinals = [parse_source(out.headers["headrace-source"].encode()) for out in results]
    assert [(each.offset, each.ordinal) for each in ordinals] == [(0, 0), (0, 1), (3, 0), (3, 1), (3, 2)]
    assert [out.headers["headrace-error"] for out in dead] == [
        "Column ITEMS of the value is not of type ARRAY<VARCHAR>: no array."
    ]


@BOTH_MODES
def test_changes_of_a_table_pass_with_deletions(plans: Plans, mode: str) -> None:
    topic = plans.topic("stock")
    stock = source(topic, kind=SourceKind.TABLE, key=columns(ID=BIGINT), value=columns(AMOUNT=INTEGER))
    sink = source(
        plans.new_name("plenty"), kind=SourceKind.TABLE, key=columns(ID=BIGINT), value=columns(AMOUNT=INTEGER)
    )
    rows = everything(stock)
    root = Project(
        input=Filter(input=rows.input, condition=computed("`S.AMOUNT` > 10")),
        keys=rows.keys,
        values=rows.values,
    )
    one, two = (1).to_bytes(8, "big"), (-2).to_bytes(8, "big", signed=True)
    plans.produce(
        topic, (one, {"amount": 20}), (two, {"amount": 30}), (one, {"amount": 3}), (two, None), (None, {})
    )
    plans.produce(topic, (b"short", {"amount": 99}))
    results, dead = plans.results(plan(root, sink), 4, mode=mode, dead=1)
    assert [(out.key, out.json) for out in results] == [
        (one, {"AMOUNT": 20}),
        (two, {"AMOUNT": 30}),
        (one, None),
        (two, None),
    ]
    assert "5 bytes instead of 8" in dead[0].headers["headrace-error"]


@pytest.mark.long
def test_null_values_of_a_stream_pass_unless_they_are_filtered(plans: Plans) -> None:
    topic = plans.topic("nulls")
    stream = source(topic, key=columns(ID=VARCHAR), value=columns(A=INTEGER))
    sink = source(plans.new_name("out"), key=columns(ID=VARCHAR), value=columns(A=INTEGER))
    plans.produce(topic, ("k", None), ("k", {}), ("l", {"a": 1}))
    results, dead = plans.results(plan(everything(stream), sink), 3)
    assert [(out.key, out.value) for out in results] == [
        (b"k", None),
        (b"k", b'{"A":null}'),
        (b"l", b'{"A":1}'),
    ]
    assert dead == []
    filtered = source(plans.new_name("filtered"), key=columns(ID=VARCHAR), value=columns(A=INTEGER))
    rows = everything(stream)
    root = Project(
        input=Filter(input=rows.input, condition=computed("`S.ID` IS NOT NULL")),
        keys=rows.keys,
        values=rows.values,
    )
    results, _ = plans.results(plan(root, filtered), 2)
    assert [out.value for out in results] == [b'{"A":null}', b'{"A":1}']


def test_the_time_of_a_row_is_that_of_its_column(plans: Plans) -> None:
    topic = plans.topic("timed")
    stream = source(
        topic,
        value=columns(AT=VARCHAR),
        timestamp=TimestampColumn(name="AT", format="yyyy-MM-dd'T'HH:mm:ssX"),
        headers=(HeaderColumn(name="TRACE", type=BYTES, header="trace"),),
    )
    sink = source(
        plans.new_name("out"),
        value=columns(AT=VARCHAR, TIME=BIGINT, PLACE=VARCHAR, TRACE=VARCHAR),
    )
    root = Project(
        input=read(stream),
        keys=(),
        values=(
            named("AT", "`S.AT`"),
            named("TIME", "`S.ROWTIME`", BIGINT),
            named("PLACE", "concat(`S.ROWPARTITION`, '/', `S.ROWOFFSET`)"),
            named("TRACE", "cast(`S.TRACE` AS STRING)"),
        ),
    )
    plans.produce(topic, (None, {"at": "2026-03-14T09:26:53Z"}), headers={"trace": b"t1"})
    plans.produce(topic, (None, {"at": "yesterday"}), (None, {"at": None}))
    results, dead = plans.results(plan(root, sink), 1, dead=2)
    assert [out.json for out in results] == [
        {"AT": "2026-03-14T09:26:53Z", "TIME": 1773480413000, "PLACE": "0/0", "TRACE": "t1"}
    ]
    assert results[0].rowtime == 1773480413000
    assert {out.headers["headrace-error"] for out in dead} == {
        "Column AT, the TIMESTAMP of the record, has no valid time."
    }


@pytest.mark.long
def test_the_time_of_a_row_passes_through_a_chain_of_queries(plans: Plans) -> None:
    topic = plans.topic("first")
    first = source(topic, value=columns(A=INTEGER))
    second = source(plans.topic("second"), value=columns(A=INTEGER))
    third = source(plans.new_name("third"), value=columns(A=INTEGER, TIME=BIGINT))
    plans.produce(topic, (None, {"a": 1}, 12_345))
    plans.results(plan(everything(first), second), 1)
    root = Project(
        input=read(second),
        keys=(),
        values=(named("A", "`S.A`", INTEGER), named("TIME", "`S.ROWTIME`", BIGINT)),
    )
    results, _ = plans.results(plan(root, third), 1)
    assert results[0].json == {"A": 1, "TIME": 12_345}
    assert results[0].headers["headrace-posted-at"] == "12345"


def test_a_topic_made_again_is_read_from_its_beginning(plans: Plans) -> None:
    topic = plans.topic("again")
    stream = source(topic, value=columns(A=INTEGER))
    sink = source(plans.new_name("out"), value=columns(A=INTEGER))
    the_plan = plan(everything(stream), sink)
    plans.produce(topic, (None, {"a": 1}))
    with plans.running(the_plan, name="CSAS_AGAIN_1") as query:
        plans.read(sink.topic, 1, query)
    with plans.running(the_plan, name="CSAS_AGAIN_1") as query:
        plans.produce(topic, (None, {"a": 2}))
        assert [out.json["A"] for out in plans.read(sink.topic, 2, query)] == [1, 2]
    plans.delete(topic)
    plans.cluster.create_topic(topic, partitions=1)
    plans.produce(topic, (None, {"a": 3}))
    with plans.running(the_plan, name="CSAS_AGAIN_1") as query:
        assert [out.json["A"] for out in plans.read(sink.topic, 3, query)] == [1, 2, 3]


def test_too_few_slots_mean_micro_batches(plans: Plans) -> None:
    topic = plans.topic("many", partitions=11)
    stream = source(topic, value=columns(A=INTEGER), value_encoding=Encoding(format=Format.JSON))
    query = plans.query(
        plan(everything(stream), source(plans.new_name("o"), value=columns(A=INTEGER))), mode="real-time"
    )
    mode = query.mode(plans.cluster.lookup([topic]))
    assert mode.name == "micro-batch"
    assert mode.reason == (
        "real-time mode would hold a slot for each of 11 partitions, "
        "but only 10 are free; raise pipeline_slots"
    )


@pytest.mark.long
def test_from_the_end_of_a_topic_the_first_time_only(plans: Plans) -> None:
    topic = plans.topic("latest")
    stream = source(topic, value=columns(A=INTEGER))
    sink = source(plans.new_name("out"), value=columns(A=INTEGER))
    the_plan = plan(everything(stream), sink)
    plans.produce(topic, (None, {"a": 1}))
    latest = {"name": "CSAS_LATEST_1", "starting_offsets": "latest"}
    with plans.running(the_plan, **latest) as query:
        plans.wait_for_a_batch(query)
        plans.produce(topic, (None, {"a": 2}))
        assert [out.json["A"] for out in plans.read(sink.topic, 1, query)] == [2]
    plans.produce(topic, (None, {"a": 3}))
    with plans.running(the_plan, **latest) as query:
        assert [out.json["A"] for out in plans.read(sink.topic, 2, query)] == [2, 3]
    plans.delete(topic)
    plans.cluster.create_topic(topic, partitions=1)
    plans.produce(topic, (None, {"a": 4}))
    with plans.running(the_plan, **latest) as query:
        assert [out.json["A"] for out in plans.read(sink.topic, 3, query)] == [2, 3, 4]


@pytest.mark.long
def test_the_sink_may_take_its_time_from_a_column(plans: Plans) -> None:
    topic = plans.topic("timed")
    stream = source(topic, value=columns(AT=BIGINT))
    sink = source(plans.new_name("out"), value=columns(AT=BIGINT), timestamp=TimestampColumn(name="AT"))
    plans.produce(topic, (None, {"at": 77}, 5_000), (None, {"at": None}, 6_000))
    results, _ = plans.results(plan(everything(stream), sink), 2)
    assert [out.rowtime for out in results] == [77, 6_000]


def test_a_plan_that_spark_refuses_is_an_error_of_ours(plans: Plans) -> None:
    stream = source(plans.topic("in"), value=columns(A=INTEGER))
    sink = source(plans.new_name("out"), value=columns(A=INTEGER))
    root = Project(input=read(stream), keys=(), values=(named("A", "`S.NO_SUCH_COLUMN`", INTEGER),))
    query = plans.query(plan(root, sink), name="CSAS_WRONG_1")
    with pytest.raises(
        HeadraceError, match=r"Spark refuses the plan of query CSAS_WRONG_1: .*NO_SUCH_COLUMN"
    ):
        query.start(plans.cluster.lookup((*query.source_topics, *query.written_topics)))
