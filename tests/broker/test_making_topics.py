"""CreateTopics, DeleteTopics and CreatePartitions: what is done, and what is refused in which words."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from headrace.wire.records import Record, build_batch
from tests.broker.asking import ask

CREATE_TOPICS, DELETE_TOPICS = ALL[19], ALL[20]
CREATE_PARTITIONS = ALL[37]
UNKNOWN = "This server does not host this topic-partition."


def wanted(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas} | fields


def configs(**texts: str | None) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "."), "value": text} for name, text in texts.items()]


def assigned(*replicas: tuple[int, tuple[int, ...]]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": nodes} for index, nodes in replicas]


def create(
    broker: Broker, *topics: dict[str, Any], version: int = 7, validate_only: bool = False
) -> list[Any]:
    reply = ask(broker, CREATE_TOPICS, version, topics=topics, timeout=1000, validate_only=validate_only)
    return list(reply.topics)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made(broker: Broker, version: int) -> None:
    (result,) = create(broker, wanted("a", 3, configs=configs(retention_ms="5")), version=version)
    assert (result.name, result.error_code.name, result.error_message) == ("a", "none", None)
    topic = broker.logs.topics["a"]
    assert len(topic.partitions) == 3
    assert topic.overrides == {"retention.ms": "5"}
    assert topic.partitions[2].config.retention_ms == 5
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {each.name: (each.value, each.config_source) for each in result.configs}
        assert len(shown) == 33
        assert shown["retention.ms"] == ("5", 1)
        assert shown["segment.ms"] == ("604800000", 5)
    if version >= 7:
        assert result.topic_id == topic.id


def test_defaults(start: Callable[..., Broker]) -> None:
    broker = start(default_partitions=4)
    (result,) = create(broker, wanted("a", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 1)


def test_partitions_by_assignment(broker: Broker) -> None:
    (result,) = create(broker, wanted("a", -1, -1, assignments=assigned((1, (1,)), (0, (1,)))))
    assert (result.error_code.name, result.num_partitions) == ("none", 2)


def test_only_checked(broker: Broker) -> None:
    good, bad = create(broker, wanted("a"), wanted("b", 0), validate_only=True)
    assert (good.error_code.name, bad.error_code.name) == ("none", "invalid_partitions")
    assert good.topic_id is not None
    assert not broker.logs.topics


INVALID_NAME = "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"  # noqa: E501


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (wanted("a b"), "invalid_topic_exception", INVALID_NAME),
        (wanted("old"), "topic_already_exists", "Topic 'old' already exists."),
        (
            wanted("old_name"),
            "invalid_topic_exception",
            "Topic 'old_name' collides with existing topic: old.name",
        ),
        (
            wanted("x", 0),
            "invalid_partitions",
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            wanted("x", -2),
            "invalid_partitions",
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            wanted("x", 1, 0),
            "invalid_replication_factor",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            wanted("x", 1, 3),
            "invalid_replication_factor",
            "Unable to replicate the partition 3 time(s): the embedded broker is one node and keeps "
            "one replica. For more, start Apache Kafka with --engine kafka.",
        ),
        (
            wanted("x", configs=configs(retention_ms=None, flush_ms=None)),
            "invalid_config",
            "Null value not supported for topic configs: retention.ms,flush.ms",
        ),
        (wanted("x", configs=configs(nope="1")), "invalid_config", "Unknown topic config name: nope"),
        (
            wanted("x", 0, configs=configs(retention_ms="z")),
            "invalid_config",
            "Invalid value z for configuration retention.ms: Not a number of type LONG",
        ),
        (
            wanted("__cluster_metadata"),
            "invalid_request",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            wanted("x", 10_001),
            "policy_violation",
            "Excessively large number of partitions per request.",
        ),
        (
            wanted("x", 1, -1, assignments=assigned((0, (1,)))),
            "invalid_request",
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            wanted("x", -1, 1, assignments=assigned((0, (1,)))),
            "invalid_request",
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            wanted("x", -1, -1, assignments=assigned((0, (2,)))),
            "invalid_replica_assignment",
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            wanted("x", -1, -1, assignments=assigned((0, ()))),
            "invalid_replica_assignment",
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            wanted("x", -1, -1, assignments=assigned((0, (1, 1)))),
            "invalid_replica_assignment",
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            wanted("x", -1, -1, assignments=assigned((1, (1,)))),
            "invalid_replica_assignment",
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            wanted("x", -1, -1, assignments=assigned((0, (1,)), (0, (1,)))),
            "invalid_replica_assignment",
            "Found multiple manual partition assignments for partition 0",
        ),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_topics_that_are_refused(
    broker: Broker, topic: dict[str, Any], code: str, message: str, validate_only: bool
) -> None:
    broker.create_topic("old", 1, {})
    broker.create_topic("old.name", 1, {})
    (result,) = create(broker, topic, validate_only=validate_only)
    assert (result.error_code.name, result.error_message) == (code, message)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())
    assert list(broker.logs.topics) == ["old", "old.name"]


def test_one_bad_topic_harms_no_other_and_names_twice_are_refused(broker: Broker) -> None:
    results = create(broker, wanted("a"), wanted("b", 0), wanted("c"), wanted("c"))
    assert {each.name: (each.error_code.name, each.error_message) for each in results} == {
        "a": ("none", None),
        "b": ("invalid_partitions", "Number of partitions was set to an invalid non-positive value."),
        "c": ("invalid_request", "Duplicate topic name."),
    }
    assert list(broker.logs.topics) == ["a"]


def test_a_topic_is_there_after_a_restart(start: Callable[..., Broker]) -> None:
    (made,) = create(start(), wanted("a", 2, configs=configs(cleanup_policy="compact")))
    topic = start().logs.topics["a"]
    assert (topic.id, len(topic.partitions)) == (made.topic_id, 2)
    assert topic.partitions[1].config.compact


def delete(broker: Broker, *topics: str | uuid.UUID | dict[str, Any]) -> list[tuple[Any, ...]]:
    asked = [
        each
        if isinstance(each, dict)
        else {"name": each, "topic_id": None}
        if isinstance(each, str)
        else {"name": None, "topic_id": each}
        for each in topics
    ]
    reply = ask(broker, DELETE_TOPICS, 6, topics=asked, timeout=1000)
    return [(each.name, each.topic_id, each.error_code.name, each.error_message) for each in reply.responses]


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_deleted_by_name(broker: Broker, version: int) -> None:
    broker.create_topic("a", 1, {})
    reply = ask(broker, DELETE_TOPICS, version, topic_names=["a", "nope"], timeout=1000)
    assert [(each.name, each.error_code.name) for each in reply.responses] == [
        ("a", "none"),
        ("nope", "unknown_topic_or_partition"),
    ]
    if version >= 5:
        assert [each.error_message for each in reply.responses] == [None, UNKNOWN]
    assert not broker.logs.topics


def test_topics_deleted_by_name_and_by_id(broker: Broker) -> None:
    a, b = broker.create_topic("a", 1, {}), broker.create_topic("b", 1, {})
    unknown = uuid.uuid4()
    assert delete(broker, "a", b.id, "nope", unknown) == [
        ("a", a.id, "none", None),
        ("b", b.id, "none", None),
        ("nope", None, "unknown_topic_or_partition", UNKNOWN),
        (None, unknown, "unknown_topic_id", "This server does not host this topic ID."),
    ]
    assert not broker.logs.topics
    assert not broker.logs.topics_by_id


def test_deletions_that_are_not_clear_are_refused(broker: Broker) -> None:
    a, b, c = (broker.create_topic(name, 1, {}) for name in "abc")
    results = delete(
        broker,
        "a",
        "a",
        b.id,
        b.id,
        "c",
        c.id,
        {"name": "a", "topic_id": a.id},
        {"name": None, "topic_id": None},
    )
    assert results == [
        ("a", None, "invalid_request", "Duplicate topic name."),
        (None, b.id, "invalid_request", "Duplicate topic id."),
        ("c", c.id, "invalid_request", "The provided topic name maps to an ID that was already supplied."),
        ("a", a.id, "invalid_request", "You may not specify both topic name and topic id."),
        (None, None, "invalid_request", "Neither topic name nor id were specified."),
    ]
    assert list(broker.logs.topics) == ["a", "b", "c"]


@pytest.mark.parametrize(("version", "code"), [(1, "invalid_request"), (3, "topic_deletion_disabled")])
def test_deleting_can_be_turned_off(start: Callable[..., Broker], version: int, code: str) -> None:
    broker = start(configs={"delete.topic.enable": "false"})
    broker.create_topic("a", 1, {})
    reply = ask(broker, DELETE_TOPICS, version, topic_names=["a"], timeout=1000)
    assert [each.error_code.name for each in reply.responses] == [code]
    assert list(broker.logs.topics) == ["a"]


def test_a_topic_made_again_is_another(broker: Broker) -> None:
    before = broker.create_topic("a", 1, {}).id
    delete(broker, "a")
    (again,) = create(broker, wanted("a"))
    assert again.error_code.name == "none"
    assert again.topic_id != before


def grow(
    broker: Broker, *topics: tuple[str, int, Any], version: int = 3, validate_only: bool = False
) -> list[tuple[str, str, str | None]]:
    asked = [
        {
            "name": name,
            "count": count,
            "assignments": None if nodes is None else [{"broker_ids": each} for each in nodes],
        }
        for name, count, nodes in topics
    ]
    reply = ask(broker, CREATE_PARTITIONS, version, topics=asked, timeout=1000, validate_only=validate_only)
    return [(each.name, each.error_code.name, each.error_message) for each in reply.results]


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(broker: Broker, version: int) -> None:
    broker.create_topic("a", 1, {"retention.ms": "5"})
    assert grow(broker, ("a", 3, None), version=version, validate_only=True) == [("a", "none", None)]
    assert len(broker.logs.topics["a"].partitions) == 1
    assert grow(broker, ("a", 3, None), ("nope", 2, None), version=version) == [
        ("a", "none", None),
        ("nope", "unknown_topic_or_partition", None),
    ]
    assert [log.config.retention_ms for log in broker.logs.topics["a"].partitions] == [5, 5, 5]
    assert grow(broker, ("a", 5, [(1,), (1,)]), version=version) == [("a", "none", None)]


@pytest.mark.parametrize(
    ("count", "nodes", "code", "message"),
    [
        (2, None, "invalid_partitions", "Topic already has 2 partition(s)."),
        (
            1,
            None,
            "invalid_partitions",
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            -1,
            None,
            "invalid_partitions",
            "The topic a currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            4,
            [(1,)],
            "invalid_replica_assignment",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [(2,)],
            "invalid_replica_assignment",
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            3,
            [()],
            "invalid_replica_assignment",
            "The manual partition assignment includes an empty replica list.",
        ),
        (10_003, None, "policy_violation", "Excessively large number of partitions per request."),
    ],
)
def test_partitions_that_are_not_added(
    broker: Broker, count: int, nodes: Any, code: str, message: str
) -> None:
    broker.create_topic("a", 2, {})
    assert grow(broker, ("a", count, nodes)) == [("a", code, message)]
    assert len(broker.logs.topics["a"].partitions) == 2


def test_a_topic_named_twice_does_not_grow(broker: Broker) -> None:
    broker.create_topic("a", 1, {})
    assert grow(broker, ("a", 2, None), ("a", 3, None)) == [("a", "invalid_request", "Duplicate topic name.")]
    assert len(broker.logs.topics["a"].partitions) == 1


@pytest.mark.parametrize(("key", "warned"), [(b"k", True), (None, False)])
def test_a_topic_with_keys_that_grows_gets_a_warning(
    broker: Broker, caplog: pytest.LogCaptureFixture, key: bytes | None, warned: bool
) -> None:
    topic = broker.create_topic("a", 2, {})
    batch = build_batch([Record(offset_delta=0, timestamp_delta=0, key=key, value=b"v", headers=())])
    topic.partitions[1].append(batch, now_ms=0)
    with caplog.at_level(logging.WARNING):
        grow(broker, ("a", 3, None))
    assert ("topic a grows from 2 to 3 partitions" in caplog.text) == warned
