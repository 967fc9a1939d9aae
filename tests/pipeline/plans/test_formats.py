"""Formats of keys and values: read by Spark what others wrote, and the other way round."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import struct
from typing import Any

import fastavro
import pytest

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from tests.pipeline.plans.harness import Plans, columns, everything, plan, source

SCALARS = columns(
    B=BOOLEAN,
    I=INTEGER,
    L=BIGINT,
    D=DOUBLE,
    S=VARCHAR,
    X=BYTES,
    N=DecimalType(12, 3),
    DAY=DATE,
    CLOCK=TIME,
    MOMENT=TIMESTAMP,
)
ADDRESS = StructType((StructField("CITY", VARCHAR), StructField("SINCE", DATE)))
NESTED = columns(
    A=ArrayType(ArrayType(INTEGER)),
    M=MapType(VARCHAR, BIGINT),
    P=ADDRESS,
    PS=ArrayType(ADDRESS),
    PM=MapType(VARCHAR, ADDRESS),
)

SCALAR_ROW = {
    "B": True,
    "I": -5,
    "L": 2**40,
    "D": 0.25,
    "S": 'tea "hot" 茶, now',
    "X": base64.b64encode(b"\x00\xff").decode(),
    "N": 123456789.125,
    "DAY": 20526,
    "CLOCK": 45_296_000,
    "MOMENT": 1773480413250,
}
NESTED_ROW = {
    "A": [[1, 2], None, []],
    "M": {"x": 1, "y": None},
    "P": {"CITY": "Basel", "SINCE": 365},
    "PS": [{"CITY": None, "SINCE": 1}, None],
    "PM": {"home": {"CITY": "Bern", "SINCE": None}},
}


def avro(schema: str, value: Any, schema_id: int) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(schema)), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def from_avro(plans: Plans, value: bytes) -> Any:
    assert value[0] == 0
    schema = plans.registry.by_id[int.from_bytes(value[1:5], "big")]
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(json.loads(schema)), None)


def test_json_of_every_type(plans: Plans) -> None:
    topic = plans.topic("all")
    every = SCALARS + NESTED
    nothing = {column.name: None for column in every}
    row = SCALAR_ROW | NESTED_ROW
    lower = json.loads(json.dumps(row).replace('"CITY"', '"city"').replace('"SINCE"', '"Since"'))
    plans.produce(
        topic,
        (None, row),
        (None, {name.lower(): value for name, value in lower.items()}),
        (None, {}),
        (None, b'{"I": 1.9, "L": "17", "D": "2.5", "N": "1.0005", "S": {"a": [1, "b"]}, "B": "TRUE"}'),
    )
    results, _ = plans.results(
        plan(everything(source(topic, value=every)), source(plans.new_name("out"), value=every)), 4
    )
    assert results[0].json == row
    assert results[1].json == row
    assert results[2].json == nothing
    assert list(results[2].json) == [column.name for column in every], "in the order of the columns"
    coerced = {"I": 1, "L": 17, "D": 2.5, "N": 1.001, "S": '{"a":[1,"b"]}', "B": True}
    assert results[3].json == nothing | coerced
    assert b'"N":123456789.125' in (results[0].value or b"")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (INTEGER, b'"x"'),
        (INTEGER, b"2147483648"),
        (BOOLEAN, b"1"),
        (DOUBLE, b"{}"),
        (ArrayType(INTEGER), b'[1, "x"]'),
        (MapType(VARCHAR, DOUBLE), b'{"a": true}'),
        (ADDRESS, b'{"city": "x", "since": "long ago"}'),
        (ADDRESS, b"[]"),
    ],
    ids=str,
)
def test_json_that_does_not_fit(plans: Plans, kind: DataType, text: bytes) -> None:
    """One frame, not a query each: the reasons are expressions."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from headrace.pipeline.spark.formats.json_format import JsonReader  # noqa: PLC0415

    reader = JsonReader((Column(name="C", type=kind),), side="value", wrapped=True)
    value = b'{"c": ' + text + b"}"
    frame = plans.spark.sql(f"SELECT X'{value.hex()}' AS value")
    parsed = frame.withColumn("parsed", reader.parsed(F.col("value")))
    (row,) = parsed.select(reader.reason(F.col("value"), F.col("parsed")).alias("reason")).collect()
    assert row["reason"].startswith(f"Column C of the value is not of type {kind}: ")


