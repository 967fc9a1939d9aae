"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs over the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from tests.broker.asking import ask

DESCRIBE, ALTER = ALL[32], ALL[33]
INCREMENTAL = ALL[44]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def describe(broker: Broker, *resources: dict[str, Any], version: int = 4, **fields: Any) -> list[Any]:
    return list(ask(broker, DESCRIBE, version, resources=resources, **fields).results)


def shown(broker: Broker, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (result,) = describe(broker, resource(kind, name, [key]))
    (config,) = result.configs
    return config.value, config.config_source


Change = tuple[str, int, str | None]


def incremental(
    broker: Broker, kind: int, name: str, *changes: Change, validate_only: bool = False, version: int = 1
) -> tuple[str, str | None]:
    configs = [
        {"name": config, "config_operation": operation, "value": value}
        for config, operation, value in changes
    ]
    asked = {"resource_type": kind, "resource_name": name, "configs": configs}
    (result,) = ask(broker, INCREMENTAL, version, resources=[asked], validate_only=validate_only).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code.name, result.error_message


def replace(
    broker: Broker,
    kind: int,
    name: str,
    *texts: tuple[str, str | None],
    validate_only: bool = False,
    version: int = 2,
) -> tuple[str, str | None]:
    configs = [{"name": config, "value": value} for config, value in texts]
    asked = {"resource_type": kind, "resource_name": name, "configs": configs}
    (result,) = ask(broker, ALTER, version, resources=[asked], validate_only=validate_only).responses
    return result.error_code.name, result.error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_topic_described(broker: Broker, version: int) -> None:
    broker.create_topic("a", 1, {"retention.ms": "5"})
    (result,) = describe(
        broker,
        resource(TOPIC, "a"),
        version=version,
        include_synonyms=True,
        include_documentation=True,
    )
    assert (result.error_code.name, result.error_message, result.resource_name) == ("none", "", "a")
    configs = {each.name: each for each in result.configs}
    assert len(configs) == 33
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("5", 1, False)
    assert [(each.name, each.value, each.source) for each in configs["flush.messages"].synonyms] == [
        ("log.flush.interval.messages", "9223372036854775807", 5)
    ]
    if version >= 3:
        assert (retention.config_type, configs["cleanup.policy"].config_type) == (5, 7)
        assert retention.documentation


def test_only_what_is_asked_for_is_described(broker: Broker) -> None:
    broker.create_topic("a", 1, {})
    (result,) = describe(broker, resource(TOPIC, "a", ["segment.ms", "nope", "retention.ms"]))
    assert {each.name for each in result.configs} == {"segment.ms", "retention.ms"}
    assert [(each.synonyms, each.documentation) for each in result.configs] == [((), None)] * 2
    (everything,) = describe(broker, resource(TOPIC, "a", []))
    assert len(everything.configs) == 33


@pytest.mark.parametrize("version", range(1, 5))
def test_broker_described(start: Callable[..., Broker], version: int) -> None:
    broker = start(node_id=3)
    one, two = describe(
        broker, resource(BROKER, "3"), resource(BROKER, ""), version=version, include_synonyms=True
    )
    values = {each.name: each for each in one.configs}
    assert values["node.id"].value == "3"
    assert values["node.id"].read_only
    assert values["auto.create.topics.enable"].value == "true"
    assert not values["message.max.bytes"].read_only
    assert two.configs == ()


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", "unknown_topic_or_partition", ""),
        (TOPIC, "", "invalid_topic_exception", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "7", "invalid_request", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "x", "invalid_request", "Broker id must be an integer, but it is: x"),
        (BROKER, " 1", "invalid_request", "Broker id must be an integer, but it is:  1"),
        (8, "1", "invalid_request", "Unsupported resource type: BROKER_LOGGER"),
        (16, "1", "invalid_request", "Unsupported resource type: CLIENT_METRICS"),
    ],
)
def test_what_cannot_be_described(broker: Broker, kind: int, name: str, code: str, message: str) -> None:
    good, bad = describe(broker, resource(BROKER, "+1", ["node.id"]), resource(kind, name))
    assert good.error_code.name == "none"
    assert (bad.error_code.name, bad.error_message, bad.configs) == (code, message, ())


