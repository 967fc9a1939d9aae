"""Metadata in every version, with and without making topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from tests.broker.asking import ask

METADATA = ALL[3]
VERSIONS = range(14)
NOT_ASKED_FOR = -(2**31)


def topics(names: list[str] | None) -> list[dict[str, Any]] | None:
    return None if names is None else [{"name": name, "topic_id": None} for name in names]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_topic(broker: Broker, version: int) -> None:
    made = broker.create_topic("a", 2, {})
    reply = ask(broker, METADATA, version, topics=topics(["a"]))
    (node,) = reply.brokers
    assert (node.node_id, node.host, node.port) == (1, "127.0.0.1", 9092)
    (topic,) = reply.topics
    assert (topic.name, topic.error_code.name) == ("a", "none")
    assert [each.partition_index for each in topic.partitions] == [0, 1]
    for each in topic.partitions:
        assert (each.leader_id, each.replica_nodes, each.isr_nodes) == (1, (1,), (1,))
        assert getattr(each, "leader_epoch", 0) == made.partitions[0].leader_epoch
        assert getattr(each, "offline_replicas", ()) == ()
    assert getattr(reply, "controller_id", 1) == 1
    assert getattr(reply, "cluster_id", broker.cluster_id) == broker.cluster_id
    assert getattr(topic, "topic_id", made.id) == made.id
    assert getattr(topic, "topic_authorized_operations", NOT_ASKED_FOR) == NOT_ASKED_FOR
    assert getattr(reply, "cluster_authorized_operations", NOT_ASKED_FOR) == NOT_ASKED_FOR
    assert getattr(reply, "error_code", 0) == 0


@pytest.mark.parametrize(
    ("version", "names", "found"),
    [(0, [], ["a", "b"]), (1, [], []), (1, None, ["a", "b"]), (9, [], []), (13, None, ["a", "b"])],
)
def test_all_topics_or_none(broker: Broker, version: int, names: list[str] | None, found: list[str]) -> None:
    broker.create_topic("a", 1, {})
    broker.create_topic("b", 1, {})
    reply = ask(broker, METADATA, version, topics=topics(names))
    assert [topic.name for topic in reply.topics] == found


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_when_asked_for(broker: Broker, version: int) -> None:
    broker.create_topic("a", 1, {})
    reply = ask(
        broker,
        METADATA,
        version,
        topics=topics(["a"]),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert reply.topics[0].topic_authorized_operations == 3576
    assert getattr(reply, "cluster_authorized_operations", 8096) == 8096
    assert hasattr(reply, "cluster_authorized_operations") == (version <= 10)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_not_there_is_made_and_told_at_once(broker: Broker, version: int) -> None:
    reply = ask(broker, METADATA, version, topics=topics(["new"]), allow_auto_topic_creation=True)
    assert [(each.name, each.error_code.name, len(each.partitions)) for each in reply.topics] == [
        ("new", "none", 1)
    ]
    assert list(broker.logs.topics) == ["new"]


@pytest.mark.parametrize("version", range(4, 14))
def test_a_topic_is_not_made_when_the_request_does_not_want_it(broker: Broker, version: int) -> None:
    reply = ask(
        broker, METADATA, version, topics=topics(["new", "bad name"]), allow_auto_topic_creation=False
    )
    assert [each.error_code.name for each in reply.topics] == [
        "unknown_topic_or_partition",
        "invalid_topic_exception",
    ]
    assert not broker.logs.topics


def test_a_topic_is_not_made_when_the_broker_does_not_want_it(start: Callable[..., Broker]) -> None:
    broker = start(auto_create_topics=False)
    reply = ask(broker, METADATA, 12, topics=topics(["new"]), allow_auto_topic_creation=True)
    assert reply.topics[0].error_code.name == "unknown_topic_or_partition"
    assert not broker.logs.topics


def test_topics_are_made_with_the_brokers_defaults(start: Callable[..., Broker]) -> None:
    broker = start(default_partitions=3, configs={"offsets.topic.num.partitions": "7"})
    ask(broker, METADATA, 12, topics=topics(["new", "__consumer_offsets", "__transaction_state"]))
    made = broker.logs.topics
    assert {name: len(topic.partitions) for name, topic in made.items()} == {
        "new": 3,
        "__consumer_offsets": 7,
        "__transaction_state": 10,
    }
    assert made["new"].overrides == {}
    assert made["__consumer_offsets"].partitions[0].config.compact
    assert made["__transaction_state"].overrides["compression.type"] == "uncompressed"
    reply = ask(broker, METADATA, 12, topics=topics(["new", "__consumer_offsets"]))
    assert [topic.is_internal for topic in reply.topics] == [False, True]


def test_names_that_cannot_be_made(broker: Broker) -> None:
    broker.create_topic("a.b", 1, {})
    reply = ask(broker, METADATA, 12, topics=topics(["a_b", "bad name", "a.b", "a.b"]))
    assert [(each.name, each.error_code.name) for each in reply.topics] == [
        ("a_b", "unknown_topic_or_partition"),
        ("bad name", "invalid_topic_exception"),
        ("a.b", "none"),
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_by_id(broker: Broker, version: int) -> None:
    made = broker.create_topic("a", 1, {})
    unknown = uuid.uuid4()
    asked = [
        {"name": None, "topic_id": made.id},
        {"name": None, "topic_id": unknown},
        {"name": "ignored", "topic_id": None},
    ]
    reply = ask(broker, METADATA, version, topics=asked)
    assert [(each.name, each.topic_id, each.error_code.name) for each in reply.topics] == [
        ("a", made.id, "none"),
        (None, unknown, "unknown_topic_id"),
    ]
    assert list(broker.logs.topics) == ["a"]


@pytest.mark.parametrize("version", [10, 11])
def test_by_id_before_its_version(broker: Broker, version: int) -> None:
    made = broker.create_topic("a", 1, {})
    reply = ask(broker, METADATA, version, topics=[{"name": None, "topic_id": made.id}])
    assert reply.brokers == ()
    assert [(each.name, each.topic_id, each.error_code.name) for each in reply.topics] == [
        ("", made.id, "invalid_request")
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_neither_name_nor_id(broker: Broker, version: int) -> None:
    reply = ask(broker, METADATA, version, topics=[{"name": None, "topic_id": None}])
    assert [each.error_code.name for each in reply.topics] == ["invalid_request"]
    assert getattr(reply, "error_code", 42) == 42


def test_advertised_address(start: Callable[..., Broker]) -> None:
    broker = start(advertised_host="example.org", node_id=5)
    (node,) = ask(broker, METADATA, 12, topics=None).brokers
    assert (node.node_id, node.host) == (5, "example.org")
