"""Statements of ksqlDB as they stand: text to plan by the rules, plan to records by Spark."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource, InsertSelect
from tests.pipeline.plans.harness import Plans, latest
from tests.pipeline.records import decoded


def planned(text: str) -> QueryPlan:
    """The plan of the last statement; those before it make its sources."""
    catalogue = Catalogue()
    for parsed in parse(text):
        statement = parsed.statement
        if isinstance(statement, CreateSource):
            source = plan_source(statement, catalogue, text=parsed.text)
            catalogue = dataclasses.replace(catalogue, sources=catalogue.sources | {source.name: source})
        else:
            assert isinstance(statement, CreateAs | InsertSelect)
            plan = plan_query(statement, catalogue, text=parsed.text)
    return plan


class Script:
    """A script whose topics have names of their own, so that tests do not meet."""

    def __init__(self, plans: Plans, text: str, **partitions: int) -> None:
        self.plans = plans
        self.topics = {name: plans.topic(name, number) for name, number in partitions.items()}
        self.sink = plans.new_name("sink")
        for name, topic in self.topics.items():
            text = text.replace(f"'{name}'", f"'{topic}'")
        self.plan = planned(text.replace("'sink'", f"'{self.sink}'"))

    def produce(self, name: str, *records: Any) -> None:
        self.plans.produce(self.topics[name], *records)

    def shown(self, found: Any) -> list[tuple[Any, Any]]:
        return [(out.key, out.json) for out in found]


VIEWS = """
CREATE STREAM pageviews (userid VARCHAR KEY, pageid VARCHAR, viewtime BIGINT, tags ARRAY<VARCHAR>)
  WITH (KAFKA_TOPIC='views', VALUE_FORMAT='JSON');
"""
USERS = """
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR, city STRUCT<name VARCHAR, zip INT>)
  WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
"""


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
def test_select_with_functions(plans: Plans, mode: str) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE STREAM out WITH (KAFKA_TOPIC='sink') AS
          SELECT userid, UCASE(SUBSTRING(pageid, 1, 4)) AS page, viewtime / 0 AS nothing, tags[1] AS first,
                 CASE WHEN viewtime > 10 THEN 'late' ELSE 'early' END AS kind, CAST(pageid AS INT) AS number,
                 ROWTIME AS moment
          FROM pageviews WHERE pageid LIKE 'page%' OR viewtime = 7 EMIT CHANGES;
        """,
        views=2,
    )
    script.produce(
        "views",
        ("ann", {"pageid": "page_1", "viewtime": 11, "tags": ["a", "b"]}, 1_000),
        ("bob", {"pageid": "other", "viewtime": 12}, 2_000),
        ("cat", {"pageid": "42", "viewtime": 7, "tags": []}, 3_000),
    )
    results, _ = plans.results(script.plan, 2, mode=mode)
    expected = {
        b"ann": {
            "PAGE": "PAGE",
            "NOTHING": None,
            "FIRST": "a",
            "KIND": "late",
            "NUMBER": None,
            "MOMENT": 1_000,
        },
        b"cat": {
            "PAGE": "42",
            "NOTHING": None,
            "FIRST": None,
            "KIND": "early",
            "NUMBER": 42,
            "MOMENT": 3_000,
        },
    }
    assert dict(script.shown(results)) == expected