def test_bare_json_keys_and_values(plans: Plans) -> None:
    topic = plans.topic("bare")
    bare = Encoding(format=Format.JSON, wrapped=False)
    more = {"key_format": Format.JSON, "value_encoding": bare}
    one = source(topic, key=columns(ID=VARCHAR), value=columns(V=INTEGER), **more)
    plans.produce(topic, (b'"a"', b"1"), (b'"b"', b"null"), (b"17", b"[3]"), (b"[", b"4"), (b"1, 2", b"5"))
    results, dead = plans.results(
        plan(everything(one), source(plans.new_name("out"), key=one.key, value=one.value, **more)), 2, dead=3
    )
    assert [(out.key, out.value) for out in results] == [(b'"a"', b"1"), (b'"b"', None)]
    assert [out.headers["headrace-error"] for out in dead] == [
        "Column V of the value is not of type INTEGER: [3].",
        "The key is not a JSON value.",
        "The key is not a JSON value.",
    ]


@pytest.mark.long
def test_json_keys_of_several_columns(plans: Plans) -> None:
    topic = plans.topic("keys")
    one = source(topic, key=columns(A=VARCHAR, B=INTEGER), value=columns(V=INTEGER), key_format=Format.JSON)
    plans.produce(topic, (b'{"a": "x", "b": 2}', {"v": 1}), (None, {"v": 2}))
    sink = source(plans.new_name("out"), key=one.key, value=one.value, key_format=Format.JSON)
    results, _ = plans.results(plan(everything(one), sink), 2)
    assert [out.key for out in results] == [b'{"A":"x","B":2}', b'{"A":null,"B":null}']


def test_avro_of_every_type(plans: Plans) -> None:
    """JSON in, Avro out as ksqlDB would write it, and that Avro in again."""
    topic = plans.topic("all")
    every = SCALARS + NESTED
    avro_topic = plans.topic("avro")
    in_avro = source(avro_topic, value=every, value_format=Format.AVRO)
    plans.produce(topic, (None, SCALAR_ROW | NESTED_ROW), (None, {}))
    results, _ = plans.results(plan(everything(source(topic, value=every)), in_avro), 2)
    first = from_avro(plans, results[0].value or b"")
    assert first == {
        "B": True,
        "I": -5,
        "L": 2**40,
        "D": 0.25,
        "S": 'tea "hot" 茶, now',
        "X": b"\x00\xff",
        "N": decimal.Decimal("123456789.125"),
        "DAY": datetime.date(2026, 3, 14),
        "CLOCK": datetime.time(12, 34, 56),
        "MOMENT": datetime.datetime(2026, 3, 14, 9, 26, 53, 250_000, tzinfo=datetime.UTC),
        "A": [[1, 2], None, []],
        "M": [{"key": "x", "value": 1}, {"key": "y", "value": None}],
        "P": {"CITY": "Basel", "SINCE": datetime.date(1971, 1, 1)},
        "PS": [{"CITY": None, "SINCE": datetime.date(1970, 1, 2)}, None],
        "PM": [{"key": "home", "value": {"CITY": "Bern", "SINCE": None}}],
    }
    assert set(from_avro(plans, results[1].value or b"").values()) == {None}
    registered = json.loads(plans.registry.schemas_of(f"{avro_topic}-value")[1])
    assert (registered["namespace"], registered["name"]) == (
        "io.confluent.ksql.avro_schemas",
        "KsqlDataSourceSchema",
    )
    again, dead = plans.results(
        plan(everything(in_avro), source(plans.new_name("back"), value=every)), 2, mode="real-time"
    )
    assert dead == []
    assert again[0].json == SCALAR_ROW | NESTED_ROW
    assert set(again[1].json.values()) == {None}


def _record(**fields: Any) -> str:
    made = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Theirs", "namespace": "org.example", "fields": made})


