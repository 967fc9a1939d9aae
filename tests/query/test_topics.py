"""The topic browser against a real log: topics with offsets, and newest messages, decoded."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pytest
from confluent_kafka import Producer

from headrace.core.errors import HeadraceError
from headrace.engines.apache_kafka import ApacheKafka
from headrace.query.decoding import LONGEST_VALUE, PREVIEW_BYTES, RecordDecoder
from headrace.query.topics import MOST_MESSAGES, TopicBrowser
from headrace.testing import EmbeddedBroker
from tests.ports import free_port
from tests.query.records import create_topic, group_names, produce, topic_names

SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "EVENT_TYPE", "type": ["null", "string"]}, {"name": "COUNT", "type": "int"}],
}


def schema_by_id(schema_id: int) -> str:
    if schema_id != 7:
        raise HeadraceError("schema_not_found", f"There is no schema {schema_id}.")
    return json.dumps(SCHEMA)


def avro(value: dict[str, object], schema_id: int = 7) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), value)
    return struct.pack(">bI", 0, schema_id) + body.getvalue()


@pytest.fixture
def browser(broker: EmbeddedBroker) -> TopicBrowser:
    return TopicBrowser(broker.bootstrap, schema_by_id)


def test_topics_have_ids_partitions_and_offsets(
    broker: EmbeddedBroker, browser: TopicBrowser, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=3)
    produce(broker.bootstrap, topic_name, [{"value": b"x", "partition": 1} for _ in range(5)])
    topic = next(topic for topic in browser.topics() if topic.name == topic_name)
    offsets = [(partition.partition, partition.earliest, partition.latest) for partition in topic.partitions]
    assert offsets == [(0, 0, 0), (1, 0, 5), (2, 0, 0)]
    assert len(topic.topic_id) == 22
    assert not set(topic.topic_id) & set("/+=")
    assert all(not topic.name.startswith("__") for topic in browser.topics())


def test_the_newest_messages_come_from_all_partitions_newest_first(
    broker: EmbeddedBroker, browser: TopicBrowser, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=4)
    # Partition 3 holds the oldest half although it is the longest; the others take turns.
    records = [
        {"partition": 3, "timestamp": 1_000 + number, "value": f"{1_000 + number}"} for number in range(300)
    ]
    records += [
        {"partition": number % 3, "timestamp": 10_000 + number, "value": f"{10_000 + number}"}
        for number in range(300)
    ]
    produce(broker.bootstrap, topic_name, records)
    newest = browser.newest(topic_name, 10)
    assert [message.timestamp_ms for message in newest] == list(range(10_299, 10_289, -1))
    assert [message.value for message in newest] == list(range(10_299, 10_289, -1))
    deep = browser.newest(topic_name, 400)
    assert [message.timestamp_ms for message in deep] == [*range(10_299, 9_999, -1), *range(1_299, 1_199, -1)]


def test_one_busy_partition_may_hold_all_of_the_newest(
    broker: EmbeddedBroker, browser: TopicBrowser, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=2)
    records = [{"partition": 0, "timestamp": 1_000 + number, "value": b"old"} for number in range(500)]
    records += [{"partition": 1, "timestamp": 5_000 + number, "value": b"new"} for number in range(500)]
    produce(broker.bootstrap, topic_name, records)
    newest = browser.newest(topic_name, MOST_MESSAGES)
    assert [message.timestamp_ms for message in newest] == list(range(5_499, 4_999, -1))


def test_keys_values_and_headers_are_decoded(
    broker: EmbeddedBroker, browser: TopicBrowser, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name)
    value = {"EVENT_TYPE": "Größe", "COUNT": 3}
    written = [
        {
            "key": "user-1",
            "value": avro(value),
            "headers": [("headrace-source", b"q/t/0/1/0"), ("raw", b"\xff")],
        },
        {"key": avro(value), "value": b'{"a": [1, null]}'},
        {"key": b"\x01\x02", "value": "plain text ✓".encode()},
        {"value": b"\xff\xfe\x00"},
        {"key": "gone", "value": None},
    ]
    produce(
        broker.bootstrap,
        topic_name,
        [{"timestamp": 1_000 + at, **record} for at, record in enumerate(written)],
    )
    first, second, third, fourth, fifth = reversed(browser.newest(topic_name, 50))
    assert (first.partition, first.offset, first.timestamp_ms) == (0, 0, 1_000)
    assert (first.key, first.value, first.format) == ("user-1", value, "avro")
    assert first.headers == {"headrace-source": "q/t/0/1/0", "raw": "ff"}
    assert json.loads(second.key or "") == value
    assert (second.value, second.format) == ({"a": [1, None]}, "json")
    assert (third.key, third.value, third.format) == ("01 02", "plain text ✓", "text")
    assert (fourth.key, fourth.value, fourth.format) == (None, "ff fe 00", "binary")
    assert (fifth.key, fifth.value, fifth.format) == ("gone", None, "null")


def test_looking_leaves_no_group_and_no_topic_behind(kafka: ApacheKafka, topic_name: str) -> None:
    browser = TopicBrowser(kafka.bootstrap, schema_by_id)
    create_topic(kafka.bootstrap, topic_name)
    produce(kafka.bootstrap, topic_name, [{"value": b"x"}])
    assert len(browser.newest(topic_name, 1)) == 1
    for absent in (topic_name + "_absent", "no name for a topic!", "日本", "x" * 300):
        with pytest.raises(HeadraceError) as caught:
            browser.newest(absent, 1)
        assert caught.value.code == "no_such_topic"
    assert not any("headrace" in group for group in group_names(kafka.bootstrap))
    assert topic_name + "_absent" not in topic_names(kafka.bootstrap)


def test_an_empty_topic_has_no_messages(
    broker: EmbeddedBroker, browser: TopicBrowser, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=2)
    assert browser.newest(topic_name, 10) == []


def test_holes_in_a_compacted_partition_do_not_stop_reading(kafka: ApacheKafka, topic_name: str) -> None:
    """A stretch of offsets may hold no record at all: what was aborted or compacted is not delivered."""
    browser = TopicBrowser(kafka.bootstrap, schema_by_id)
    create_topic(kafka.bootstrap, topic_name)
    produce(kafka.bootstrap, topic_name, [{"value": b"before"}])
    transactional = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic_name})
    transactional.init_transactions(30)
    for _ in range(3):
        transactional.begin_transaction()
        for _ in range(100):
            transactional.produce(topic_name, value=b"aborted")
        transactional.flush()
        transactional.abort_transaction(30)
    assert [message.value for message in browser.newest(topic_name, 5)] == ["before"]


@pytest.mark.parametrize("limit", [0, -1, MOST_MESSAGES + 1])
def test_a_limit_out_of_bounds_is_refused(browser: TopicBrowser, topic_name: str, limit: int) -> None:
    with pytest.raises(HeadraceError) as caught:
        browser.newest(topic_name, limit)
    assert caught.value.code == "bad_request"


def test_bytes_are_bounded_and_the_newest_are_read_first(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    large = b"x" * 100_000
    produce(
        broker.bootstrap, topic_name, [{"value": large, "timestamp": 1_000 + number} for number in range(200)]
    )
    browser = TopicBrowser(broker.bootstrap, schema_by_id, most_bytes=2_000_000)
    messages = browser.newest(topic_name, 150)
    assert [message.timestamp_ms for message in messages] == list(range(1_199, 1_179, -1))
    assert {message.truncated for message in messages} == {True}
    assert {message.size_bytes for message in messages} == {100_000}
    assert {len(str(message.value)) for message in messages} == {PREVIEW_BYTES}


def test_a_log_that_does_not_answer_is_said_so() -> None:
    browser = TopicBrowser(f"127.0.0.1:{free_port()}", schema_by_id, time_limit_seconds=0.5)
    for look in (browser.topics, lambda: browser.newest("events", 1)):
        with pytest.raises(HeadraceError) as caught:
            look()
        assert caught.value.code == "log_unavailable"


def test_bytes_that_only_look_like_avro_are_shown_plainly() -> None:
    decoder = RecordDecoder(schema_by_id)
    unknown = avro({"EVENT_TYPE": "x", "COUNT": 1}, schema_id=8)
    assert decoder.value(unknown).format == "binary"
    assert decoder.value(b"\x00\x00\x00\x00\x07\xff\xff\xff").format == "binary"
    assert decoder.value(b"\x00\x00").value == "00 00"


def test_large_values_are_previews() -> None:
    decoder = RecordDecoder(schema_by_id)
    text = decoder.value("ä".encode() * LONGEST_VALUE)
    assert (text.format, text.truncated, text.value) == ("text", True, "ä" * (PREVIEW_BYTES // 2))
    binary = decoder.value(b"\xff" * (LONGEST_VALUE + 1))
    assert (binary.format, binary.truncated) == ("binary", True)
    assert decoder.value(b"[" * 60_000).format == "text"


def test_a_schema_is_asked_for_once() -> None:
    asked: list[int] = []

    def counted(schema_id: int) -> str:
        asked.append(schema_id)
        return schema_by_id(schema_id)

    decoder = RecordDecoder(counted)
    for _ in range(3):
        assert decoder.value(avro({"EVENT_TYPE": None, "COUNT": 1})).value == {"EVENT_TYPE": None, "COUNT": 1}
    assert asked == [7]