@pytest.mark.long
def test_explode_and_partition_by(plans: Plans) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE STREAM out WITH (KAFKA_TOPIC='sink', PARTITIONS=3) AS
          SELECT pageid, userid, EXPLODE(tags) AS tag FROM pageviews PARTITION BY pageid EMIT CHANGES;
        """,
        views=1,
    )
    script.produce(
        "views", ("ann", {"pageid": "p", "tags": ["x", "y"]}), ("bob", {"pageid": "q", "tags": None})
    )
    results, _ = plans.results(script.plan, 2)
    assert script.shown(results) == [
        (b"p", {"USERID": "ann", "TAG": "x"}),
        (b"p", {"USERID": "ann", "TAG": "y"}),
    ]


@pytest.mark.parametrize("turns", [None, Turns(1)], ids=["alone", "in turns"])
def test_count_by_tumbling_window(plans: Plans, turns: Turns | None) -> None:
    plans.turns = turns
    script = Script(
        plans,
        VIEWS
        + """
        CREATE TABLE out WITH (KAFKA_TOPIC='sink') AS
          SELECT pageid, COUNT(*) AS views, COUNT_DISTINCT(userid) AS users,
                 LATEST_BY_OFFSET(viewtime) AS last, TOPK(viewtime, 2) AS top,
                 COLLECT_LIST(viewtime) AS every, WINDOWSTART AS started
          FROM pageviews WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND)
          GROUP BY pageid HAVING COUNT(*) > 1 EMIT CHANGES;
        """,
        views=1,
    )
    for user, page, time, at in (
        ("a", "p", 1, 1_000),
        ("a", "p", 9, 2_000),
        ("b", "p", 4, 3_000),
        ("b", "q", 5, 4_000),
    ):
        script.produce("views", (user, {"pageid": page, "viewtime": time}, at))
    with plans.running(script.plan) as query:
        results = plans.until(script.sink, lambda found: len(latest(found)) == 1 and len(found) > 1, query)
    row = latest(results)[b"p" + bytes(8)]
    assert sorted(row.pop("EVERY")) == [1, 4, 9]
    assert row == {"VIEWS": 3, "USERS": 2, "LAST": 4, "TOP": [9, 4], "STARTED": 0}


@pytest.mark.long
def test_group_by_several_columns(plans: Plans) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE TABLE out WITH (KAFKA_TOPIC='sink', KEY_FORMAT='JSON') AS
          SELECT pageid, LCASE(userid) AS user, SUM(viewtime) + 1 AS total
          FROM pageviews GROUP BY pageid, LCASE(userid) EMIT CHANGES;
        """,
        views=3,
    )
    script.produce("views", ("A", {"pageid": "p", "viewtime": 1}), ("a", {"pageid": "p", "viewtime": 2}))
    with plans.running(script.plan) as query:
        expected = {b'{"PAGEID":"p","USER":"a"}': {"TOTAL": 4}}
        plans.until(script.sink, lambda found: latest(found) == expected, query)


@pytest.mark.parametrize("is_global", [False, True])
@pytest.mark.long
def test_a_stream_with_a_table(plans: Plans, is_global: bool) -> None:
    users = USERS.replace("VALUE_FORMAT", "GLOBAL=true, VALUE_FORMAT") if is_global else USERS
    script = Script(
        plans,
        VIEWS
        + users
        + """
        CREATE STREAM out WITH (KAFKA_TOPIC='sink') AS
          SELECT v.userid, pageid, u.name AS name, city->zip AS zip
          FROM pageviews v LEFT JOIN users u ON v.userid = u.id EMIT CHANGES;
        """,
        views=2,
        users=3,
    )
    script.produce(
        "users", ("a", {"name": "Ann", "city": {"name": "Bern", "zip": 3000}}), ("b", {"name": "x"})
    )
    script.produce("users", ("b", None))
    script.produce("views", ("a", {"pageid": "p"}), ("b", {"pageid": "q"}))
    results, _ = plans.results(script.plan, 2, mode="real-time")
    assert dict(script.shown(results)) == {
        b"a": {"PAGEID": "p", "NAME": "Ann", "ZIP": 3000},
        b"b": {"PAGEID": "q", "NAME": None, "ZIP": None},
    }


@pytest.mark.long
def test_streams_within(plans: Plans) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE STREAM clicks (userid VARCHAR KEY, button VARCHAR)
          WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='DELIMITED');
        CREATE STREAM out WITH (KAFKA_TOPIC='sink') AS
          SELECT * FROM pageviews v JOIN clicks c WITHIN 5 SECONDS GRACE PERIOD 1 SECOND
          ON v.userid = c.userid EMIT CHANGES;
        """,
        views=2,
        clicks=1,
    )
    script.produce("views", ("a", {"pageid": "p"}, 10_000))
    script.produce("clicks", ("a", b"ok", 15_000), ("a", b"too late", 15_001))
    results, _ = plans.results(script.plan, 1)
    (row,) = [out.json for out in results]
    assert (row["V_PAGEID"], row["C_BUTTON"]) == ("p", "ok")


@pytest.mark.long
def test_a_table_of_tables(plans: Plans) -> None:
    script = Script(
        plans,
        USERS
        + """
        CREATE TABLE orders (id BIGINT PRIMARY KEY, user VARCHAR, total DECIMAL(10, 2))
          WITH (KAFKA_TOPIC='orders', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');
        CREATE TABLE out WITH (KAFKA_TOPIC='sink') AS
          SELECT o.id, u.name AS name, total * 2 AS twice
          FROM orders o JOIN users u ON o.user = u.id EMIT CHANGES;
        """,
        users=1,
        orders=2,
    )
    script.produce("users", ("a", {"name": "Ann"}))
    script.produce("orders", (b"1", b'{"user": "a", "total": 1.25}'), (b"2", {"user": "z", "total": 3}))
    with plans.running(script.plan) as query:
        expected: dict[Any, Any] = {b"1": {"NAME": "Ann", "TWICE": 2.5}}
        plans.until(script.sink, lambda found: latest(found) == expected, query)
        script.produce("users", ("a", None), ("z", {"name": "Zoe"}))
        expected = {b"2": {"NAME": "Zoe", "TWICE": 6}}
        plans.until(script.sink, lambda found: latest(found) == expected, query)


@pytest.mark.long
def test_insert_into(plans: Plans) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE STREAM others (userid VARCHAR KEY, pageid VARCHAR)
          WITH (KAFKA_TOPIC='others', VALUE_FORMAT='AVRO', PARTITIONS=1);
        INSERT INTO others SELECT userid, pageid FROM pageviews WHERE viewtime > 1;
        """,
        views=1,
        others=1,
    )
    script.produce("views", ("a", {"pageid": "p", "viewtime": 2}), ("b", {"pageid": "q", "viewtime": 1}))
    results, _ = plans.results(script.plan, 1, mode="real-time")
    assert [out.key for out in results] == [b"a"]
    assert (results[0].value or b"")[:1] == b"\x00"


