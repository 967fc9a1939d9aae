"""Three clients that nobody here wrote, behind one small face: librdkafka, kafka-python and Java's.

Each writes and reads one partition or lets its own partitioner choose; nothing that needs a group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import confluent_kafka
import kafka as kafka_python
import kafka.codec as kafka_python_codecs
from kafka.record import default_records as kafka_python_records

from tests.conformance.java_tools import JavaTools
from tests.conformance.record_batches import compress, decompress

READ_TIMEOUT = 120.0
LARGEST = 16 * 1024 * 1024

# kafka-python leaves these codecs to packages that are not needed otherwise; cramjam does their work.
for _codec in ("snappy", "lz4", "zstd"):
    _, _number = kafka_python.KafkaProducer._COMPRESSORS[_codec]
    kafka_python.KafkaProducer._COMPRESSORS[_codec] = (lambda: True, _number)
    setattr(kafka_python_codecs, f"has_{_codec}", lambda: True)
    setattr(kafka_python_records, f"{_codec}_encode", lambda data, name=_codec: compress(name, bytes(data)))
    setattr(kafka_python_records, f"{_codec}_decode", lambda data, name=_codec: decompress(name, bytes(data)))

# A place in a topic: partition and offset.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record as a client gives it; partition and offset say where it was read."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0

    @property
    def content(self) -> tuple[Any, ...]:
        """All but where it stands."""
        return (self.key, self.value, self.timestamp, self.headers)


Messages = Iterable[Message]
Read = list[Message]


class Client(Protocol):
    """What the tests need of a client."""

    name: str
    writes_null_headers: bool

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int | None,
        **options: str,
    ) -> list[Place]:
        """Send all, with Kafka's producer settings in `options`; partition and offset of each."""

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Read:
        """So many records from the offset on."""


class Librdkafka:
    name = "librdkafka"
    writes_null_headers = True

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int | None,
        **options: str,
    ) -> list[Place]:
        settings = {"bootstrap.servers": bootstrap, "message.max.bytes": LARGEST, "linger.ms": 5}
        producer = confluent_kafka.Producer(settings | dotted(options))
        places: list[Place] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                places.append((message.partition(), message.offset()))

        for each in messages:
            where: dict[str, int] = {} if partition is None else {"partition": partition}
            producer.produce(
                topic,
                each.value,
                each.key,
                timestamp=each.timestamp or 0,
                headers=list(each.headers),
                on_delivery=delivered,
                **where,
            )
            producer.poll(0)
        producer.flush(READ_TIMEOUT)
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return places

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Read:
        consumer = librdkafka_consumer(bootstrap)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            found: list[Message] = []
            deadline = time.monotonic() + READ_TIMEOUT
            while len(found) < count and time.monotonic() < deadline:
                for each in consumer.consume(count - len(found), 1.0):
                    found.append(of_librdkafka(each))
            return found
        finally:
            consumer.close()


class KafkaPython:
    name = "kafka-python"
    writes_null_headers = False

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int | None,
        **options: str,
    ) -> list[Place]:
        settings: dict[str, Any] = {"max_request_size": LARGEST, "linger_ms": 5}
        for name, value in options.items():
            settings[name] = int(value) if value.lstrip("-").isdigit() else value
        if settings.get("compression_type") == "none":
            settings["compression_type"] = None
        producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap, **settings)
        try:
            futures = [
                producer.send(
                    topic,
                    value=each.value,
                    key=each.key,
                    headers=list(each.headers),
                    partition=partition,
                    timestamp_ms=each.timestamp,
                )
                for each in messages
            ]
            producer.flush(READ_TIMEOUT)
            return [
                (each.partition, each.offset) for each in (future.get(READ_TIMEOUT) for future in futures)
            ]
        finally:
            producer.close(READ_TIMEOUT)

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Read:
        consumer = kafka_python_consumer(bootstrap)
        try:
            place = kafka_python.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found: list[Message] = []
            deadline = time.monotonic() + READ_TIMEOUT
            while len(found) < count and time.monotonic() < deadline:
                for records in consumer.poll(1000, max_records=count - len(found)).values():
                    found += [
                        Message(
                            value=each.value,
                            key=each.key,
                            timestamp=each.timestamp,
                            headers=tuple((name, content) for name, content in each.headers),
                            partition=each.partition,
                            offset=each.offset,
                        )
                        for each in records
                    ]
            return found
        finally:
            consumer.close()


class Java:
    """Apache Kafka's own client, in the JVM of its tools."""

    name = "java"
    writes_null_headers = True

    def __init__(self, tools: JavaTools) -> None:
        self._jvm = tools.jvm

    def write(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int | None,
        **options: str,
    ) -> list[Place]:
        clients = self._jvm.org.apache.kafka.clients.producer
        serializer = self._jvm.org.apache.kafka.common.serialization.ByteArraySerializer()
        settings = {
            "bootstrap.servers": bootstrap,
            "max.request.size": str(LARGEST),
            "buffer.memory": str(4 * LARGEST),
            "linger.ms": "5",
        }
        producer = clients.KafkaProducer(settings | dotted(options), serializer, serializer)
        try:
            sent = []
            for each in messages:
                record = clients.ProducerRecord(topic, partition, each.timestamp, each.key, each.value)
                for name, content in each.headers:
                    record.headers().add(name, content)
                sent.append(producer.send(record))
            producer.flush()
            done = [each.get() for each in sent]
            return [(each.partition(), each.offset()) for each in done]
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Read:
        jvm = self._jvm
        deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
        settings = {"bootstrap.servers": bootstrap, "enable.auto.commit": "false", "check.crcs": "true"}
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, deserializer, deserializer)
        try:
            place = jvm.org.apache.kafka.common.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found: list[Message] = []
            deadline = time.monotonic() + READ_TIMEOUT
            while len(found) < count and time.monotonic() < deadline:
                records = consumer.poll(jvm.java.time.Duration.ofMillis(1000))
                iterator = records.iterator()
                while iterator.hasNext():
                    found.append(self._message(iterator.next()))
            return found[:count]
        finally:
            consumer.close()

    @staticmethod
    def _message(record: Any) -> Message:
        return Message(
            value=_bytes(record.value()),
            key=_bytes(record.key()),
            timestamp=record.timestamp(),
            headers=tuple((each.key(), _bytes(each.value())) for each in record.headers().toArray()),
            partition=record.partition(),
            offset=record.offset(),
        )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def dotted(options: dict[str, str]) -> dict[str, str]:
    """Settings as Kafka spells them."""
    return {name.replace("_", "."): value for name, value in options.items()}


def librdkafka_consumer(bootstrap: str, **options: Any) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
        }
        | options
    )


def kafka_python_consumer(bootstrap: str, **options: Any) -> Any:
    settings = {"enable_auto_commit": False, "auto_offset_reset": "none", "fetch_max_wait_ms": 100} | options
    return kafka_python.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)


def of_librdkafka(message: Any) -> Message:
    if message.error() is not None:
        raise confluent_kafka.KafkaException(message.error())
    return Message(
        value=message.value(),
        key=message.key(),
        timestamp=message.timestamp()[1],
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        offset=message.offset(),
    )


def writable(client: Client, messages: Messages) -> list[Message]:
    """The messages as this client can write them: kafka-python refuses headers without a value."""
    if client.writes_null_headers:
        return list(messages)
    return [replace(each, headers=tuple((k, v or b"") for k, v in each.headers)) for each in messages]


def contents(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    return [each.content for each in messages]
