"""Our tables of configs, and what we say of values, beside a live Apache Kafka.

The Apache Kafka of the tests is started with some configs of its own. Our store is started with the same
ones, so that everything else has to come out alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.configs import (
    BROKER_CONFIGS,
    LEFT_OUT,
    TOPIC_CONFIGS,
    ConfigEntry,
    ConfigStore,
    Kind,
    Operation,
)
from headrace.broker.configs.static_values import ONE_MACHINE, identity
from headrace.broker.errors import ApiError
from headrace.broker.settings import BrokerSettings
from headrace.engines.apache_kafka import ApacheKafka
from tests.broker.logs_in_memory import LogsInMemory
from tests.conformance.raw_client import RawClient

CREATE_TOPICS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 44
TOPIC, BROKER = 2, 4
STATIC = 4
SETTINGS = BrokerSettings(data_dir=Path("/data"))
# Kafka has it as a config of all nodes, because its version of eligible leader replicas wants that (KIP-966).
SET_BY_KAFKA = {"min.insync.replicas"}
# Who and where a node is cannot be alike.
IDENTITY = {*identity(SETTINGS, 9092), *ONE_MACHINE}
# Kafka can add listeners while it runs, we cannot; the map of protocols goes with them.
NOT_DYNAMIC_HERE = {"listeners", "listener.security.protocol.map"}
# Kafka's compaction refuses more of these than their own checks do: threads more than doubled, buffers too
# small for them, a division by no threads.
CHECKED_BY_KAFKAS_COMPACTION = {name for name in BROKER_CONFIGS if name.startswith("log.cleaner.")}
# Kafka compares it with log.retention.ms even where there is no tiered storage for it to be about.
CHECKED_BY_TIERED_STORAGE = {"log.local.retention.ms"}
CHECKED_FURTHER = CHECKED_BY_KAFKAS_COMPACTION | CHECKED_BY_TIERED_STORAGE
TEXTS = (
    "abc", "", " ", "-5", "-2", "-1", "0", " 7 ", "+1", "10", "18", "23", "1048576", "2147483648",
    "99999999999999999999", "1_000", "1.5", "0.5", "1e-3", "NaN", "0x1p-2", "TRUE", " false ", "yes", "*",
    "1:1,2:3", "1:1,2:x", "*,1:1", "compact", "compact, delete", "delete,delete", ",compact", "compact,",
    "DELETE", "gzip", "none", "LogAppendTime", "logappendtime",
)  # fmt: skip


@pytest.fixture
def client(kafka: ApacheKafka) -> Iterator[RawClient]:
    host, port = kafka.bootstrap.rsplit(":", 1)
    with RawClient((host, int(port))) as connected:
        yield connected


@pytest.fixture
def topic(client: RawClient, topic_name: str) -> str:
    wanted = {"name": topic_name, "num_partitions": 1, "replication_factor": 1}
    reply = client.ask(CREATE_TOPICS, 7, topics=[wanted], timeout=30_000)
    assert reply.topics[0].error_code == 0
    return topic_name


def described(client: RawClient, kind: int, name: str) -> dict[str, Any]:
    """All configs of a resource; a topic may be known a moment after it was made."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    while True:
        reply = client.ask(
            DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True, include_documentation=True
        )
        (result,) = reply.results
        if result.error_code == 0:
            return {each.name: each for each in result.configs}
        assert result.error_code.name == "unknown_topic_or_partition"


@pytest.fixture
def store(client: RawClient) -> ConfigStore:
    """Ours, started with what Kafka was started with."""
    configs = {
        name: config.value
        for name, config in described(client, BROKER, "1").items()
        if name in BROKER_CONFIGS and name not in IDENTITY and name not in NOT_DYNAMIC_HERE
        if any(each.source == STATIC for each in config.synonyms)
    }
    return ConfigStore(BrokerSettings(data_dir=Path("/data"), configs=configs), LogsInMemory())


def shown(config: Any) -> tuple[Any, ...]:
    """What Kafka says of a config, but for the words of its documentation."""
    synonyms = [(each.name, each.value, int(each.source)) for each in config.synonyms]
    return (
        config.value,
        config.config_source,
        config.config_type,
        config.read_only,
        config.is_sensitive,
        synonyms,
    )


