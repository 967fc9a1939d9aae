"""Settings of topics and of the broker: described with their sources, altered, refused, and at work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka_admin

from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine

ERRORS = confluent_kafka.KafkaError
SOURCE = librdkafka_admin.ConfigSource
OPERATION = librdkafka_admin.AlterConfigOpType


@pytest.fixture
def admin(engine: Engine) -> Any:
    return librdkafka_admin.AdminClient({"bootstrap.servers": engine.bootstrap})


def describe(admin: Any, kind: str, name: str) -> dict[str, Any]:
    resource = librdkafka_admin.ConfigResource(kind, name)
    return dict(admin.describe_configs([resource])[resource].result(120))


def alter(admin: Any, kind: str, name: str, **settings: str | None) -> None:
    entries = [
        librdkafka_admin.ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=OPERATION.DELETE if value is None else OPERATION.SET,
        )
        for key, value in settings.items()
    ]
    resource = librdkafka_admin.ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(120)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_topic_settings_and_their_sources(admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="1234")
    found = describe(admin, "topic", topic)
    own = found["retention.ms"]
    assert (own.value, own.source, own.is_default) == ("1234", SOURCE.DYNAMIC_TOPIC_CONFIG.value, False)
    assert own.synonyms["retention.ms"].value == "1234"
    default = found["segment.bytes"]
    assert (default.value, default.source, default.is_default) == (
        "1073741824",
        SOURCE.DEFAULT_CONFIG.value,
        True,
    )
    assert found["max.message.bytes"].source == SOURCE.STATIC_BROKER_CONFIG.value
    assert len(found) == 33


def test_settings_are_altered_one_by_one(admin: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="1234")
    alter(admin, "topic", topic, segment_ms="60000", cleanup_policy="compact")
    wait_for(lambda: describe(admin, "topic", topic)["segment.ms"].value == "60000")
    alter(admin, "topic", topic, retention_ms=None)
    wait_for(lambda: describe(admin, "topic", topic)["retention.ms"].value == "604800000")
    found = describe(admin, "topic", topic)
    assert found["cleanup.policy"].value == "compact"
    assert found["segment.ms"].value == "60000"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("retention_ms", "soon"),
        ("cleanup_policy", "shred"),
        ("compression_type", "brotli"),
        ("max_message_bytes", "-1"),
        ("no_such_setting", "1"),
    ],
)
def test_bad_values_are_refused(admin: Any, new_topic: Callable[..., str], setting: str, value: str) -> None:
    topic = new_topic()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        alter(admin, "topic", topic, **{setting: value})
    assert caught.value.args[0].code() == ERRORS.INVALID_CONFIG


def test_limit_works_as_soon_as_it_is_told(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    large = [Message(value=b"x" * 2000)]
    clients["librdkafka"].write(engine.bootstrap, topic, large, partition=0)
    alter(admin, "topic", topic, max_message_bytes="1000")
    wait_for(lambda: describe(admin, "topic", topic)["max.message.bytes"].value == "1000")
    with pytest.raises(confluent_kafka.KafkaException):
        clients["librdkafka"].write(engine.bootstrap, topic, large, partition=0)
    alter(admin, "topic", topic, max_message_bytes=None)
    wait_for(lambda: describe(admin, "topic", topic)["max.message.bytes"].value != "1000")
    clients["librdkafka"].write(engine.bootstrap, topic, large, partition=0)


def test_keyless_records_on_a_compacted_topic(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact")
    clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"v", key=b"k")], partition=0)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"v")], partition=0)
    assert caught.value.args[0].code() == ERRORS.INVALID_RECORD
    assert describe(admin, "topic", topic)["cleanup.policy"].value == "compact"


def test_broker_settings(admin: Any) -> None:
    """What Kafka Connect and ksqlDB ask a broker for when they start."""
    found = describe(admin, "broker", "1")
    for name, value in {
        "auto.create.topics.enable": "true",
        "default.replication.factor": "1",
        "delete.topic.enable": "true",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "num.partitions": "1",
        "node.id": "1",
        "message.max.bytes": "2097152",
        "compression.type": "producer",
        "min.insync.replicas": "1",
    }.items():
        assert found[name].value == value, name


def test_broker_setting_is_the_default_of_topics(admin: Any, new_topic: Callable[..., str]) -> None:
    """KIP-226: dynamic, and at once."""
    topic = new_topic()
    alter(admin, "broker", "1", log_retention_ms="8888888")
    try:
        wait_for(lambda: describe(admin, "topic", topic)["retention.ms"].value == "8888888")
        source = describe(admin, "topic", topic)["retention.ms"].source
        assert source == SOURCE.DYNAMIC_BROKER_CONFIG.value
    finally:
        alter(admin, "broker", "1", log_retention_ms=None)
    wait_for(lambda: describe(admin, "topic", topic)["retention.ms"].value == "604800000")


def test_broker_setting_that_cannot_change(admin: Any) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        alter(admin, "broker", "1", num_partitions="3")
    assert caught.value.args[0].code() in {ERRORS.INVALID_REQUEST, ERRORS.INVALID_CONFIG}


def test_segments_roll_and_old_ones_go(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    """retention.bytes with small segments: the start of the log moves, the active segment stays."""
    topic = new_topic(segment_bytes="1048576", retention_bytes="1048576", file_delete_delay_ms="0")
    messages = [Message(value=b"x" * 100_000, key=b"%d" % number) for number in range(40)]
    for first in range(0, 40, 10):
        clients["librdkafka"].write(engine.bootstrap, topic, messages[first : first + 10], partition=0)
    found = clients["librdkafka"].read(engine.bootstrap, topic, 40)
    assert [each.offset for each in found] == list(range(40))
    assert describe(admin, "topic", topic)["segment.bytes"].value == "1048576"
