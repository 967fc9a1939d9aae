"""Rows that can be read but not written: dead letters with the reason."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.formats import Serializer
from headrace.pipeline.spark.steps.writable import Limits
from tests.pipeline.plans.given_records import Given, Records, Sent, catalogue_of, planned
from tests.pipeline.plans.harness import MemoryRegistry

COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
FOUR = {"type": "fixed", "name": "Four", "size": 4}
SMALL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
SCHEMA = {
    "type": "record",
    "name": "Theirs",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "colour", "type": ["null", COLOUR]},
        {"name": "code", "type": ["null", FOUR]},
        {"name": "price", "type": ["null", SMALL]},
        {"name": "ratio", "type": ["null", "float"]},
        {"name": "tags", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "points", "type": ["null", {"type": "array", "items": POINT}]},
        {"name": "version", "type": "int", "default": 5},
        {"name": "second", "type": ["Colour", "null"], "default": "BLUE"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "where", "type": "Point", "default": {"x": 3}},
        {"name": "later", "type": ["null", "string"]},
    ],
}
SOURCE = """
CREATE STREAM s (id INTEGER, colour VARCHAR, code BYTES, price DECIMAL(9, 3), ratio DOUBLE,
    tags MAP<VARCHAR, VARCHAR>, points ARRAY<STRUCT<x INTEGER>>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
"""


@pytest.fixture
def records(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records(spark=spark, folder=tmp_path_factory.mktemp("records"), registry=MemoryRegistry())


def json_records(*values: Any, key: bytes | None = None) -> list[Given]:
    return [Given(key=key, value=json.dumps(value).encode()) for value in values]


def reasons(sent: list[Sent]) -> dict[int, str]:
    return {each.number: each.headers["headrace-error"] for each in sent if each.is_dead}


def test_a_schema_of_others(records: Records) -> None:
    schema_id = records.registry.register("theirs", json.dumps(SCHEMA))
    plan = planned(
        f"CREATE STREAM o WITH (VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID={schema_id}) AS SELECT * FROM s;",
        catalogue_of(SOURCE),
    )
    whole = {
        "id": 1,
        "colour": "RED",
        "code": "AAECAw==",
        "price": 12.5,
        "ratio": 0.5,
        "tags": {"a": "b"},
        "points": [{"x": 1}],
    }
    given = json_records(
        whole,
        {"id": 2},
        whole | {"id": None},
        whole | {"colour": "GREEN"},
        whole | {"code": "AAEC"},
        whole | {"price": 1234.5},
        whole | {"price": 1.25},
        whole | {"ratio": 1e300},
        whole | {"tags": {"a": None}},
        whole | {"points": [{"x": 1}, {"x": None}]},
        whole | {"points": [None]},
    )
    (sent,) = records.sent([(plan, {"s": records.frame(given)})])
    ending = f", which the schema with id {schema_id} does not allow."
    assert reasons(sent) == {
        2: f"Column ID is null{ending}",
        3: f"Column COLOUR is none of its symbols{ending}",
        4: f"Column CODE does not have 4 bytes{ending}",
        5: f"Column PRICE does not fit DECIMAL(4,1){ending}",
        6: f"Column PRICE does not fit DECIMAL(4,1){ending}",
        7: f"Column RATIO is too large for a float{ending}",
        8: f"An element of column TAGS is null{ending}",
        9: f"An element of column POINTS->X is null{ending}",
        10: f"An element of column POINTS is null{ending}",
    }
    for each in sent:
        if each.is_dead:
            assert (each.key, each.value) == (given[each.number].key, given[each.number].value)
    good = {each.number: _decoded(each.value) for each in sent if not each.is_dead}
    defaults = {"version": 5, "second": "BLUE", "raw": b"\xff", "where": {"x": 3}, "later": None}
    assert {name: good[0][name] for name in defaults} == defaults
    assert (good[0]["colour"], good[0]["code"], float(good[0]["price"])) == ("RED", b"\0\x01\x02\x03", 12.5)
    assert (good[0]["tags"], good[0]["points"]) == ({"a": "b"}, [{"x": 1}])
    assert good[1]["id"] == 2
    # The Python form writes the same bytes.
    row = Serializer(plan.sink, records.registry)
    values = row.read_value(next(each.value for each in sent if each.number == 0))
    assert row.value(values) == next(each.value for each in sent if each.number == 0)


def _decoded(value: bytes | None) -> Any:
    assert value is not None
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(SCHEMA), None)


def test_known_cases(records: Records) -> None:
    """Each of these ended a query."""
    catalogue = catalogue_of(
        """CREATE STREAM s (v VARCHAR, d DECIMAL(9, 3), p VARCHAR)
               WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
           CREATE STREAM moments (t TIMESTAMP) WITH (KAFKA_TOPIC='moments', VALUE_FORMAT='JSON');
           CREATE STREAM timed (v VARCHAR) WITH (KAFKA_TOPIC='timed', VALUE_FORMAT='JSON',
               TIMESTAMP='v', TIMESTAMP_FORMAT='yyyy-MM-dd');
           CREATE STREAM lines (a VARCHAR, b VARCHAR) WITH (KAFKA_TOPIC='lines', VALUE_FORMAT='DELIMITED');
           CREATE STREAM hourly (k VARCHAR KEY, v VARCHAR) WITH (KAFKA_TOPIC='hourly', VALUE_FORMAT='JSON',
               WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOURS');"""
    )
    frames = {
        "s": records.frame(
            json_records(
                {"v": None, "d": 999999.999, "p": "\x01x"},
                {"v": "", "d": None, "p": "%\x01"},
                {"v": "a,b", "d": -0.001, "p": "a\x01%"},
            )
        ),
        "moments": records.frame(json_records({"t": 9223372036854775807}, {"t": -1})),
        "timed": records.frame(json_records({"v": "+999999999-01-01"}, {"v": "2026-01-01"})),
        "lines": records.frame([Given(key=None, value=b"," * 30_000), Given(key=None, value=b"a,")]),
        "hourly": records.frame(json_records({"v": "a"}, key=b"k" + b"\x7f" + b"\xff" * 7)),
    }
    statements = (
        "CREATE STREAM o WITH (VALUE_FORMAT='DELIMITED') AS SELECT v FROM s;",
        "CREATE STREAM o WITH (VALUE_FORMAT='AVRO') AS SELECT LEAST(d, NULL) AS d FROM s;",
        "CREATE STREAM o AS SELECT v LIKE p AS l FROM s;",
        "CREATE STREAM o AS SELECT t FROM moments;",
        "CREATE STREAM o AS SELECT * FROM timed;",
        "CREATE STREAM o AS SELECT * FROM lines;",
        "CREATE STREAM o AS SELECT *, WINDOWEND AS e FROM hourly;",
    )
    plans = [planned(statement, catalogue) for statement in statements]
    lines, least, liked, moments, timed, read, windows = records.sent([(plan, frames) for plan in plans])
    assert [each.value for each in lines] == [b"", b"", b'"a,b"']
    decimals = [Serializer(plans[1].sink, records.registry).read_value(each.value)["D"] for each in least]
    assert [None if each is None else str(each) for each in decimals] == ["999999.999", None, "-0.001"]
    assert [json.loads(each.value or b"")["L"] for each in liked] == [None, False, False]
    assert reasons(moments) == {0: "Column T of the value is not of type TIMESTAMP: 9223372036854775807."}
    assert reasons(timed) == {0: "Column V, the TIMESTAMP of the record, has no valid time."}
    assert reasons(read) == {0: "The value is not a line of 2 delimited fields."}
    assert [json.loads(each.value or b"")["E"] for each in windows] == [None]


def test_what_the_topic_does_not_take(records: Records) -> None:
    """Too large, or without a key in a compacted topic; an oversized dead letter goes without its value."""
    catalogue = catalogue_of(
        """CREATE STREAM s (k INTEGER KEY, v VARCHAR) WITH (KAFKA_TOPIC='s', KEY_FORMAT='JSON',
               VALUE_FORMAT='JSON');"""
    )
    limits = Limits(record_bytes=20_000, letter_bytes=40_000, needs_key=True)
    given = [
        *json_records({"v": "a"}, {"v": "b" * 5_000}, key=b"1"),
        *json_records({"v": "c"}, key=b"null"),
        *json_records({"v": "d" * 40_000}, key=b"2"),
    ]
    frames = {"s": records.frame(given)}
    stateless = planned("CREATE STREAM o AS SELECT k, v + v + v + v AS v FROM s;", catalogue)
    stateful = planned("CREATE TABLE o AS SELECT k, COLLECT_LIST(v) AS v FROM s GROUP BY k;", catalogue)
    rows, groups = records.sent([(stateless, frames), (stateful, frames)], limits)
    assert {number: reason.partition(":")[0] for number, reason in reasons(rows).items()} == {
        1: "The result is too large for its topic",
        2: "The result has no key, and its topic is compacted.",
        3: "The result is too large for its topic",
    }
    values = {each.number: each.value for each in rows if each.is_dead}
    assert values == {1: given[1].value, 2: given[2].value, 3: None}
    (dead,) = (each for each in groups if each.is_dead)
    assert dead.key == b"2"
    assert dead.value is None
    assert "headrace-read-from" not in dead.headers
    assert "headrace-source" not in dead.headers
    large = Given(key=b"3", value=b"[]", headers=(("h", b"x" * 50_000),))
    (letter,) = records.sent([(stateless, {"s": records.frame([large])})], limits)[0]
    assert (letter.is_dead, letter.key, letter.value) == (True, None, None)
    assert "headrace-original-h" not in letter.headers
    # A dead letter of a row is the row.
    small = Limits(record_bytes=4_000, letter_bytes=40_000, needs_key=True)
    (again,) = records.sent([(stateful, frames)], small)
    found = {each.key: json.loads(each.value) for each in again if each.is_dead and each.value is not None}
    assert found == {b"1": {"K": 1, "V": ["a", "b" * 5_000]}}
