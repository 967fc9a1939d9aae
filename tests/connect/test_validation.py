"""Validation: settings of a connector, one by one and together; what this worker cannot honour is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.connect.allowed_folders import AllowedFolders
from headrace.connect.connectors.builtin import builtin_plugins
from headrace.connect.converters import STRING_CONVERTER
from headrace.connect.overrides import overrides
from headrace.connect.validation import validate

DEFAULTS = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
SINK = {"name": "n", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}
SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "file": "f"}
CONSUMER = "consumer.override."
STRATEGY = f"{CONSUMER}partition.assignment.strategy"
JAVA = "org.apache.kafka.clients.consumer."
GENERATOR = {"name": "n", "connector.class": "Generator", "topic": "t"}


@pytest.fixture
def folders(tmp_path: Path) -> AllowedFolders:
    (tmp_path / "data" / "files").mkdir(parents=True)
    return AllowedFolders([tmp_path / "data" / "files"], data_dir=tmp_path / "data")


def errors(folders: AllowedFolders, config: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    plugin = builtin_plugins(folders).of(config)
    assert plugin is not None
    found = validate(plugin, config, DEFAULTS)
    return {each.definition.name: each.errors for each in found.settings if each.errors}


@pytest.mark.parametrize("config", [SINK, SOURCE, GENERATOR])
def test_what_is_right_has_no_errors(folders: AllowedFolders, config: dict[str, str]) -> None:
    assert errors(folders, config) == {}


@pytest.mark.parametrize(
    ("config", "setting", "reason"),
    [
        ({**SINK, "transforms": "a"}, "transforms", "does not support transformations"),
        ({**SINK, "predicates": "a"}, "predicates", "does not support transformations"),
        ({**SOURCE, "exactly.once.support": "required"}, "exactly.once.support", "must be one of: requested"),
        ({**SOURCE, "transaction.boundary": "connector"}, "transaction.boundary", "must be one of: poll"),
        ({**SOURCE, "offsets.storage.topic": "own"}, "offsets.storage.topic", "worker's topic"),
        ({**SOURCE, "topic.creation.groups": "a"}, "topic.creation.groups", "default group"),
        ({**SINK, "connector.plugin.version": "9"}, "connector.plugin.version", "is available"),
        ({**SINK, "value.converter": "Avro"}, "value.converter", "could not be found"),
        (
            {**SINK, "consumer.override.bootstrap.servers": "x"},
            "consumer.override.bootstrap.servers",
            "cannot be changed",
        ),
        ({**SOURCE, "producer.override.acks": "0"}, "producer.override.acks", "cannot be changed"),
        (
            {**SOURCE, "topic.creation.default.partitions": "0"},
            "topic.creation.default.partitions",
            "at least 1",
        ),
        ({**SINK, "name": "a/b"}, "name", "No URL"),
        ({**SINK, "name": ".."}, "name", "No URL"),
        ({**SINK, "name": "n" * 300}, "name", "longer than"),
        ({**SINK, "topics": "", "topics.regex": "["}, "topics.regex", "Invalid value"),
        (
            {**SINK, "topics": None, "topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"},
            "topics.regex",
            "DLQ",
        ),
        ({**SINK, "file": "../../outside"}, "file", "not in an allowed folder"),
        ({**SINK, "file": "/etc/passwd"}, "file", "not in an allowed folder"),
        ({**SINK, "file": ""}, "file", "A file is required"),
        ({**SOURCE, "file": "a\0b"}, "file", "may not use"),
        ({**GENERATOR, "count": "-1"}, "count", "at least 0"),
        ({**GENERATOR, "template": "{"}, "template", "not JSON"),
        ({**GENERATOR, "template": '"{{nothing}}"'}, "template", "no placeholder `nothing`"),
        ({**GENERATOR, "key": "{{integer 1}}"}, "key", "is not right"),
        ({**GENERATOR, "speed": "1"}, "speed", "has no setting speed"),
        ({**SINK, "tasks.max": "1001"}, "tasks.max", "no more than 1000"),
        ({**SOURCE, "batch.size": "0"}, "batch.size", "at least 1"),
        ({**SOURCE, "batch.size": "1000000000"}, "batch.size", "no more than"),
        (
            {**GENERATOR, "template": '["{{text 99999}}"' + ', "{{text 99999}}"' * 99 + "]"},
            "template",
            "at most",
        ),
        ({**SINK, f"{CONSUMER}fetch.min.bytes": "-3"}, f"{CONSUMER}fetch.min.bytes", "outside allowed range"),
        ({**SINK, f"{CONSUMER}auto.offset.reset": "none"}, f"{CONSUMER}auto.offset.reset", "Invalid value"),
        ({**SINK, f"{CONSUMER}max.poll.records": "0"}, f"{CONSUMER}max.poll.records", "at least 1"),
        ({**SINK, f"{CONSUMER}session.timeout.ms": "600000"}, f"{CONSUMER}session.timeout.ms", "must be >="),
        ({**SINK, STRATEGY: "cooperative-sticky"}, STRATEGY, "all at once"),
        ({**SINK, STRATEGY: f"{JAVA}RangeAssignor,{JAVA}CooperativeStickyAssignor"}, STRATEGY, "Only Range"),
        ({**SOURCE, "producer.override.linger.ms": "x"}, "producer.override.linger.ms", "Invalid value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_honoured_is_refused(
    folders: AllowedFolders, config: dict[str, Any], setting: str, reason: str
) -> None:
    found = errors(folders, config)
    assert reason in "".join(found.get(setting, ())), found


def test_a_link_out_of_the_folder_is_refused(folders: AllowedFolders, tmp_path: Path) -> None:
    (tmp_path / "data" / "files" / "way").symlink_to(tmp_path)
    assert "file" in errors(folders, {**SINK, "file": "way/outside.txt"})


def test_kafka_s_connectors_ignore_unknown_settings(folders: AllowedFolders) -> None:
    assert errors(folders, {**SINK, "unknown": "x", "consumer.override.max.poll.records": "5"}) == {}


def test_overrides_in_java_s_words_are_those_of_the_client(folders: AllowedFolders) -> None:
    config = {
        **SINK,
        STRATEGY: f"{JAVA}RangeAssignor, {JAVA}RoundRobinAssignor",
        f"{CONSUMER}session.timeout.ms": "600000",
        f"{CONSUMER}max.poll.interval.ms": "700000",
    }
    # One of them would be refused without the other.
    assert errors(folders, config) == {}
    assert overrides(config, "consumer")["partition.assignment.strategy"] == "range,roundrobin"
