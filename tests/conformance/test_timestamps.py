"""Both timestamp types, and the limits before and after the broker's time (KIP-937)."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka
import pytest

from tests.conformance.clients import Client, Message, librdkafka_consumer
from tests.conformance.engines import Engine

NAMES = ("librdkafka", "kafka-python", "java")
DAY_MS = 86_400_000
LONG_AGO = 1_500_000_000_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("reader", NAMES)
def test_create_time_is_the_producers(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], reader: str
) -> None:
    topic = new_topic(retention_ms="-1")
    times = [LONG_AGO, LONG_AGO - 5, LONG_AGO + 5, now_ms()]
    messages = [Message(value=b"v", timestamp=each) for each in times]
    clients["librdkafka"].write(engine.bootstrap, topic, messages, partition=0)
    found = clients[reader].read(engine.bootstrap, topic, len(times))
    assert [each.timestamp for each in found] == times


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("writer", NAMES)
def test_log_append_time_is_the_brokers(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str, codec: str
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = now_ms()
    messages = [Message(value=b"v", timestamp=LONG_AGO + number) for number in range(5)]
    clients[writer].write(engine.bootstrap, topic, messages, partition=0, compression_type=codec)
    after = now_ms()
    for reader in NAMES:
        found = clients[reader].read(engine.bootstrap, topic, len(messages))
        assert all(before <= (each.timestamp or 0) <= after for each in found), reader


def test_timestamp_type_is_told(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], topic_name: str
) -> None:
    kinds = {
        "CreateTime": confluent_kafka.TIMESTAMP_CREATE_TIME,
        "LogAppendTime": confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
    }
    for kind, number in kinds.items():
        topic = new_topic(name=f"{topic_name}_{kind}", message_timestamp_type=kind)
        clients["java"].write(engine.bootstrap, topic, [Message(value=b"v")], partition=0)
        consumer = librdkafka_consumer(engine.bootstrap)
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        (message,) = consumer.consume(1, 30)
        consumer.close()
        assert message.timestamp()[0] == number


@pytest.mark.parametrize("days", [-3, 3])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_time_beyond_the_limits_is_refused(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], days: int, codec: str
) -> None:
    topic = new_topic(message_timestamp_before_max_ms=str(DAY_MS), message_timestamp_after_max_ms=str(DAY_MS))
    good = Message(value=b"v", timestamp=now_ms())
    clients["librdkafka"].write(engine.bootstrap, topic, [good], partition=0, compression_type=codec)
    bad = Message(value=b"v", timestamp=now_ms() + days * DAY_MS)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(engine.bootstrap, topic, [bad], partition=0, compression_type=codec)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_TIMESTAMP


def test_far_future_is_refused_by_default(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    """KIP-1030: an hour ahead is the default limit; there is none for the past."""
    topic = new_topic(retention_ms="-1")
    clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"v", timestamp=1)], partition=0)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(
            engine.bootstrap, topic, [Message(value=b"v", timestamp=now_ms() + 2 * 3_600_000)], partition=0
        )
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_TIMESTAMP
