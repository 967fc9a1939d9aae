"""What is in force for a topic and for the broker, what is shown of it, and altering it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.configs import (
    BROKER_CONFIGS,
    ConfigEntry,
    ConfigStore,
    Kind,
    Operation,
    static_log_config,
)
from headrace.broker.configs.values import ConfigSource
from headrace.broker.errors import ApiError
from headrace.broker.settings import BrokerSettings
from headrace.core.errors import HeadraceError
from headrace.log.config import LogConfig
from tests.broker.logs_in_memory import LogsInMemory

TOPIC, NODE, ALL = (
    ConfigSource.DYNAMIC_TOPIC,
    ConfigSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
)
STATIC, DEFAULT = ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT


def store_on(logs: LogsInMemory, **configs: str) -> ConfigStore:
    named = {name.replace("_", "."): text for name, text in configs.items()}
    return ConfigStore(BrokerSettings(data_dir=Path("/data"), configs=named), logs)


def synonyms(entry: ConfigEntry) -> list[tuple[str, str | None, ConfigSource]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def topic_entry(store: ConfigStore, name: str, overrides: dict[str, str] | None = None) -> ConfigEntry:
    (entry,) = store.describe_topic(overrides or {}, [name])
    return entry


def broker_entry(store: ConfigStore, name: str) -> ConfigEntry:
    (entry,) = store.describe_broker([name])
    return entry


def set_of(name: str, text: str) -> Operation:
    return Operation(name=name, kind=Kind.SET, value=text)


def test_without_any_config_a_log_has_kafkas_defaults() -> None:
    assert store_on(LogsInMemory()).log_config({}) == LogConfig()


def test_a_topics_own_configs_come_first() -> None:
    store = store_on(LogsInMemory(), message_max_bytes="5000", log_retention_hours="1")
    config = store.log_config(
        {"retention.ms": " 77 ", "cleanup.policy": "delete, compact", "preallocate": "TRUE"}
    )
    assert config.retention_ms == 77
    assert config.cleanup_policy == {"delete", "compact"}
    assert config.preallocate is True
    assert config.max_message_bytes == 5000


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-9"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_in_three_units(configs: dict[str, str], retention: int) -> None:
    settings = BrokerSettings(data_dir=Path("/data"), configs=configs)
    assert ConfigStore(settings, LogsInMemory()).log_config({}).retention_ms == retention
    assert static_log_config(settings)({}).retention_ms == retention


def test_internal_segment_bytes_come_before_segment_bytes() -> None:
    store = store_on(LogsInMemory())
    assert (
        store.log_config({"internal.segment.bytes": "100", "segment.bytes": "2000000"}).segment_bytes == 100
    )
    names = [entry.name for entry in store.describe_topic({})]
    assert "internal.segment.bytes" not in names
    assert topic_entry(store, "internal.segment.bytes", {"internal.segment.bytes": "100"}).value == "100"


def test_topic_described_with_synonyms_in_kafkas_order() -> None:
    logs = LogsInMemory()
    store = store_on(logs, message_max_bytes="2000")
    store.set_broker({"message.max.bytes": "4000"}, of_this_node=False)
    store.set_broker({"message.max.bytes": " 3000 "}, of_this_node=True)
    entry = topic_entry(store, "max.message.bytes", {"max.message.bytes": " 5 "})
    assert (entry.value, entry.source) == ("5", TOPIC)
    assert synonyms(entry) == [
        ("max.message.bytes", "5", TOPIC),
        ("message.max.bytes", " 3000 ", NODE),
        ("message.max.bytes", "4000", ALL),
        ("message.max.bytes", "2000", STATIC),
        ("message.max.bytes", "1048588", DEFAULT),
    ]
    inherited = topic_entry(store, "max.message.bytes")
    assert (inherited.value, inherited.source) == ("3000", NODE)


def test_synonyms_before_the_one_in_milliseconds_are_not_shown() -> None:
    store = store_on(LogsInMemory(), log_retention_hours="1")
    assert synonyms(topic_entry(store, "retention.ms")) == []
    assert topic_entry(store, "retention.ms").value == "3600000"
    store.set_broker({"log.retention.ms": "777"}, of_this_node=True)
    assert synonyms(topic_entry(store, "retention.ms")) == [
        ("log.retention.ms", "777", NODE),
        ("log.retention.hours", "1", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_new_topic_described_sorted_and_as_sent() -> None:
    store = store_on(LogsInMemory(), log_roll_hours="2")
    entries = store.describe_new_topic({"retention.ms": " 05 "})
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert len(entries) == 33
    found = {entry.name: (entry.value, entry.source) for entry in entries}
    assert found["retention.ms"] == (" 05 ", TOPIC)
    assert found["segment.ms"] == ("7200000", STATIC)
    assert found["flush.ms"] == ("9223372036854775807", DEFAULT)


def test_broker_described() -> None:
    settings = BrokerSettings(data_dir=Path("/data"), host="::1", port=0, default_partitions=3, node_id=7)
    store = ConfigStore(settings, LogsInMemory())
    store.announce(4321)
    assert {entry.name for entry in store.describe_broker()} == set(BROKER_CONFIGS)
    for name, value, source, read_only in [
        ("node.id", "7", STATIC, True),
        ("broker.id", "7", STATIC, True),
        ("listeners", "PLAINTEXT://[::1]:4321", STATIC, True),
        ("advertised.listeners", "PLAINTEXT://[::1]:4321", STATIC, True),
        ("log.dirs", "/data", STATIC, True),
        ("num.partitions", "3", STATIC, True),
        ("auto.create.topics.enable", "true", DEFAULT, True),
        ("offsets.topic.replication.factor", "1", STATIC, True),
        ("log.retention.ms", None, DEFAULT, False),
        ("log.retention.hours", "168", DEFAULT, True),
        ("message.max.bytes", "1048588", DEFAULT, False),
    ]:
        entry = broker_entry(store, name)
        assert (entry.value, entry.source, entry.read_only) == (value, source, read_only), name
    assert synonyms(broker_entry(store, "num.partitions")) == [
        ("num.partitions", "3", STATIC),
        ("num.partitions", "1", DEFAULT),
    ]
    assert broker_entry(store, "broker.id").documentation


def test_a_config_of_somebodys_own_is_kept_and_hidden() -> None:
    store = store_on(LogsInMemory())
    store.set_broker(store.altered_broker([set_of("my.own", "x")], of_this_node=True), of_this_node=True)
    entry = broker_entry(store, "my.own")
    assert (entry.value, entry.sensitive, entry.read_only, entry.type) == (None, True, True, 0)
    assert synonyms(entry) == [("my.own", None, NODE)]


def test_all_nodes_are_described_with_what_they_were_told_only() -> None:
    store = store_on(LogsInMemory())
    assert store.describe_all_nodes() == []
    store.set_broker({"log.roll.ms": " 55 ", "message.max.bytes": "9"}, of_this_node=False)
    entries = store.describe_all_nodes()
    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("log.roll.ms", " 55 ", ALL),
        ("message.max.bytes", "9", ALL),
    ]
    assert synonyms(entries[0]) == [("log.roll.ms", " 55 ", ALL)]
    assert [entry.name for entry in store.describe_all_nodes(["log.roll.ms"])] == ["log.roll.ms"]


def test_a_broker_config_acts_on_topics_at_once_and_is_kept() -> None:
    logs = LogsInMemory()
    plain, own = logs.add("plain"), logs.add("own", {"retention.ms": "5"})
    store = store_on(logs)
    store.set_broker({"log.retention.ms": "1000"}, of_this_node=False)
    assert (plain.config.retention_ms, own.config.retention_ms) == (1000, 5)
    store.set_topic("own", {"retention.ms": "5"})
    store.set_broker({"log.retention.ms": "2000"}, of_this_node=True)
    assert (plain.config.retention_ms, own.config.retention_ms) == (2000, 5)

    again = LogsInMemory(logs.broker_overrides)
    reopened = again.add("plain")
    store = store_on(again)
    assert reopened.config.retention_ms == 2000
    assert store.broker("log.retention.ms") == 2000
    store.set_broker({}, of_this_node=True)
    assert reopened.config.retention_ms == 1000
    store.set_broker({}, of_this_node=False)
    assert reopened.config == LogConfig()
    assert again.broker_overrides == {}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_topic_configs_that_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        store_on(LogsInMemory()).check_topic(overrides)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.invalid_config, message)


def test_limits_that_only_conflict_with_the_brokers() -> None:
    store = store_on(LogsInMemory())
    store.set_broker({"log.cleaner.max.compaction.lag.ms": "5"}, of_this_node=True)
    with pytest.raises(ApiError, match=r"min.compaction.lag.ms \(10\) > max.compaction.lag.ms \(5\)"):
        store.check_topic({"min.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ({}, ("retention.ms", Kind.SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", Kind.DELETE, None), {}),
        ({}, ("nope", Kind.DELETE, None), {}),
        ({}, ("cleanup.policy", Kind.APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({}, ("cleanup.policy", Kind.APPEND, "delete"), {"cleanup.policy": "delete"}),
        ({"cleanup.policy": ""}, ("cleanup.policy", Kind.APPEND, "compact"), {"cleanup.policy": "compact"}),
        ({}, ("cleanup.policy", Kind.SUBTRACT, "delete"), {"cleanup.policy": ""}),
        ({}, ("cleanup.policy", Kind.SUBTRACT, "zzz"), {"cleanup.policy": "delete"}),
        (
            {"cleanup.policy": "delete,compact"},
            ("cleanup.policy", Kind.SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
    ],
)
def test_operations(
    before: dict[str, str], operation: tuple[str, Kind, str | None], after: dict[str, str]
) -> None:
    name, kind, value = operation
    store = store_on(LogsInMemory())
    assert store.altered_topic(before, [Operation(name=name, kind=kind, value=value)]) == after


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (
            Operation(name="retention.ms", kind=Kind.APPEND, value="1"),
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            Operation(name="nope", kind=Kind.SUBTRACT, value="1"),
            ErrorCode.invalid_config,
            "Can't SUBTRACT to key nope because its type is not LIST.",
        ),
        (set_of("nope", "1"), ErrorCode.invalid_config, "Unknown topic config name: nope"),
    ],
)
def test_operations_on_topics_that_are_refused(operation: Operation, code: ErrorCode, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        store_on(LogsInMemory()).altered_topic({}, [operation])
    assert (refusal.value.code, refusal.value.message) == (code, message)


@pytest.mark.parametrize("of_this_node", [True, False])
@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        (
            [set_of("num.partitions", "3"), set_of("node.id", "1")],
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [node.id, num.partitions]",
        ),
        (
            [set_of("num.io.threads", "3")],
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [num.io.threads]. They tune Apache Kafka's threads, "
            "queues and buffers; here one event loop does the work.",
        ),
        (
            [set_of("log.retention.ms", "abc")],
            ErrorCode.invalid_request,
            "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            [set_of("log.retention.ms", "0")],
            ErrorCode.invalid_request,
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            [set_of("log.roll.ms", "0")],
            ErrorCode.invalid_request,
            "requirement failed: log.roll.ms must be greater than or equal to 1",
        ),
        (
            [set_of("log.roll.jitter.ms", "-1")],
            ErrorCode.invalid_request,
            "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
        ),
        (
            [set_of("group.consumer.assignment.interval.ms", "99999")],
            ErrorCode.invalid_request,
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            [Operation(name="message.max.bytes", kind=Kind.APPEND, value="4")],
            ErrorCode.invalid_config,
            "Config value append is not allowed for config key: message.max.bytes",
        ),
        (
            [Operation(name="nope", kind=Kind.SUBTRACT, value="4")],
            ErrorCode.invalid_config,
            "Unknown config name: nope",
        ),
    ],
)
def test_operations_on_the_broker_that_are_refused(
    operations: list[Operation], code: ErrorCode, message: str, of_this_node: bool
) -> None:
    logs = LogsInMemory()
    with pytest.raises(ApiError) as refusal:
        store_on(logs).altered_broker(operations, of_this_node=of_this_node)
    assert (refusal.value.code, refusal.value.message) == (code, message)
    assert logs.broker_overrides == {}


@pytest.mark.parametrize(
    ("configs", "code", "said"),
    [
        ({"message.max.bytes": "x"}, "invalid_setting", "Not a number of type INT"),
        ({"log.roll.ms": "0"}, "invalid_setting", "log.roll.ms must be"),
        ({"default.replication.factor": "3"}, "invalid_setting", "--engine kafka"),
        ({"node.id": "3"}, "invalid_setting", "node.id"),
        ({"process.roles": "broker"}, "invalid_setting", "process.roles"),
        ({"ssl.keystore.location": "x"}, "unknown_setting", "no TLS"),
        ({"no.such.thing": "x"}, "unknown_setting", "Apache Kafka has no such broker config"),
    ],
)
def test_configs_that_the_broker_does_not_start_with(configs: dict[str, str], code: str, said: str) -> None:
    with pytest.raises(HeadraceError) as refusal:
        ConfigStore(BrokerSettings(data_dir=Path("/data"), configs=configs), LogsInMemory())
    assert refusal.value.code == code
    assert said in refusal.value.message
    assert refusal.value.remedy


def test_what_the_broker_reads_of_its_own_configs() -> None:
    store = store_on(LogsInMemory(), fetch_max_bytes="2048")
    assert store.number("fetch.max.bytes") == 2048
    assert store.flag("delete.topic.enable") is True
    assert store.broker("group.consumer.assignors") == ("uniform", "range")
    with pytest.raises(KeyError):
        store.broker("no.such.thing")
