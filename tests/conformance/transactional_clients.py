"""Transactional producers and readers of every client, behind one interface.

A reader reads a partition to its end, which is the last stable offset for those who read committed records.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import confluent_kafka
import kafka as kafka_python

from tests.conformance.java_tools import JavaTools

SECONDS: Final = 30.0
COMMITTED: Final = "read_committed"
ALL: Final = "read_uncommitted"


class Transactions(Protocol):
    """One transactional producer; it has its id when it is made."""

    def begin(self) -> None: ...

    def send(self, topic: str, *values: bytes) -> None:
        """To partition 0; every record is acknowledged when it returns."""

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        """Commit the offset of partition 0 for the group, which has no members."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Go away, whatever is open."""


class LibrdkafkaTransactions:
    def __init__(self, bootstrap: str, transactional_id: str, **options: Any) -> None:
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(settings | options | {"log_level": 0})
        self._producer.init_transactions(SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes) -> None:
        errors: list[Any] = []
        for value in values:
            self._producer.produce(
                topic, value, partition=0, on_delivery=lambda error, _message: errors.append(error)
            )
        assert self._producer.flush(SECONDS) == 0
        if failed := [each for each in errors if each is not None]:
            raise confluent_kafka.KafkaException(failed[0])

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, 0, offset)],
                consumer.consumer_group_metadata(),
                SECONDS,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        del self._producer


class KafkaPythonTransactions:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes) -> None:
        futures = [self._producer.send(topic, value=value, partition=0) for value in values]
        self._producer.flush(SECONDS)
        for future in futures:
            future.get(SECONDS)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        place = kafka_python.TopicPartition(topic, 0)
        self._producer.send_offsets_to_transaction(
            {place: kafka_python.structs.OffsetAndMetadata(offset, "", -1)}, group
        )

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(0)


class JavaTransactions:
    def __init__(self, jvm: Any, bootstrap: str, transactional_id: str) -> None:
        self._jvm = jvm
        self._clients = jvm.org.apache.kafka.clients.producer
        serializer = jvm.org.apache.kafka.common.serialization.ByteArraySerializer()
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": "0"}
        self._producer = self._clients.KafkaProducer(settings, serializer, serializer)
        self._producer.initTransactions()

    def begin(self) -> None:
        self._producer.beginTransaction()

    def send(self, topic: str, *values: bytes) -> None:
        sent = [self._producer.send(self._clients.ProducerRecord(topic, 0, None, value)) for value in values]
        self._producer.flush()
        for each in sent:
            each.get()

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        place = self._jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        consumer = self._jvm.org.apache.kafka.clients.consumer
        self._producer.sendOffsetsToTransaction(
            {place: consumer.OffsetAndMetadata(offset)}, consumer.ConsumerGroupMetadata(group)
        )

    def commit(self) -> None:
        self._producer.commitTransaction()

    def abort(self) -> None:
        self._producer.abortTransaction()

    def close(self) -> None:
        self._producer.close(self._jvm.java.time.Duration.ZERO)


Make = Callable[[str, str], Transactions]
Read = Callable[[str, str, str], list[bytes]]


def writers(tools: JavaTools) -> dict[str, Make]:
    """By the names of the clients: bootstrap and transactional id give a producer."""
    return {
        "librdkafka": LibrdkafkaTransactions,
        "kafka-python": KafkaPythonTransactions,
        "java": lambda bootstrap, name: JavaTransactions(tools.jvm, bootstrap, name),
    }


def readers(tools: JavaTools) -> dict[str, Read]:
    """By the names of the clients: bootstrap, topic and isolation level give the values of partition 0."""
    return {
        "librdkafka": read_with_librdkafka,
        "kafka-python": read_with_kafka_python,
        "java": lambda bootstrap, topic, level: read_with_java(tools.jvm, bootstrap, topic, level),
    }


def read_with_librdkafka(bootstrap: str, topic: str, level: str, partition: int = 0) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": level,
            "fetch.wait.max.ms": 50,
        }
    )
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message.value())
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise confluent_kafka.KafkaException(message.error())
    finally:
        consumer.close()
    raise AssertionError(f"{topic} cannot be read to its end")


def read_with_kafka_python(bootstrap: str, topic: str, level: str) -> list[bytes]:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level=level,
        fetch_max_wait_ms=50,
    )
    place = kafka_python.TopicPartition(topic, 0)
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    try:
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            for records in consumer.poll(200).values():
                found += [each.value for each in records]
    finally:
        consumer.close()
    return found


def read_with_java(jvm: Any, bootstrap: str, topic: str, level: str) -> list[bytes]:
    deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
    settings = {
        "bootstrap.servers": bootstrap,
        "enable.auto.commit": "false",
        "isolation.level": level,
        "fetch.max.wait.ms": "50",
    }
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer, deserializer)
    place = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    try:
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.endOffsets([place]).get(place)
        while consumer.position(place) < end:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            iterator = consumer.poll(jvm.java.time.Duration.ofMillis(200)).iterator()
            while iterator.hasNext():
                found.append(bytes(iterator.next().value()))
    finally:
        consumer.close()
    return found