@pytest.mark.long
def test_the_table_of_a_stream_by_session(plans: Plans) -> None:
    script = Script(
        plans,
        VIEWS
        + """
        CREATE TABLE out WITH (KAFKA_TOPIC='sink') AS
          SELECT userid, COUNT(*) AS views, WINDOWEND AS ended FROM pageviews
          WINDOW SESSION (5 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY userid EMIT FINAL;
        """,
        views=1,
    )
    script.produce("views", *(("a", {"pageid": "p"}, at) for at in (1_000, 3_000, 60_000)))
    results, _ = plans.results(script.plan, 1)
    assert [(out.key, out.json) for out in results] == [
        (b"a" + (3_000).to_bytes(8, "big") + (1_000).to_bytes(8, "big"), {"VIEWS": 2, "ENDED": 3_000})
    ]


@pytest.mark.parametrize("mode", ["micro-batch", "in turns", "real-time"])
def test_the_two_statements_of_the_events_pipeline(plans: Plans, mode: str) -> None:
    if mode == "in turns":
        plans.turns = Turns(1)
    script = Script(
        plans,
        """
        CREATE STREAM source_json (Event_Type VARCHAR, Event_Version VARCHAR, User_ID VARCHAR,
          Listing_ID VARCHAR, Server_Time VARCHAR, Device_Type VARCHAR)
          WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');
        CREATE STREAM target_json WITH (KAFKA_TOPIC='sink',REPLICAS=1,PARTITIONS=1,VALUE_FORMAT='AVRO') AS
          SELECT *, SUBSTRING(Server_Time, 0, 10) as Server_Date FROM source_json;
        """,
        events=2,
    )
    script.produce(
        "events", ("u", {"Event_Type": "View", "Server_Time": "2026-03-14T09:26:53Z", "User_ID": 5})
    )
    script.produce("events", ("u", b"{"))
    results, dead = plans.results(script.plan, 1, mode="micro-batch" if plans.turns else mode, dead=1)
    schema_id, content = decoded(plans.registry.by_id[1], results[0].value or b"")
    assert schema_id == 1
    assert content == {
        "EVENT_TYPE": "View",
        "EVENT_VERSION": None,
        "USER_ID": "5",
        "LISTING_ID": None,
        "SERVER_TIME": "2026-03-14T09:26:53Z",
        "DEVICE_TYPE": None,
        "SERVER_DATE": "2026-03-14",
    }
    assert (dead[0].key, dead[0].value) == (b"u", b"{")


@pytest.mark.long
def test_a_table_grouped_by_another_column(plans: Plans) -> None:
    script = Script(
        plans,
        USERS
        + """
        CREATE TABLE out WITH (KAFKA_TOPIC='sink') AS
          SELECT city->name AS town, COUNT(*) AS people FROM users WHERE name <> 'nobody' GROUP BY city->name;
        """,
        users=2,
    )
    town = {"city": {"name": "Bern"}}
    script.produce("users", ("a", {"name": "Ann"} | town), ("b", {"name": "nobody"} | town))
    script.produce("users", ("c", {"name": "Cid"} | town))
    with plans.running(script.plan) as query:
        plans.until(script.sink, lambda found: latest(found) == {b"Bern": {"PEOPLE": 2}}, query)
        script.produce("users", ("a", {"name": "nobody"} | town))
        plans.until(script.sink, lambda found: latest(found) == {b"Bern": {"PEOPLE": 1}}, query)
