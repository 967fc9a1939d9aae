"""JSON to Avro by the statements of the example: what a record becomes, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Row, SparkSession

from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import SourceCoordinates, parse_source
from headrace.pipeline.spark.stateless import projected, value_schema
from tests.example_plans import avro_plan
from tests.pipeline.records import POSTED, Record, decoded, frame

PLAN = avro_plan("events")
SCHEMA = value_schema(PLAN)
SOURCE = TopicIdentity(name="events", topic_id="sourceid", partitions=4)
SINK = TopicIdentity(name="events_avro", topic_id="sinkid", partitions=3)


def _transcode(spark: SparkSession, *records: Record) -> list[Row]:
    result = projected(
        frame(spark, list(records)),
        PLAN,
        query="CSAS_EVENTS_AVRO_1",
        source=SOURCE,
        sink=SINK,
        schema_id=258,
        dead_letter_topic="events_dlq",
    )
    return result.collect()


def _values(spark: SparkSession, *events: Any) -> list[dict[str, Any]]:
    """The Avro content of each event; fails if one became a dead letter."""
    rows = _transcode(spark, *(Record(value=_json(event), offset=n) for n, event in enumerate(events)))
    assert {row["topic"] for row in rows} == {"events_avro"}
    return [decoded(SCHEMA, row["value"])[1] for row in rows]


def _json(event: Any) -> bytes:
    return event if isinstance(event, bytes) else json.dumps(event).encode()


def test_an_event_becomes_an_avro_record_with_its_date(spark: SparkSession) -> None:
    event = {
        "Event_Type": "ListingView",
        "Event_Version": "1",
        "User_ID": "u1",
        "Listing_ID": "l1",
        "Server_Time": "2026-03-14T09:26:53Z",
        "Device_Type": "ios",
    }
    (row,) = _transcode(spark, Record(value=_json(event), offset=41, partition=3, key=b"u1"))
    schema_id, content = decoded(SCHEMA, row["value"])
    assert schema_id == 258
    assert content == {name.upper(): value for name, value in event.items()} | {"SERVER_DATE": "2026-03-14"}
    assert bytes(row["key"]) == b"u1"
    assert row["partition"] is None, "Kafka's own hash of the key decides"


def test_every_record_says_where_it_comes_from(spark: SparkSession) -> None:
    (row,) = _transcode(spark, Record(value=b"{}", offset=41, partition=3))
    headers = {header["key"]: bytes(header["value"]) for header in row["headers"]}
    assert parse_source(headers["headrace-source"]) == SourceCoordinates(
        query="CSAS_EVENTS_AVRO_1", topic_id="sourceid", partition=3, offset=41, ordinal=0
    )
    assert int(headers["headrace-posted-at"]) == int(POSTED.timestamp() * 1000)


def test_fields_match_without_case_and_others_do_no_harm(spark: SparkSession) -> None:
    low, high, both = _values(
        spark,
        {"event_type": "a", "user_id": "u", "more": {"deep": [1, 2]}},
        {"EVENT_TYPE": "b", "USER_ID": "v"},
        b'{"event_type": "first", "Event_Type": "last"}',
    )
    assert (low["EVENT_TYPE"], low["USER_ID"]) == ("a", "u")
    assert (high["EVENT_TYPE"], high["USER_ID"]) == ("b", "v")
    assert both["EVENT_TYPE"] == "last"


def test_values_of_other_types_become_their_text(spark: SparkSession) -> None:
    (row,) = _values(spark, {"User_ID": 17, "Event_Version": 1.5, "Device_Type": True, "Listing_ID": None})
    assert (row["USER_ID"], row["EVENT_VERSION"], row["DEVICE_TYPE"], row["LISTING_ID"]) == (
        "17",
        "1.5",
        "true",
        None,
    )
    (nested,) = _values(spark, b'{"Listing_ID": {"a": [1, "x"]}}')
    assert json.loads(nested["LISTING_ID"]) == {"a": [1, "x"]}


def test_missing_fields_are_null_and_short_times_stay_short(spark: SparkSession) -> None:
    empty, short = _values(spark, {}, {"Server_Time": "2026"})
    assert set(empty.values()) == {None}
    assert short["SERVER_DATE"] == "2026"


def test_text_of_any_script_survives(spark: SparkSession) -> None:
    (row,) = _values(spark, {"Event_Type": "Ansicht 表示 🛶", "User_ID": 'a"b\\c\n'})
    assert (row["EVENT_TYPE"], row["USER_ID"]) == ("Ansicht 表示 🛶", 'a"b\\c\n')


def test_what_is_no_json_object_goes_to_the_dead_letters_with_the_reason(spark: SparkSession) -> None:
    bad = [b"", b"{", b"nonsense", b"[1, 2]", b'"text"', b"5", b"null", b"\xff\xfe", b'{"a": 1']
    rows = _transcode(spark, *(Record(value=value, offset=n, key=b"k") for n, value in enumerate(bad)))
    assert [row["topic"] for row in rows] == ["events_dlq"] * len(bad)
    assert [bytes(row["value"]) for row in rows] == bad
    for number, row in enumerate(rows):
        headers = {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
        assert "not a JSON object" in headers["headrace-error"]
        assert parse_source(headers["headrace-source"].encode()).offset == number


def test_a_dead_letter_has_the_headers_of_its_record_and_how_often_it_failed(spark: SparkSession) -> None:
    had = {"trace": b"t-1", "headrace-attempts": b"2", "headrace-repaired-from": b"events_dlq/0/7"}
    (row,) = _transcode(spark, Record(value=b"{", offset=9, partition=3, key=b"k", headers=had))
    headers = {header["key"]: bytes(header["value"]) for header in row["headers"]}
    assert headers["headrace-query"] == b"CSAS_EVENTS_AVRO_1"
    assert headers["headrace-read-from"] == b"events/sourceid/3/9"
    assert headers["headrace-attempts"] == b"3"
    original = {name: value for name, value in headers.items() if name.startswith("headrace-original-")}
    assert original == {f"headrace-original-{name}": value for name, value in had.items()}


def test_a_good_record_carries_nothing_of_a_repair(spark: SparkSession) -> None:
    had = {"headrace-attempts": b"1", "headrace-repaired-from": b"events_dlq/0/7", "headrace-rowtime": b"5"}
    (row,) = _transcode(spark, Record(value=b"{}", offset=9, key=b"k", headers=had))
    headers = {header["key"]: bytes(header["value"]) for header in row["headers"]}
    assert set(headers) == {"headrace-source", "headrace-rowtime", "headrace-posted-at"}
    assert headers["headrace-rowtime"] == b"5"


def test_a_record_without_a_value_passes_without_one(spark: SparkSession) -> None:
    (row,) = _transcode(spark, Record(value=None, offset=0, key=b"k"))
    assert (row["topic"], row["value"]) == ("events_avro", None)


def test_records_without_a_key_stay_in_their_lane(spark: SparkSession) -> None:
    rows = _transcode(spark, *(Record(value=b"{}", offset=0, partition=partition) for partition in range(4)))
    assert [row["partition"] for row in rows] == [0, 1, 2, 0]
