"""The life of a topic through three admin clients: made, listed, described, grown, deleted, made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka_admin
from kafka import admin as kafka_python_admin

from tests.conformance.answers.conversation import METADATA
from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine
from tests.conformance.record_batches import BASE_TIMESTAMP
from tests.conformance.topics import create_topic, end_offsets

ERRORS = confluent_kafka.KafkaError


@pytest.fixture
def admin(engine: Engine) -> Any:
    return librdkafka_admin.AdminClient({"bootstrap.servers": engine.bootstrap})


@pytest.fixture
def python_admin(engine: Engine) -> Iterator[Any]:
    client = kafka_python_admin.KafkaAdminClient(bootstrap_servers=engine.bootstrap)
    yield client
    client.close()


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(120)


def refused(futures: dict[Any, Any]) -> Any:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        result(futures)
    return caught.value.args[0]


def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> Any:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return librdkafka_admin.NewTopic(name, partitions, replicas, config=settings)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def topic_id(engine: Engine, name: str) -> Any:
    with engine.connect() as client:
        asked = [{"name": name, "topic_id": None}]
        reply = client.ask(METADATA, 12, topics=asked, allow_auto_topic_creation=False)
    return reply.topics[0].topic_id


def test_life_of_a_topic(engine: Engine, admin: Any, clients: dict[str, Client], topic_name: str) -> None:
    assert result(admin.create_topics([new(topic_name, 3)])) is None
    wait_for(lambda: topic_name in admin.list_topics(timeout=120).topics)
    first_id = topic_id(engine, topic_name)
    description = result(admin.describe_topics(confluent_kafka.TopicCollection([topic_name])))
    assert description.name == topic_name
    assert str(description.topic_id) != ""
    assert [each.id for each in description.partitions] == [0, 1, 2]
    assert all(
        each.leader.id == 1 and len(each.replicas) == len(each.isr) == 1 for each in description.partitions
    )
    create_topic_again = refused(admin.create_topics([new(topic_name)]))
    assert create_topic_again.code() == ERRORS.TOPIC_ALREADY_EXISTS
    clients["librdkafka"].write(engine.bootstrap, topic_name, [Message(value=b"old")], partition=0)
    result(admin.delete_topics([topic_name]))
    wait_for(lambda: topic_name not in admin.list_topics(timeout=120).topics)
    assert refused(admin.delete_topics([topic_name])).code() == ERRORS.UNKNOWN_TOPIC_OR_PART
    create_topic(engine, topic_name)
    assert topic_id(engine, topic_name) not in {None, first_id}
    with engine.connect() as client:
        assert end_offsets(client, topic_name) == [0]
    clients["librdkafka"].write(engine.bootstrap, topic_name, [Message(value=b"new")], partition=0)
    assert [each.value for each in clients["java"].read(engine.bootstrap, topic_name, 1)] == [b"new"]


def test_topics_in_python(python_admin: Any, topic_name: str) -> None:
    python_admin.create_topics(
        [kafka_python_admin.NewTopic(topic_name, num_partitions=2, replication_factor=1)]
    )
    wait_for(lambda: topic_name in python_admin.list_topics())
    (description,) = python_admin.describe_topics([topic_name])
    assert sorted(each["partition_index"] for each in description["partitions"]) == [0, 1]
    python_admin.create_partitions({topic_name: kafka_python_admin.NewPartitions(3)})
    wait_for(lambda: len(python_admin.describe_topics([topic_name])[0]["partitions"]) == 3)
    python_admin.delete_topics([topic_name])
    wait_for(lambda: topic_name not in python_admin.list_topics())


def test_partitions_are_added_and_never_removed(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"stays")], partition=1)
    result(admin.create_partitions([librdkafka_admin.NewPartitions(topic, 5)]))
    wait_for(lambda: len(admin.list_topics(topic, timeout=120).topics[topic].partitions) == 5)
    with engine.connect() as client:
        wait_for(lambda: end_offsets(client, topic, 5) == [0, 1, 0, 0, 0])
    for count in (5, 4, 1):
        error = refused(admin.create_partitions([librdkafka_admin.NewPartitions(topic, count)]))
        assert error.code() == ERRORS.INVALID_PARTITIONS
    assert [each.value for each in clients["java"].read(engine.bootstrap, topic, 1, partition=1)] == [
        b"stays"
    ]


def test_what_cannot_be_made(admin: Any, topic_name: str) -> None:
    assert refused(admin.create_topics([new(topic_name, 1, 2)])).code() == ERRORS.INVALID_REPLICATION_FACTOR
    assert refused(admin.create_topics([new("a b")])).code() == ERRORS.TOPIC_EXCEPTION
    assert refused(admin.create_topics([new("x" * 250)])).code() == ERRORS.TOPIC_EXCEPTION
    assert refused(admin.create_topics([new(topic_name, 0)])).code() == ERRORS.INVALID_PARTITIONS
    bad_value = new(topic_name, retention_ms="soon")
    assert refused(admin.create_topics([bad_value])).code() == ERRORS.INVALID_CONFIG
    assert topic_name not in admin.list_topics(timeout=120).topics


def test_checked_only_is_not_made(admin: Any, topic_name: str) -> None:
    assert result(admin.create_topics([new(topic_name, 3)], validate_only=True)) is None
    assert topic_name not in admin.list_topics(timeout=120).topics


def test_auto_creation_only_where_it_is_asked_for(engine: Engine, topic_name: str) -> None:
    with engine.connect() as client:
        asked = [{"name": topic_name, "topic_id": None}]
        for _ in range(2):
            reply = client.ask(METADATA, 12, topics=asked, allow_auto_topic_creation=False)
            assert reply.topics[0].error_code.name == "unknown_topic_or_partition"
        client.ask(METADATA, 12, topics=asked, allow_auto_topic_creation=True)
        wait_for(lambda: end_offsets(client, topic_name) == [0])


def test_delete_records(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    messages = [Message(value=b"%d" % number) for number in range(20)]
    clients["librdkafka"].write(engine.bootstrap, topic, messages, partition=0)
    done = result(admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 13)]))
    assert done.low_watermark == 13
    assert [each.value for each in clients["java"].read(engine.bootstrap, topic, 7, offset=13)] == [
        b"%d" % number for number in range(13, 20)
    ]
    offsets = admin.list_offsets(
        {confluent_kafka.TopicPartition(topic, 0): librdkafka_admin.OffsetSpec.earliest()}
    )
    assert result(offsets).offset == 13
    assert refused(admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 99)])).code() == (
        ERRORS.OFFSET_OUT_OF_RANGE
    )
    # To the end: librdkafka's end offset.
    result(admin.delete_records([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)]))
    with engine.connect() as client:
        assert end_offsets(client, topic) == [20]


def test_describe_cluster(engine: Engine, admin: Any) -> None:
    cluster = admin.describe_cluster().result(120)
    assert len(cluster.cluster_id) == 22
    assert [(each.id, each.host, each.port) for each in cluster.nodes] == [(1, *engine.address)]
    assert cluster.controller.id == 1


def test_offsets_through_the_admin_client(
    engine: Engine, admin: Any, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    times = [BASE_TIMESTAMP + each for each in (0, 50, 20)]
    clients["librdkafka"].write(
        engine.bootstrap, topic, [Message(value=b"v", timestamp=each) for each in times], partition=0
    )
    place = confluent_kafka.TopicPartition(topic, 0)
    spec = librdkafka_admin.OffsetSpec
    expected = {
        spec.earliest(): (0, -1),
        spec.latest(): (3, -1),
        spec.max_timestamp(): (1, times[1]),
        spec.for_timestamp(times[2]): (1, times[1]),
    }
    for asked, (offset, timestamp) in expected.items():
        found = result(admin.list_offsets({place: asked}))
        assert (found.offset, found.timestamp) == (offset, timestamp)
