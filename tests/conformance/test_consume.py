"""Consumers without a group: where they start, how they wait, how much they get."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from tests.conformance.answers.conversation import FETCH
from tests.conformance.clients import (
    Client,
    Message,
    contents,
    kafka_python_consumer,
    librdkafka_consumer,
    of_librdkafka,
)
from tests.conformance.engines import Engine
from tests.conformance.raw_client import RawClient
from tests.conformance.record_batches import BASE_TIMESTAMP, Record, batch, read_batches

MESSAGES = [Message(value=b"%d" % number, timestamp=BASE_TIMESTAMP + 10 * number) for number in range(100)]
# librdkafka's way to say "so many before the end".
TAIL = -2000
READERS = ("librdkafka", "kafka-python", "java")


@pytest.fixture
def topic(engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]) -> str:
    """A hundred records in one partition, several to a batch."""
    name = new_topic()
    clients["librdkafka"].write(
        engine.bootstrap, name, MESSAGES, partition=0, batch_num_messages="10", linger_ms="50"
    )
    return name


@pytest.mark.parametrize("reader", READERS)
def test_reading_from_inside_a_batch(
    engine: Engine, clients: dict[str, Client], topic: str, reader: str
) -> None:
    for offset in (0, 9, 57):
        found = clients[reader].read(engine.bootstrap, topic, 100 - offset, offset=offset)
        assert contents(found) == contents(MESSAGES[offset:])


def test_fetch_inside_a_batch_gives_the_whole_batch(raw: RawClient, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    _produce(raw, name, batch([Record()] * 5))
    _produce(raw, name, batch([Record()] * 5))
    for offset, base in ((0, 0), (3, 0), (4, 0), (5, 5), (8, 5)):
        first = next(read_batches(_fetch(raw, name, offset)))
        assert (first.base_offset, first.record_count) == (base, 5)


def test_offsets_by_time(engine: Engine, topic: str) -> None:
    """The first offset whose time is that or later; none after the last."""
    expected = {0: 0, 1: 1, 10: 1, 11: 2, 505: 51, 990: 99, 991: None}
    consumer = librdkafka_consumer(engine.bootstrap)
    try:
        for delta, offset in expected.items():
            asked = [confluent_kafka.TopicPartition(topic, 0, BASE_TIMESTAMP + delta)]
            (found,) = consumer.offsets_for_times(asked, timeout=120)
            assert found.offset == (confluent_kafka.OFFSET_END if offset is None else offset)
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=120) == (
            0,
            100,
        )
    finally:
        consumer.close()
    other = kafka_python_consumer(engine.bootstrap)
    try:
        place = kafka_python.TopicPartition(topic, 0)
        for delta, offset in expected.items():
            by_time = other.offsets_for_times({place: BASE_TIMESTAMP + delta})[place]
            assert (by_time and by_time.offset) == offset
        assert other.beginning_offsets([place]) == {place: 0}
        assert other.end_offsets([place]) == {place: 100}
    finally:
        other.close()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 100), ("error", None)])
def test_what_happens_out_of_range(
    engine: Engine, clients: dict[str, Client], topic: str, reset: str, expected: int | None
) -> None:
    """auto.offset.reset: start, end, or an error."""
    consumer = librdkafka_consumer(engine.bootstrap, **{"auto.offset.reset": reset})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 5000)])
        message = None
        deadline = time.monotonic() + 120
        while message is None and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None and expected == 100:
                # When the reset has happened is not to be seen: what comes first was written after it.
                clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"new")], partition=0)
        assert message is not None
        if expected is None:
            assert message.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
        else:
            found = of_librdkafka(message)
            assert found.offset == expected or (expected == 100 and found.value == b"new")
    finally:
        consumer.close()


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_what_happens_out_of_range_in_python(engine: Engine, topic: str, reset: str) -> None:
    place = kafka_python.TopicPartition(topic, 0)
    consumer = kafka_python_consumer(engine.bootstrap, auto_offset_reset=reset)
    try:
        consumer.assign([place])
        consumer.seek(place, 5000)
        if reset == "none":
            with pytest.raises(kafka_python.errors.OffsetOutOfRangeError):
                _poll_until(consumer, bool)
        elif reset == "earliest":
            records = _poll_until(consumer, bool)
            assert records[place][0].offset == 0
        else:
            _poll_until(consumer, lambda _: consumer.position(place) == 100)
    finally:
        consumer.close()


def test_from_the_end(engine: Engine, clients: dict[str, Client], topic: str) -> None:
    consumer = librdkafka_consumer(engine.bootstrap)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, TAIL - 3)])
        offsets = [of_librdkafka(each).offset for each in consumer.consume(3, 30)]
        assert offsets == [97, 98, 99]
        clients["java"].write(engine.bootstrap, topic, [Message(value=b"new")], partition=0)
        (message,) = consumer.consume(1, 30)
        assert of_librdkafka(message).value == b"new"
    finally:
        consumer.close()


def test_waiting_fetch_is_answered_by_an_append(
    engine: Engine, raw: RawClient, new_topic: Callable[..., str]
) -> None:
    """fetch.max.wait.ms far away: nothing comes while nothing is written, and then at once."""
    name = new_topic()
    with RawClient(engine.address, timeout=0.3) as waiting:
        waiting.send(FETCH, 12, **_fetch_fields(name, 0, max_wait=60_000))
        with pytest.raises(TimeoutError):
            waiting.receive_frame()
        waiting.set_timeout(30)
        _produce(raw, name, batch())
        reply = waiting.receive(FETCH, 12)
    assert len(list(read_batches(reply.responses[0].partitions[0].records))) == 1


def test_waiting_fetch_counts_bytes_over_partitions(
    engine: Engine, raw: RawClient, new_topic: Callable[..., str]
) -> None:
    """fetch.min.bytes is the sum over all partitions asked for."""
    name = new_topic(partitions=2)
    partitions = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for each in (0, 1)]
    records = batch([Record(value=b"x" * 100)])
    fields = {"replica_id": -1, "max_wait": 60_000, "min_bytes": len(records) + 1, "max_bytes": 1 << 20}
    with RawClient(engine.address, timeout=0.3) as waiting:
        waiting.send(FETCH, 12, **fields, topics=[{"topic": name, "partitions": partitions}])
        _produce(raw, name, records)
        with pytest.raises(TimeoutError):
            waiting.receive_frame()
        waiting.set_timeout(30)
        _produce(raw, name, records, partition=1)
        reply = waiting.receive(FETCH, 12)
    assert [len(each.records) for each in reply.responses[0].partitions] == [len(records)] * 2


def test_waiting_ends_in_time(raw: RawClient, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    reply = raw.ask(FETCH, 12, **_fetch_fields(name, 0, max_wait=50))
    assert not reply.responses[0].partitions[0].records


@pytest.mark.parametrize("reader", READERS)
def test_batch_larger_than_the_reader_asks_for(
    engine: Engine, clients: dict[str, Client], java_tools: Any, new_topic: Callable[..., str], reader: str
) -> None:
    """max.partition.fetch.bytes smaller than a batch: KIP-74 gives it whole all the same."""
    name = new_topic()
    messages = [
        Message(value=bytes([65 + number]) * 100_000, timestamp=BASE_TIMESTAMP) for number in range(5)
    ]
    clients["librdkafka"].write(engine.bootstrap, name, messages, partition=0)
    if reader == "librdkafka":
        consumer = librdkafka_consumer(
            engine.bootstrap, **{"max.partition.fetch.bytes": 1000, "fetch.max.bytes": 1_000_000}
        )
        consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
        values = [of_librdkafka(each).value for each in consumer.consume(5, 30)]
        consumer.close()
    elif reader == "kafka-python":
        consumer = kafka_python_consumer(engine.bootstrap, max_partition_fetch_bytes=1000)
        place = kafka_python.TopicPartition(name, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        values = []
        deadline = time.monotonic() + 120
        while len(values) < 5 and time.monotonic() < deadline:
            values += [each.value for each in consumer.poll(500).get(place, [])]
        consumer.close()
    else:
        jvm = java_tools.jvm
        deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
        settings = {"bootstrap.servers": engine.bootstrap, "max.partition.fetch.bytes": "1000"}
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer, deserializer)
        place = jvm.org.apache.kafka.common.TopicPartition(name, 0)
        consumer.assign([place])
        consumer.seekToBeginning([place])
        values = []
        deadline = time.monotonic() + 120
        while len(values) < 5 and time.monotonic() < deadline:
            iterator = consumer.poll(jvm.java.time.Duration.ofMillis(500)).iterator()
            while iterator.hasNext():
                values.append(bytes(iterator.next().value()))
        consumer.close()
    assert values == [each.value for each in messages]


def _at(topic: str) -> Any:
    return confluent_kafka.TopicPartition(topic, 0)


def _poll_until(consumer: Any, done: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + 120
    while True:
        records = consumer.poll(200)
        if done(records):
            return records
        assert time.monotonic() < deadline


def _fetch_fields(name: str, offset: int, **fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    base = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return base | {"topics": [{"topic": name, "partitions": [partition]}]} | fields


def _fetch(client: RawClient, name: str, offset: int) -> bytes:
    reply = client.ask(FETCH, 12, **_fetch_fields(name, offset))
    return bytes(reply.responses[0].partitions[0].records)


def _produce(client: RawClient, name: str, records: bytes, partition: int = 0) -> None:
    data = [{"name": name, "partition_data": [{"index": partition, "records": records}]}]
    reply = client.ask(0, 11, acks=-1, timeout=10_000, topic_data=data)
    assert reply.responses[0].partition_responses[0].error_code == 0