def ours(entry: ConfigEntry) -> tuple[Any, ...]:
    synonyms = [(each.name, each.value, int(each.source)) for each in entry.synonyms]
    return entry.value, entry.source, entry.type, entry.read_only, entry.sensitive, synonyms


def test_topic_configs(client: RawClient, store: ConfigStore, topic: str) -> None:
    theirs = described(client, TOPIC, topic)
    assert theirs.keys() == {name for name, config in TOPIC_CONFIGS.items() if not config.internal}
    mine = {entry.name: ours(entry) for entry in store.describe_topic({})}
    assert {name: shown(config) for name, config in theirs.items() if name not in SET_BY_KAFKA} == {
        name: entry for name, entry in mine.items() if name not in SET_BY_KAFKA
    }
    assert all(config.documentation for config in theirs.values())
    assert all(entry.documentation for entry in store.describe_topic({}))


def test_broker_configs(client: RawClient, store: ConfigStore) -> None:
    theirs = described(client, BROKER, "1")
    mine = {entry.name: entry for entry in store.describe_broker()}
    assert mine.keys() - theirs.keys() == set()
    for name in theirs.keys() - mine.keys():
        assert [each.reason for each in LEFT_OUT if each.matches(name)] != [], name
    alike = mine.keys() - IDENTITY - SET_BY_KAFKA - NOT_DYNAMIC_HERE
    assert {name: shown(theirs[name]) for name in alike} == {name: ours(mine[name]) for name in alike}
    for name in mine.keys() & IDENTITY - NOT_DYNAMIC_HERE:
        assert shown(theirs[name])[2:5] == ours(mine[name])[2:5], name


def test_every_config_that_kafka_has_is_left_out_for_one_reason(client: RawClient) -> None:
    theirs = described(client, BROKER, "1").keys()
    reasons = {name: [each.reason for each in LEFT_OUT if each.matches(name)] for name in theirs}
    assert {name for name, found in reasons.items() if len(found) != (name not in BROKER_CONFIGS)} == set()
    assert [each.patterns for each in LEFT_OUT if not any(each.matches(name) for name in theirs)] == []


def refusal_of(check: Callable[[], object]) -> tuple[str, str | None]:
    try:
        check()
    except ApiError as refusal:
        return refusal.code.name, refusal.message
    return "none", None


def kafkas_refusals(
    client: RawClient, kind: int, name: str, config: str
) -> dict[str, tuple[str, str | None]]:
    """What Kafka says of each of the texts. Asked all at once, answered in order."""
    for text in TEXTS:
        change = {"name": config, "config_operation": 0, "value": text}
        resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
        client.send(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=True)
    replies = [client.receive(INCREMENTAL_ALTER_CONFIGS, 1).responses[0] for _ in TEXTS]
    return {
        text: (reply.error_code.name, reply.error_message) for text, reply in zip(TEXTS, replies, strict=True)
    }


@pytest.mark.parametrize("config", sorted(set(TOPIC_CONFIGS) - {"internal.segment.bytes"}))
def test_values_of_topics(client: RawClient, store: ConfigStore, topic: str, config: str) -> None:
    theirs = kafkas_refusals(client, TOPIC, topic, config)
    mine = {
        text: refusal_of(lambda text=text: store.check_topic({config: text}))  # type: ignore[misc]
        for text in TEXTS
    }
    assert mine == theirs


@pytest.mark.parametrize(
    "config",
    sorted(set(BROKER_CONFIGS) - SET_BY_KAFKA - NOT_DYNAMIC_HERE - CHECKED_FURTHER),
)
def test_values_of_the_broker(client: RawClient, store: ConfigStore, config: str) -> None:
    theirs = kafkas_refusals(client, BROKER, "1", config)

    def alter(text: str) -> object:
        change = Operation(name=config, kind=Kind.SET, value=text)
        return store.altered_broker([change], of_this_node=True)

    mine = {text: refusal_of(lambda text=text: alter(text)) for text in TEXTS}  # type: ignore[misc]
    assert mine == theirs