def test_a_type_that_does_not_exist_spoils_the_request(broker: Broker) -> None:
    results = describe(broker, resource(BROKER, "1"), resource(99, "1"))
    assert [each.error_code.name for each in results] == ["invalid_request", "invalid_request"]


@pytest.mark.parametrize("version", [0, 1])
def test_topic_altered_incrementally(broker: Broker, version: int) -> None:
    log = broker.create_topic("a", 1, {"retention.ms": "5"}).partitions[0]
    changes: list[Change] = [("segment.ms", SET, " 7 "), ("cleanup.policy", APPEND, "compact")]
    assert incremental(broker, TOPIC, "a", *changes, version=version, validate_only=True) == ("none", None)
    assert broker.logs.topics["a"].overrides == {"retention.ms": "5"}
    assert incremental(broker, TOPIC, "a", *changes, version=version) == ("none", None)
    assert (log.config.segment_ms, log.config.retention_ms) == (7, 5)
    assert log.config.cleanup_policy == {"delete", "compact"}
    assert shown(broker, TOPIC, "a", "segment.ms") == ("7", 1)
    changes = [("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")]
    assert incremental(broker, TOPIC, "a", *changes, version=version) == ("none", None)
    assert (log.config.retention_ms, log.config.cleanup_policy) == (604_800_000, {"compact"})
    assert shown(broker, TOPIC, "a", "retention.ms") == ("604800000", 5)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_configs_of_a_topic_replaced(broker: Broker, version: int) -> None:
    topic = broker.create_topic("a", 1, {"retention.ms": "5"})
    assert replace(broker, TOPIC, "a", ("segment.ms", "7"), version=version, validate_only=True) == (
        "none",
        None,
    )
    assert topic.overrides == {"retention.ms": "5"}
    assert replace(broker, TOPIC, "a", ("segment.ms", "7"), version=version) == ("none", None)
    assert topic.overrides == {"segment.ms": "7"}
    config = topic.partitions[0].config
    assert (config.segment_ms, config.retention_ms) == (7, 604_800_000)


INVALID_NAME = "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"  # noqa: E501
NOT_A_NUMBER = "Invalid value x for configuration retention.ms: Not a number of type LONG"


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (TOPIC, "a", [("nope", SET, "1")], "invalid_config", "Unknown topic config name: nope"),
        (TOPIC, "a", [("segment.ms", SET, "7"), ("retention.ms", SET, "x")], "invalid_config", NOT_A_NUMBER),
        (
            TOPIC,
            "a",
            [("retention.ms", SET, None)],
            "invalid_request",
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "a",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            "invalid_request",
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            "a",
            [("retention.ms", APPEND, "1")],
            "invalid_config",
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (TOPIC, "a", [("retention.ms", 9, "1")], "invalid_request", "Unknown operations type 9"),
        (
            TOPIC,
            "nope",
            [("retention.ms", SET, "1")],
            "unknown_topic_or_partition",
            "The topic 'nope' does not exist.",
        ),
        (TOPIC, "nope", [("retention.ms", SET, "x")], "invalid_config", NOT_A_NUMBER),
        (TOPIC, "a b", [("retention.ms", SET, "1")], "invalid_topic_exception", INVALID_NAME),
        (
            TOPIC,
            "",
            [("retention.ms", SET, "1")],
            "invalid_request",
            "Default topic resources are not allowed.",
        ),
        (
            BROKER,
            "7",
            [("message.max.bytes", SET, "1")],
            "invalid_request",
            "Unexpected broker id, expected 1, but received 7",
        ),
        (
            BROKER,
            "x",
            [("message.max.bytes", SET, "1")],
            "invalid_request",
            "Node id must be an integer, but it is: x",
        ),
        (
            BROKER,
            "1",
            [("num.partitions", SET, "1")],
            "invalid_request",
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (BROKER, "", [("message.max.bytes", 9, "1")], "invalid_request", "Unknown operations type 9"),
        (8, "1", [("root", SET, "INFO")], "invalid_request", "Unknown resource type 8"),
        (99, "1", [("x", SET, "1")], "invalid_request", "Unknown resource type 99"),
    ],
)
def test_changes_that_are_refused(
    broker: Broker, *, kind: int, name: str, changes: list[Change], code: str, message: str
) -> None:
    topic = broker.create_topic("a", 1, {"flush.ms": "5"})
    assert incremental(broker, kind, name, *changes) == (code, message)
    if all(operation == SET for _, operation, _ in changes):
        texts = [(config, value) for config, _, value in changes]
        assert replace(broker, kind, name, *texts) == (code, message)
    assert topic.overrides == {"flush.ms": "5"}
    assert broker.logs.broker_overrides == {}


