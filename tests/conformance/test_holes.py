"""Every client goes over the hole that a power loss leaves in a topic, in the middle of it and at its end.

Only the embedded broker makes such holes: an empty batch stands where the lost records may have been.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import confluent_kafka
import kafka as kafka_python
import pytest

from tests.broker.broker_process import PowerCutBroker
from tests.conformance.clients import READ_TIMEOUT, KafkaPython, Librdkafka, Message, of_librdkafka
from tests.conformance.java_tools import JavaTools

KEPT, LOST, AFTER = 10, 30, 5
AT_THE_END, IN_THE_MIDDLE = "hole-at-the-end", "hole-in-the-middle"
LEVELS = ["read_uncommitted", "read_committed"]


class Holes(NamedTuple):
    """A broker with both topics, and the offset behind the hole of each."""

    bootstrap: str
    behind: dict[str, int]

    def end(self, topic: str) -> int:
        return self.behind[topic] + (AFTER if topic == IN_THE_MIDDLE else 0)


def write(bootstrap: str, topic: str, what: str, count: int) -> list[int]:
    messages = [Message(value=f"{what} {number}".encode()) for number in range(count)]
    return [offset for _, offset in Librdkafka().write(bootstrap, topic, messages, partition=0)]


@pytest.fixture(scope="module")
def holes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holes]:
    broker = PowerCutBroker(tmp_path_factory.mktemp("holes"))
    behind = {}
    try:
        broker.start()
        for topic in (AT_THE_END, IN_THE_MIDDLE):
            write(broker.bootstrap, topic, "kept", KEPT)
        broker.stop()
        broker.start()
        for topic in (AT_THE_END, IN_THE_MIDDLE):
            assert max(write(broker.bootstrap, topic, "lost", LOST)) == KEPT + LOST - 1
        broker.cut_power()
        broker.start()
        behind[IN_THE_MIDDLE] = min(write(broker.bootstrap, IN_THE_MIDDLE, "after", AFTER))
        # The latest offset is what the clients say that it is.
        behind[AT_THE_END] = latest(broker.bootstrap, AT_THE_END)
        assert all(offset >= KEPT + LOST for offset in behind.values())
        yield Holes(broker.bootstrap, behind)
    finally:
        broker.end()


def latest(bootstrap: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), READ_TIMEOUT)
        return int(end)
    finally:
        consumer.close()


Follow = Callable[[Holes, str, int, str], list[int]]


def with_librdkafka(holes: Holes, topic: str, offset: int, level: str) -> list[int]:
    """The offsets of all records from an offset on; it returns when the client says that it is at the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": holes.bootstrap,
            "group.id": "nobody",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": level,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    found: list[int] = []
    try:
        while True:
            message = consumer.poll(READ_TIMEOUT)
            assert message is not None, "it did not come to the end"
            error = message.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                assert message.offset() == holes.end(topic)
                return found
            found.append(of_librdkafka(message).offset)
    finally:
        consumer.close()


def with_kafka_python(holes: Holes, topic: str, offset: int, level: str) -> list[int]:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=holes.bootstrap, auto_offset_reset="none", isolation_level=level
    )
    place = kafka_python.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, offset)
    found: list[int] = []
    try:
        deadline = time.monotonic() + READ_TIMEOUT
        while consumer.position(place) < holes.end(topic):
            assert time.monotonic() < deadline, f"it stays at {consumer.position(place)}"
            for records in consumer.poll(1000).values():
                found += [record.offset for record in records]
        return found
    finally:
        consumer.close()


def with_java(jvm: Any, holes: Holes, topic: str, offset: int, level: str) -> list[int]:
    deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
    settings = {"bootstrap.servers": holes.bootstrap, "auto.offset.reset": "none", "isolation.level": level}
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer, deserializer)
    place = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, offset)
    found: list[int] = []
    try:
        deadline = time.monotonic() + READ_TIMEOUT
        while consumer.position(place) < holes.end(topic):
            assert time.monotonic() < deadline, f"it stays at {consumer.position(place)}"
            records = consumer.poll(jvm.java.time.Duration.ofMillis(1000)).iterator()
            while records.hasNext():
                found.append(records.next().offset())
        return found
    finally:
        consumer.close()


@pytest.fixture(params=["librdkafka", "kafka-python", "java"])
def follow(request: pytest.FixtureRequest) -> Follow:
    if request.param == "java":
        tools: JavaTools = request.getfixturevalue("java_tools")
        return lambda *arguments: with_java(tools.jvm, *arguments)
    return {"librdkafka": with_librdkafka, "kafka-python": with_kafka_python}[request.param]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", [AT_THE_END, IN_THE_MIDDLE])
@pytest.mark.parametrize("start", [0, KEPT + 7])
def test_a_client_goes_over_the_hole(
    holes: Holes, follow: Follow, topic: str, level: str, start: int
) -> None:
    after = range(holes.behind[topic], holes.end(topic))
    assert follow(holes, topic, start, level) == [*range(start, KEPT), *after]


def test_a_group_that_was_ahead_of_the_lost_end_goes_on(holes: Holes) -> None:
    """Its committed offset lies in the hole, with the leader epoch of the lost record that it had read."""
    place = confluent_kafka.TopicPartition(IN_THE_MIDDLE, 0, KEPT + LOST - 3, leader_epoch=0)
    settings = {
        "bootstrap.servers": holes.bootstrap,
        "group.id": "ahead",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([IN_THE_MIDDLE])
        message = consumer.poll(READ_TIMEOUT)
        assert message is not None
        assert of_librdkafka(message).offset == holes.behind[IN_THE_MIDDLE]
    finally:
        consumer.close()


def test_a_java_group_with_the_epoch_of_a_lost_record_is_not_reset(
    holes: Holes, java_tools: JavaTools
) -> None:
    """Java's client checks the epoch (KIP-320), and would raise LogTruncationException with this policy."""
    jvm = java_tools.jvm
    deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
    settings = {
        "bootstrap.servers": holes.bootstrap,
        "group.id": "ahead-with-java",
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
    }
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer, deserializer)
    try:
        place = jvm.org.apache.kafka.common.TopicPartition(IN_THE_MIDDLE, 0)
        epoch = jvm.java.util.Optional.of(0)
        consumer.assign([place])
        committed = jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(KEPT + LOST - 3, epoch, "")
        consumer.commitSync({place: committed})
        found: list[int] = []
        deadline = time.monotonic() + READ_TIMEOUT
        while not found and time.monotonic() < deadline:
            records = consumer.poll(jvm.java.time.Duration.ofMillis(1000)).iterator()
            while records.hasNext():
                found.append(records.next().offset())
        assert found == list(range(holes.behind[IN_THE_MIDDLE], holes.end(IN_THE_MIDDLE)))
    finally:
        consumer.close()


def test_records_of_a_client_follow_the_hole(holes: Holes) -> None:
    """All that a client wrote and reads by number comes back, with the hole in between."""
    read = KafkaPython().read(holes.bootstrap, IN_THE_MIDDLE, KEPT + AFTER)
    assert [each.value for each in read] == [
        *(f"kept {number}".encode() for number in range(KEPT)),
        *(f"after {number}".encode() for number in range(AFTER)),
    ]
