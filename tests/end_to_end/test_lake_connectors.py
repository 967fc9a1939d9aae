"""Connectors into the lake on a running platform: any topic, any change of schema, every order over REST."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lake_connectors import (
    AVRO,
    JSON,
    PLAIN_JSON,
    TEXT,
    Connectors,
    new_name,
    open_table,
    record_schema,
    rows_of,
)
from tests.running_platform import Platform, wait_for

TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}


@pytest.fixture
def connectors(platform: Platform) -> Iterator[Connectors]:
    created = Connectors(platform)
    try:
        yield created
    finally:
        created.close()


def test_columns_follow_the_schemas_of_avro(connectors: Connectors) -> None:
    topic = connectors.topic("orders")
    first = record_schema("order", id="long", city="string", price="double")
    connectors.avro(topic, first, [{"id": 1, "city": "Lyon", "price": 2.5}])
    name = connectors.sink(topic, {"value.converter": AVRO, **TOLERANT})
    table = connectors.table(topic)
    assert connectors.wait_rows(table, 1) == [{"id": 1, "city": "Lyon", "price": 2.5}]

    # One field more, in another order.
    second = record_schema("order", note=["null", "string"], price="double", city="string", id="long")
    connectors.avro(topic, second, [{"id": 2, "city": "Nice", "price": 1.0, "note": "gift"}])
    # One field less.
    third = record_schema("order", id="long", price="double")
    connectors.avro(topic, third, [{"id": 3, "price": 0.5}])
    # A type that the column cannot hold, and one that it can.
    fourth = record_schema("order", id="string", city="string", price="double")
    connectors.avro(topic, fourth, [{"id": "four", "city": "Metz", "price": 4.0}])
    fifth = record_schema("order", id="int", city="string", price="double")
    connectors.avro(topic, fifth, [{"id": 5, "city": "Brest", "price": 5.0}])

    assert connectors.wait_rows(table, 4) == [
        {"id": 1, "city": "Lyon", "price": 2.5, "note": None},
        {"id": 2, "city": "Nice", "price": 1.0, "note": "gift"},
        {"id": 3, "city": None, "price": 0.5, "note": None},
        {"id": 5, "city": "Brest", "price": 5.0, "note": None},
    ]
    (letter,) = connectors.letters(f"{topic}_dlq", 1)
    headers = dict(letter.headers())
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.offset"] == b"3"
    assert headers["__connect.errors.connector.name"] == name.encode()
    assert b"id" in headers["__connect.errors.exception.message"]
    assert connectors.wait_state(name, "RUNNING")


def test_json_without_schemas_gets_columns_as_fields_appear(connectors: Connectors) -> None:
    topic = connectors.topic("visits")
    # Names that a record of Kafka has, too.
    taken = {"key": "k", "value": 1, "topic": "t", "offset": 2, "timestamp": 3, "headers": True}
    name = connectors.sink(topic, {**PLAIN_JSON, **TOLERANT, "behavior.on.null.values": "ignore"})
    assert connectors.wait_state(name, "RUNNING"), "it waits for the first record"
    connectors.send(topic, [{"page": "home", **taken}])
    table = connectors.table(topic)
    assert connectors.wait_rows(table, 1) == [{"page": "home", **taken}]
    cart = {"page": "cart", "items": [{"id": 7}]}
    connectors.send(topic, [cart, None, {"who": {"name": "Ada"}}, "no JSON"])
    nothing = dict.fromkeys(taken)
    assert connectors.wait_rows(table, 3) == [
        {"page": "home", **taken, "items": None, "who": None},
        {"page": "cart", **nothing, "items": [{"id": 7}], "who": None},
        {"page": None, **nothing, "items": None, "who": {"name": "Ada"}},
    ]
    connectors.letters(f"{topic}_dlq", 1)


def test_json_with_schemas_keys_headers_and_time_partitions(connectors: Connectors) -> None:
    topic = connectors.topic("readings", partitions=2)

    def enveloped(fields: dict[str, str], payload: dict[str, object]) -> dict[str, object]:
        parts = [{"field": field, "type": kind, "optional": True} for field, kind in fields.items()]
        return {"schema": {"type": "struct", "fields": parts}, "payload": payload}

    name = connectors.sink(
        topic,
        {
            "value.converter": JSON,
            "key.converter": TEXT,
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
            "partitioner.class": "headrace.FieldAndTimePartitioner",
            "partition.field.name": "room",
            "path.format": "'day'=YYYY-MM-dd/'hour'=HH",
            "partition.duration.ms": "3600000",
            "timezone": "Europe/Paris",
            "timestamp.extractor": "Record",
        },
    )
    # 23:30 in Paris.
    at = int(datetime.datetime(2026, 3, 14, 22, 30, tzinfo=datetime.UTC).timestamp() * 1000)
    value = enveloped({"room": "string", "degrees": "float"}, {"room": "A 1", "degrees": 20.5})
    connectors.send(topic, [value], key="k1", headers=[("trace", b"\x01")], timestamp=at, partition=0)
    more = enveloped({"room": "string", "people": "int32"}, {"room": "B", "people": 3})
    connectors.send(topic, [more], key="k2", timestamp=at + 3_600_000, partition=1)
    table = connectors.table(topic)
    assert connectors.wait_rows(table, 2) == [
        {
            "room": "A 1",
            "degrees": 20.5,
            "people": None,
            "day": "2026-03-14",
            "hour": "23",
            "_KEY": "k1",
            "_HEADERS": [{"key": "trace", "value": b"\x01"}],
        },
        {
            "room": "B",
            "degrees": None,
            "people": 3,
            "day": "2026-03-15",
            "hour": "00",
            "_KEY": "k2",
            "_HEADERS": None,
        },
    ]
    folders = {path.parent.relative_to(table).as_posix() for path in table.rglob("*.parquet")}
    assert folders == {"room=A 1/day=2026-03-14/hour=23", "room=B/day=2026-03-15/hour=00"}
    assert connectors.wait_state(name, "RUNNING")


def asked(platform: Platform, statement: str, *, freshness: str = "live") -> tuple[list[Any], dict[str, Any]]:
    """The rows of a question, and what was read of its table."""
    url = f"http://{platform.settings.host}:{platform.settings.query_port}/sql"
    answer = platform.http.post(url, json={"query": statement, "freshness": freshness}).json()
    return answer["rows"], answer["tables"][0]


def test_sql_sees_the_rows_before_the_table_has_them(connectors: Connectors, platform: Platform) -> None:
    """Transformed, by time, with keys and headers: while a connector is paused, and the same after that."""
    topic = connectors.topic("fresh")
    schema = record_schema("order", id="long", at=["null", "string"], price="double", note="string")
    name = connectors.sink(
        topic,
        {
            "value.converter": AVRO,
            "key.converter": TEXT,
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
            "partitioner.class": "headrace.FieldAndTimePartitioner",
            "partition.field.name": "source",
            "path.format": "YYYY-MM-dd/HH",
            "partition.duration.ms": "3600000",
            "timezone": "America/New_York",
            "timestamp.extractor": "RecordField",
            "timestamp.field": "at",
            "transforms": "time,mark,plain,drop",
            "transforms.time.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
            "transforms.time.field": "at",
            "transforms.time.format": "yyyy-MM-dd HH:mm",
            "transforms.time.target.type": "Timestamp",
            "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.mark.topic.field": "source",
            "transforms.plain.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.plain.exclude": "note",
            "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
            "transforms.drop.predicate": "test",
            "predicates": "test",
            "predicates.test.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
            "predicates.test.name": "test",
            **TOLERANT,
        },
    )
    order = {"id": 1, "at": "2026-03-08 06:30", "price": 2.5, "note": "x"}
    connectors.avro(topic, schema, [order])
    table = connectors.table(topic)
    connectors.wait_rows(table, 1)
    connectors.order(name, "pause")
    assert connectors.wait_state(name, "PAUSED")
    # Clocks change at 07:00 UTC.
    connectors.avro(
        topic, schema, [{**order, "id": 2, "at": "2026-03-08 07:30"}, {**order, "id": 3, "at": "none"}]
    )
    connectors.avro(topic, schema, [{**order, "id": 4}], key="k", headers=[("h", b"\x01")])
    connectors.avro(topic, schema, [{**order, "id": 5}], headers=[("test", b"")])
    everything = f'SELECT * FROM "{topic}" ORDER BY id'
    before, read = asked(platform, everything)
    assert (read["tail_rows"], read["behind"], read["reason"]) == (2, 0, "")
    names = 'id, "date", "hour", "_KEY"'
    short, _ = asked(platform, f'SELECT {names} FROM "{topic}" ORDER BY id')
    assert short == [
        [1, "2026-03-08", "01", None],
        [2, "2026-03-08", "03", None],
        [4, "2026-03-08", "01", "k"],
    ]
    connectors.order(name, "resume")
    connectors.wait_rows(table, 3)
    assert asked(platform, everything, freshness="lake")[0] == before
    connectors.letters(f"{topic}_dlq", 1)


def test_topics_by_expression_with_texts_and_nulls(connectors: Connectors) -> None:
    word = new_name("logs")
    first = connectors.topic(f"{word}-one")
    name = connectors.create(
        f"{word}-sink",
        {
            "topics.regex": f"{word}-.*",
            "value.converter": TEXT,
            "transforms": "line",
            "transforms.line.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.line.field": "line",
            "behavior.on.null.values": "ignore",
        },
    )
    connectors.send(first, ["a", None, "b"])
    # As in Kafka: what HoistField makes of a null is a record, so it is not ignored.
    lines = connectors.wait_rows(connectors.table(first), 3)
    assert lines == [{"line": "a"}, {"line": None}, {"line": "b"}]
    second = connectors.topic(f"{word}-two")
    connectors.send(second, ["c"])
    assert connectors.wait_rows(connectors.table(second), 1) == [{"line": "c"}]
    assert connectors.wait_state(name, "RUNNING")


def test_without_tolerance_it_fails_at_the_record_and_goes_on_when_it_may(connectors: Connectors) -> None:
    topic = connectors.topic("strict")
    connectors.send(topic, [{"n": 1}, "broken", {"n": 3}, None, {"n": 5}])
    name = connectors.sink(topic, PLAIN_JSON)
    trace = connectors.wait_state(name, "FAILED")["trace"]
    assert f"The record of topic {topic} at offset 1 of partition 0 cannot become a row" in trace
    assert rows_of(connectors.table(topic)) == []
    connectors.change(name, {"errors.tolerance": "all"})
    rows = connectors.wait_rows(connectors.table(topic), 3)
    assert [row["n"] for row in rows] == [1, 3, 5]
    assert len(connectors.letters(f"{topic}_dlq", 2)) == 2
    connectors.wait_state(name, "RUNNING")


def test_every_order_over_rest_and_rows_once(connectors: Connectors) -> None:
    topic = connectors.topic("ordered")
    name = connectors.sink(topic, PLAIN_JSON)
    table = connectors.table(topic)

    def numbers(count: int) -> list[int]:
        return [row["n"] for row in connectors.wait_rows(table, count)]

    connectors.send(topic, [{"n": 0}])
    assert numbers(1) == [0]
    connectors.order(name, "pause")
    assert connectors.wait_state(name, "PAUSED")
    connectors.send(topic, [{"n": 1}])
    connectors.order(name, "stop")
    assert connectors.wait_state(name, "STOPPED")
    assert numbers(1) == [0]
    connectors.order(name, "resume")
    assert numbers(2) == [0, 1]
    connectors.restart(name)
    connectors.send(topic, [{"n": 2}])
    assert numbers(3) == [0, 1, 2]
    connectors.delete(name)
    connectors.send(topic, [{"n": 3}])
    again = connectors.sink(topic, PLAIN_JSON)
    assert again == name
    assert numbers(4) == [0, 1, 2, 3]
    assert connectors.wait_state(name, "RUNNING")


def test_two_connectors_cannot_write_one_table(connectors: Connectors) -> None:
    topic = connectors.topic("shared")
    first = connectors.sink(topic, PLAIN_JSON)
    connectors.send(topic, [{"n": 1}])
    connectors.wait_rows(connectors.table(topic), 1)
    second = connectors.create(f"{topic}-second", {"topics": topic, **PLAIN_JSON})
    trace = connectors.wait_state(second, "FAILED")["trace"]
    assert f"connector {first}, topic {topic}, does" in trace
    assert connectors.wait_state(first, "RUNNING")
    # Once the first is gone, the table is the second's.
    connectors.delete(first)
    connectors.send(topic, [{"n": 2}])
    rows = connectors.wait_rows(connectors.table(topic), 2)
    assert [row["n"] for row in rows] == [1, 2]
    connectors.wait_state(second, "RUNNING")


@pytest.mark.long
def test_rows_are_there_once_after_the_pipeline_was_killed(
    platform: Platform, connectors: Connectors
) -> None:
    topic = connectors.topic("killed", partitions=3)
    name = connectors.sink(topic, PLAIN_JSON)
    table = connectors.table(topic)
    count = 3_000
    for number in range(0, 1_000, 100):
        connectors.send(topic, [{"n": number + each} for each in range(100)])
    wait_for(lambda: open_table(table) is not None and rows_of(table), "the first rows are there")
    killed = platform.kill("pipeline")
    for number in range(1_000, count, 100):
        connectors.send(topic, [{"n": number + each} for each in range(100)])
    platform.wait_restarted("pipeline", after=killed)
    rows = connectors.wait_rows(table, count)
    assert sorted(row["n"] for row in rows) == list(range(count))
    connectors.wait_state(name, "RUNNING")