def test_a_resource_named_twice_is_refused_and_harms_no_other(broker: Broker) -> None:
    for name in "ab":
        broker.create_topic(name, 1, {})
    change = {"name": "retention.ms", "config_operation": SET, "value": "5"}
    asked = [{"resource_type": TOPIC, "resource_name": name, "configs": [change]} for name in "aba"]
    results = ask(broker, INCREMENTAL, 1, resources=asked, validate_only=False).responses
    assert [(each.error_code.name, each.error_message) for each in results] == [
        ("invalid_request", "Each resource must appear at most once."),
        ("none", None),
        ("invalid_request", "Each resource must appear at most once."),
    ]
    assert broker.logs.topics["a"].overrides == {}
    assert broker.logs.topics["b"].overrides == {"retention.ms": "5"}


def test_broker_altered_and_started_again(start: Callable[..., Broker]) -> None:
    broker = start()
    log = broker.create_topic("a", 1, {}).partitions[0]
    assert incremental(broker, BROKER, "", ("log.retention.ms", SET, "1000")) == ("none", None)
    assert incremental(broker, BROKER, "1", ("message.max.bytes", SET, "77")) == ("none", None)
    assert (log.config.retention_ms, log.config.max_message_bytes) == (1000, 77)
    assert shown(broker, TOPIC, "a", "retention.ms") == ("1000", 3)
    assert shown(broker, BROKER, "1", "message.max.bytes") == ("77", 2)
    assert shown(broker, BROKER, "", "log.retention.ms") == ("1000", 3)

    broker = start()
    log = broker.logs.topics["a"].partitions[0]
    assert (log.config.retention_ms, log.config.max_message_bytes) == (1000, 77)
    assert broker.create_topic("b", 1, {}).partitions[0].config.retention_ms == 1000
    assert incremental(broker, BROKER, "", ("log.retention.ms", DELETE, None)) == ("none", None)
    assert replace(broker, BROKER, "1", ("log.roll.ms", "9")) == ("none", None)
    assert (log.config.retention_ms, log.config.max_message_bytes) == (604_800_000, 1_048_588)
    assert log.config.segment_ms == 9


def test_how_long_producers_are_known(start: Callable[..., Broker]) -> None:
    broker = start(configs={"producer.id.expiration.ms": "50"})

    def known_for() -> set[int]:
        return {
            log.parts.producers.expiration_ms
            for topic in broker.logs.topics.values()
            for log in topic.partitions
        }

    ask(broker, ALL[3], 12, topics=[{"name": "a"}])
    made = {"name": "b", "num_partitions": 1, "replication_factor": 1}
    ask(broker, ALL[19], 7, topics=[made])
    ask(broker, ALL[37], 3, topics=[{"name": "b", "count": 2, "assignments": None}])
    assert known_for() == {50}
    assert incremental(broker, BROKER, "1", ("producer.id.expiration.ms", SET, "70")) == ("none", None)
    assert known_for() == {70}
    broker = start(configs={"producer.id.expiration.ms": "60"})
    assert known_for() == {70}
    assert incremental(broker, BROKER, "1", ("producer.id.expiration.ms", DELETE, None)) == ("none", None)
    assert known_for() == {60}


def test_broker_only_checked(broker: Broker) -> None:
    assert incremental(broker, BROKER, "1", ("message.max.bytes", SET, "77"), validate_only=True) == (
        "none",
        None,
    )
    assert replace(broker, BROKER, "1", ("message.max.bytes", "77"), validate_only=True) == ("none", None)
    assert broker.logs.broker_overrides == {}