@pytest.mark.parametrize("mode", ["micro-batch", "real-time"])
def test_avro_of_several_writers(plans: Plans, mode: str) -> None:
    topic = plans.topic("avro")
    wanted = columns(
        ID=BIGINT, NAME=VARCHAR, COLOUR=VARCHAR, C2=VARCHAR, TAGS=MapType(VARCHAR, VARCHAR), WHEN=TIMESTAMP
    )
    enum = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    schemas = [
        _record(id="int", name="string"),
        _record(
            Name=["null", "string"], colour=enum, other={"type": "array", "items": "Colour"}, c2="Colour"
        ),
        _record(
            tags={"type": "map", "values": "string"},
            when={"type": "long", "logicalType": "timestamp-micros"},
            id=["null", "long"],
        ),
        _record(id="string"),
    ]
    rows: list[dict[str, Any]] = [
        {"id": 1, "name": "one"},
        {"Name": "two", "colour": "BLUE", "other": ["RED"], "c2": "RED"},
        {"tags": {"a": "b"}, "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "id": 3},
        {"id": "not a number"},
    ]
    ids = [plans.registry.register(f"{topic}-value", schema) for schema in schemas]
    for schema_id, schema, row in zip(ids, schemas, rows, strict=True):
        plans.produce(topic, (None, avro(schema, row, schema_id)))
    plans.produce(topic, (None, b"\x00\x00\x00\x00\x01\x02"), (None, b"{}"), (None, b""))
    results, dead = plans.results(
        plan(
            everything(source(topic, value=wanted, value_format=Format.AVRO)),
            source(plans.new_name("out"), value=wanted),
        ),
        3,
        mode=mode,
        dead=4,
    )
    nothing = {column.name: None for column in wanted}
    assert [out.json for out in results] == [
        nothing | {"ID": 1, "NAME": "one"},
        nothing | {"NAME": "two", "COLOUR": "BLUE", "C2": "RED"},
        nothing | {"TAGS": {"a": "b"}, "WHEN": 1767225600000, "ID": 3},
    ]
    framing = "The value is not in Confluent's wire format: it has no zero byte and schema id in front."
    assert [out.headers["headrace-error"] for out in dead] == [
        f"The value cannot be read with the schema of its id {ids[3]}.",
        "The value cannot be read with the schema of its id 1.",
        framing,
        framing,
    ]


@pytest.mark.parametrize("mode", [pytest.param("micro-batch", marks=pytest.mark.long), "real-time"])
def test_a_new_writer_schema_starts_the_query_again(plans: Plans, mode: str) -> None:
    topic = plans.topic("avro")
    wanted = columns(ID=INTEGER, NAME=VARCHAR)
    old, new = _record(id="int"), _record(id="int", name="string")
    old_id = plans.registry.register(f"{topic}-value", old)
    stream = source(topic, value=wanted, value_format=Format.AVRO)
    sink = source(plans.new_name("out"), value=wanted)
    query = plans.query(plan(everything(stream), sink), mode=mode)
    topics = plans.cluster.lookup((*query.source_topics, *query.written_topics))
    plans.produce(topic, (None, avro(old, {"id": 1}, old_id)))
    running = query.start(topics)
    plans.read(sink.topic, 1, running)
    new_id = plans.registry.register(f"{topic}-value", new)
    plans.produce(topic, (None, avro(new, {"id": 2, "name": "two"}, new_id)))
    plans.wait_until_ended(running)
    running = query.start(topics)
    try:
        ids = [
            out.json["ID"]
            for out in plans.until(
                sink.topic, lambda found: found[-1:] != [] and found[-1].json["ID"] == 2, running
            )
        ]
        assert set(ids) == {1, 2}
        # An id that the registry does not have ends it once more; then its records are dead letters.
        next_id = new_id + 1
        plans.produce(topic, (None, b"\x00" + next_id.to_bytes(4, "big") + b"\x02"))
        plans.wait_until_ended(running)
        running = query.start(topics)
        plans.produce(topic, (None, avro(old, {"id": 3}, old_id)))
        plans.until(sink.topic, lambda found: found[-1].json["ID"] == 3, running)
        (dead,) = plans.read(f"{topic}_dlq", 1, running)
        assert dead.headers["headrace-error"] == f"The registry has no schema with id {next_id}."
        assert running.outdated() == ""
        # Until the registry has it.
        newest = _record(id="int", name="string", more="string")
        assert plans.registry.register(f"{topic}-value", newest) == next_id
        assert f"schema {next_id}" in running.outdated()
        running.stop()
        running = query.start(topics)
        plans.produce(topic, (None, avro(newest, {"id": 4, "name": "four", "more": "m"}, next_id)))
        plans.until(sink.topic, lambda found: found[-1].json["ID"] == 4, running)
    finally:
        running.stop()


@pytest.mark.long
def test_avro_keys_and_a_named_schema(plans: Plans) -> None:
    topic = plans.topic("in")
    theirs = _record(v=["null", "int"], tags=["null", {"type": "map", "values": "string"}])
    schema_id = plans.registry.register("somewhere", theirs)
    stream = source(topic, key=columns(ID=VARCHAR), value=columns(V=INTEGER, TAGS=MapType(VARCHAR, VARCHAR)))
    sink = source(
        plans.topic("out"),
        key=stream.key,
        value=stream.value,
        key_format=Format.AVRO,
        value_encoding=Encoding(format=Format.AVRO, schema_id=schema_id),
    )
    plans.produce(topic, ("k", {"v": 7, "tags": {"a": "b"}}), (None, {"v": 8}))
    results, _ = plans.results(plan(everything(stream), sink), 2)
    assert from_avro(plans, results[0].key or b"") == "k"
    assert (results[0].value or b"")[:5] == b"\x00" + schema_id.to_bytes(4, "big")
    assert from_avro(plans, results[0].value or b"") == {"v": 7, "tags": {"a": "b"}}
    assert results[1].key is None
    back = source(plans.new_name("back"), key=stream.key, value=stream.value)
    again, dead = plans.results(plan(everything(sink), back), 2)
    assert [(out.key, out.json["V"]) for out in again] == [(b"k", 7), (None, 8)]
    assert dead == []


def test_delimited(plans: Plans) -> None:
    topic = plans.topic("lines")
    stream = source(topic, value=SCALARS, value_format=Format.DELIMITED)
    line = b'true,-5,1099511627776,0.25,"tea ""hot"", now",AP8=,123456789.125,20526,45296000,1773480413250'
    plans.produce(
        topic, (None, line), (None, b",,,,,,,,,"), (None, b"a,b"), (None, line.replace(b"-5", b"five"))
    )
    plans.produce(topic, (None, line + b",more"))
    sink = source(plans.topic("json"), value=SCALARS)
    results, dead = plans.results(plan(everything(stream), sink), 2, dead=3)
    assert results[0].json == SCALAR_ROW | {"S": 'tea "hot", now'}
    assert set(results[1].json.values()) == {None}
    assert [out.headers["headrace-error"] for out in dead] == [
        "The value is not a line of 10 delimited fields.",
        "Column I of the value is not of type INTEGER: five.",
        "The value is not a line of 10 delimited fields.",
    ]
    back = source(plans.new_name("back"), value=SCALARS, value_format=Format.DELIMITED)
    again, _ = plans.results(plan(everything(sink), back), 2)
    assert [out.value for out in again] == [line, b",,,,,,,,,"]


@pytest.mark.long
def test_delimited_by_another_character(plans: Plans) -> None:
    topic = plans.topic("tabs")
    tabs = Encoding(format=Format.DELIMITED, delimiter="TAB")
    stream = source(topic, value=columns(A=VARCHAR, B=VARCHAR), value_encoding=tabs)
    pipes = Encoding(format=Format.DELIMITED, delimiter="|")
    sink = source(plans.new_name("pipes"), value=stream.value, value_encoding=pipes)
    plans.produce(topic, (None, b"a,b\t c "), (None, b"x|y\t"))
    results, _ = plans.results(plan(everything(stream), sink), 2)
    assert [out.value for out in results] == [b"a,b| c ", b'"x|y"|']


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (INTEGER, [struct.pack(">i", value) for value in (0, 1, -1, 2**31 - 1, -(2**31))]),
        (BIGINT, [struct.pack(">q", value) for value in (0, 1, -1, 2**63 - 1, -(2**63))]),
        (DOUBLE, [struct.pack(">d", value) for value in (0.0, -1.5, 1e300, float("inf"))]),
        (VARCHAR, [b"", "茶".encode()]),
        (BYTES, [b"", b"\x00\xff"]),
    ],
    ids=str,
)
@pytest.mark.long
def test_kafka_s_own_serializers(plans: Plans, kind: DataType, values: list[bytes]) -> None:
    topic = plans.topic("plain")
    stream = source(topic, key=columns(K=kind), value=columns(V=kind), value_format=Format.KAFKA)
    sink = source(plans.new_name("out"), key=stream.key, value=stream.value, value_format=Format.KAFKA)
    plans.produce(topic, *((value, value) for value in values), (None, None))
    results, _ = plans.results(plan(everything(stream), sink), len(values) + 1)
    assert [(out.key, out.value) for out in results] == [*((value, value) for value in values), (None, None)]


def test_kafka_numbers_are_what_they_say(plans: Plans) -> None:
    topic = plans.topic("plain")
    stream = source(topic, key=columns(K=INTEGER), value=columns(V=DOUBLE), value_format=Format.KAFKA)
    sink = source(
        plans.new_name("out"), key=columns(K=INTEGER), value=columns(V=DOUBLE), key_format=Format.JSON
    )
    plans.produce(topic, (struct.pack(">i", -7), struct.pack(">d", -2.5)))
    results, _ = plans.results(plan(everything(stream), sink), 1)
    assert (results[0].key, results[0].json) == (b"-7", {"V": -2.5})


@pytest.mark.long
def test_no_key_whatever_the_record_has(plans: Plans) -> None:
    topic = plans.topic("keyed")
    stream = source(topic, value=columns(V=INTEGER))
    sink = source(plans.new_name("out"), value=columns(V=INTEGER))
    plans.produce(topic, (b"\xff\x00", {"v": 1}))
    results, _ = plans.results(plan(everything(stream), sink), 1)
    assert (results[0].key, results[0].json) == (None, {"V": 1})
