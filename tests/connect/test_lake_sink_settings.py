"""The settings of the lake sink, alone and together; what is not done here is refused, by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.assembly.processes.connect import worker_parts
from headrace.connect.common_settings import settings_of
from headrace.connect.connectors.builtin import builtin_plugins
from headrace.connect.connectors.files import AnyFile
from headrace.connect.connectors.lake_sink.checking import all_settings
from headrace.connect.connectors.lake_sink.plugin import lake_sinks
from headrace.connect.converters import BYTES_CONVERTER, JSON_CONVERTER, STRING_CONVERTER
from headrace.connect.definitions import Definition, shown
from headrace.connect.service import most_tasks
from headrace.core.settings import Settings
from tests.connect.lake_sinks import (
    BOTH_PARTITIONER,
    FIELD_PARTITIONER,
    OURS,
    S3,
    STORAGE,
    TIME,
    errors,
    folders,
    parsed,
    validated,
)

FORMAT = "io.confluent.connect.s3.format"
AVRO = "io.confluent.connect.avro.AvroConverter"
JSON_FILES = {"format.class": f"{FORMAT}.json.JsonFormat"}
AVRO_FILES = {"format.class": f"{FORMAT}.avro.AvroFormat"}
BYTES_FILES = {
    "format.class": f"{FORMAT}.bytearray.ByteArrayFormat",
    "value.converter": BYTES_CONVERTER,
}
FIELDS = {"partitioner.class": FIELD_PARTITIONER, "partition.field.name": "kind,day"}
HINTS = [each for each in all_settings(is_confluents=True) if each.documentation.startswith("Accepted")]
LIMITS = [each for each in all_settings(is_confluents=True) if each.documentation.startswith("Only ")]
ANOTHER = {
    "BOOLEAN": "true",
    "INT": "9000000",
    "LONG": "7",
    "LIST": "a,b",
    "STRING": "another",
    "PASSWORD": "x",
}
# Hints with rules of their own about values.
OTHER_HINTS = {
    "headers.format.class": f"{FORMAT}.json.JsonFormat",
    "keys.format.class": f"{FORMAT}.bytearray.ByteArrayFormat",
    "s3.object.behavior.on.tagging.error": "fail",
}


def named(definition: Definition) -> str:
    return definition.name


@pytest.mark.parametrize("config", [S3, OURS])
def test_the_shortest_configurations_have_no_errors(config: dict[str, str]) -> None:
    assert errors(config) == {}


@pytest.mark.parametrize(
    "missing", ["s3.bucket.name", "storage.class", "format.class", "flush.size", "topics"]
)
def test_confluent_s_required_settings_are_required(missing: str) -> None:
    found = errors({name: value for name, value in S3.items() if name != missing})
    assert found.keys() - {"topics.regex"} == {missing}


@pytest.mark.parametrize("definition", all_settings(is_confluents=True), ids=named)
def test_every_default_can_be_written_out(definition: Definition) -> None:
    if definition.is_required or definition.default is None:
        return
    default = shown(definition.default)
    assert default is not None
    assert errors({definition.name: default, **S3}) == {}


@pytest.mark.parametrize("definition", HINTS, ids=named)
def test_a_hint_takes_other_values_and_changes_nothing(definition: Definition) -> None:
    value = OTHER_HINTS.get(definition.name, ANOTHER.get(definition.kind, ""))
    if definition.default is True:
        value = "false"
    assert value != shown(definition.default)
    assert errors({**S3, definition.name: value}) == {}
    assert parsed({**S3, definition.name: value}) == parsed(dict(S3))


@pytest.mark.parametrize("definition", LIMITS, ids=named)
def test_a_limit_refuses_every_other_value(definition: Definition) -> None:
    found = errors({**S3, definition.name: ANOTHER[definition.kind]})
    assert found.keys() == {definition.name}
    assert definition.documentation.split(": ", 1)[1][1:-1] in found[definition.name][0]


def test_there_are_hints_and_limits_to_look_at() -> None:
    assert len(HINTS) > 20
    assert len(LIMITS) > 10


@pytest.mark.parametrize(
    ("changes", "setting", "reason"),
    [
        ({"format.class": "com.example.Format"}, "format.class", "could not be found"),
        ({"keys.format.class": "com.example.Format"}, "keys.format.class", "could not be found"),
        ({**JSON_FILES, "table.format": "delta"}, "table.format", "It is for ParquetFormat"),
        ({**AVRO_FILES, "table.format": "parquet"}, "table.format", "It is for ParquetFormat"),
        ({"s3.compression.type": "gzip"}, "s3.compression.type", "parquet.codec"),
        ({**AVRO_FILES, "s3.compression.type": "gzip"}, "s3.compression.type", "avro.codec"),
        ({**JSON_FILES, "s3.compression.type": "zip"}, "s3.compression.type", "must be one of: none, gzip"),
        ({**JSON_FILES, "s3.compression.level": "9"}, "s3.compression.level", "Only the default level"),
        ({**JSON_FILES, "json.decimal.format": "BASE64"}, "json.decimal.format", "use NUMERIC"),
        ({**JSON_FILES, "file.delim": "/"}, "file.delim", "without slashes"),
        ({**BYTES_FILES, "format.bytearray.extension": "../x"}, "format.bytearray.extension", "slashes"),
        ({**BYTES_FILES, "format.bytearray.separator": ""}, "format.bytearray.separator", "cannot be empty"),
        ({**BYTES_FILES, "store.kafka.headers": "true"}, "store.kafka.headers", "only values"),
        ({**BYTES_FILES, "store.kafka.keys": "true"}, "store.kafka.keys", "only values"),
        ({**BYTES_FILES, "value.converter": STRING_CONVERTER}, "value.converter", "use ByteArrayConverter"),
        ({"table.format": "iceberg"}, "table.format", "must be one of: delta, parquet"),
        ({"flush.size": "0"}, "flush.size", "at least 1"),
        ({"flush.size": "many"}, "flush.size", "Not a number"),
        ({"parquet.codec": "brotli"}, "parquet.codec", "must be one of"),
        ({"schema.compatibility": "SIDEWAYS"}, "schema.compatibility", "must be one of"),
        ({"behavior.on.null.values": "delete"}, "behavior.on.null.values", "must be one of"),
        ({"behavior.on.null.values": "write"}, "behavior.on.null.values", "store.kafka.keys=true"),
        ({"s3.part.size": "1"}, "s3.part.size", "at least 5242880"),
        ({"s3.region": "Us East"}, "s3.region", "lower-case"),
        ({"s3.bucket.name": "under_score"}, "s3.bucket.name", "lower-case"),
        (
            {"s3.credentials.provider.class": "com.example.Keys"},
            "s3.credentials.provider.class",
            "default chain",
        ),
        ({"aws.access.key.id": "a"}, "aws.secret.access.key", "Both keys"),
        ({"aws.secret.access.key": "a"}, "aws.access.key.id", "Both keys"),
        ({"store.url": "s3://bucket"}, "store.url", "http://HOST:PORT"),
        ({"store.url": "http://host/path"}, "store.url", "http://HOST:PORT"),
        ({"store.url": "http://host:port"}, "store.url", "http://HOST:PORT"),
        ({"storage.class": "com.example.Storage"}, "storage.class", "could not be found"),
        ({"topics.dir": "a/../../b"}, "topics.dir", "plain folder names"),
        ({"partitioner.class": "com.example.FieldAndTime"}, "partitioner.class", BOTH_PARTITIONER),
        ({"partitioner.class": FIELD_PARTITIONER}, "partition.field.name", "at least one field"),
        ({**FIELDS, "partition.field.name": "a,,b"}, "partition.field.name", "null or empty"),
        ({**FIELDS, "partition.field.name": "a..b"}, "partition.field.name", "empty or whitespace-only"),
        ({**FIELDS, "partition.field.name": "kind,KIND"}, "partition.field.name", "once"),
        ({**FIELDS, "partition.field.name": "a b"}, "partition.field.name", "cannot be named"),
        ({"partition.field.name": "kind"}, "partition.field.name", BOTH_PARTITIONER),
        ({**TIME, "partition.field.name": "kind"}, "partition.field.name", BOTH_PARTITIONER),
        ({**FIELDS, "path.format": "YYYY"}, "path.format", BOTH_PARTITIONER),
        (
            {**TIME, "partitioner.class": f"{STORAGE}.DailyPartitioner"},
            "path.format",
            "use TimeBasedPartitioner",
        ),
        ({**TIME, "path.format": ""}, "path.format", "cannot be empty"),
        ({**TIME, "path.format": "'week'=ww"}, "path.format", "'ww' is not supported"),
        ({**TIME, "partition.duration.ms": "0"}, "partition.duration.ms", "positive"),
        ({**TIME, "timezone": ""}, "timezone", "cannot be empty"),
        ({**TIME, "timezone": "Mars/Olympus"}, "timezone", "not recognised"),
        ({**TIME, "timestamp.extractor": "com.example.Time"}, "timestamp.extractor", "Only Wallclock"),
        (
            {**TIME, "timestamp.extractor": "RecordField", "timestamp.field": ""},
            "timestamp.field",
            "needs a field",
        ),
        (
            {**TIME, "partitioner.class": BOTH_PARTITIONER, "partition.field.name": "Year"},
            "path.format",
            "name of a field",
        ),
        ({**FIELDS, "partition.date.fields": "other"}, "partition.date.fields", "not among"),
        ({"partition.date.fields": "day"}, "partition.date.fields", "not among"),
        ({**FIELDS, "json.column": "Kind"}, "json.column", "a partition already"),
        ({"json.column": "partition"}, "json.column", "a partition already"),
        ({"json.column": "_KEY"}, "json.column", "sink's own"),
        ({**TIME, "path.format": "'_at'=YYYY"}, "path.format", "sink's own"),
        ({"json.column": "a;b"}, "json.column", "cannot be named"),
        ({"json.column": "rest"}, "json.column", "Only JSON without schemas"),
        ({"value.converter": JSON_CONVERTER, "json.column": "rest"}, "json.column", "Only JSON without"),
        (
            {"value.converter": "io.confluent.connect.protobuf.ProtobufConverter"},
            "value.converter",
            "not be found",
        ),
        ({"value.converter": STRING_CONVERTER}, "value.converter", "HoistField$Value"),
        ({"value.converter": BYTES_CONVERTER}, "value.converter", "HoistField$Value"),
        ({"value.converter.unknown": "x"}, "value.converter.unknown", "avro converter has no such setting"),
        (
            {"value.converter.basic.auth.user.info": "me:pw"},
            "value.converter.basic.auth.user.info",
            "credentials",
        ),
        ({"value.converter.schema.registry.url": "host"}, "value.converter.schema.registry.url", "http://"),
        (
            {"value.converter.schema.registry.url": "http://a,http://b"},
            "value.converter.schema.registry.url",
            "not several",
        ),
        (
            {"value.converter.value.subject.name.strategy": "com.example.Mine"},
            "value.converter.value.subject.name.strategy",
            "TopicNameStrategy",
        ),
        (
            {"value.converter.generalized.sum.type.support": "true"},
            "value.converter.generalized.sum.type.support",
            "unions",
        ),
        ({"key.converter.encoding": "UTF-16"}, "key.converter.encoding", "UTF-8"),
        (
            {"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "perhaps"},
            "value.converter.schemas.enable",
            "true or false",
        ),
        (
            {"value.converter": JSON_CONVERTER, "value.converter.replace.null.with.default": "true"},
            "value.converter.replace.null.with.default",
            "A null stays null",
        ),
        (
            {"store.kafka.headers": "true", "header.converter": STRING_CONVERTER},
            "header.converter",
            "only SimpleHeaderConverter",
        ),
        (
            {"consumer.override.isolation.level": "read_uncommitted"},
            "consumer.override.isolation.level",
            "committed",
        ),
        (
            {"consumer.override.auto.offset.reset": "beginning"},
            "consumer.override.auto.offset.reset",
            "earliest and latest",
        ),
        ({"consumer.override.group.id": "mine"}, "consumer.override.group.id", "cannot be changed"),
        ({"s3.endpoint": "http://host"}, "s3.endpoint", "has no setting s3.endpoint"),
        ({"flush.sise": "1"}, "flush.sise", "has no setting flush.sise. Did you mean flush.size?"),
        (
            {"s3.path.style.access": "true"},
            "s3.path.style.access",
            "Did you mean s3.path.style.access.enabled?",
        ),
        ({"errors.tolerance": "some"}, "errors.tolerance", "must be one of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_done_is_refused_by_its_name(changes: dict[str, str], setting: str, reason: str) -> None:
    found = errors({**S3, **changes})
    assert found.keys() == {setting}, found
    assert reason in found[setting][0]


def test_every_error_is_in_one_answer() -> None:
    found = errors(
        {
            **S3,
            "format.class": "com.example.Format",
            "s3.wan.mode": "true",
            "unknown": "x",
            "transforms": "a",
            "transforms.a.type": "com.example.Mine",
            "value.converter.unknown": "x",
            "partition.field.name": "kind",
        }
    )
    assert found.keys() == {
        "format.class",
        "s3.wan.mode",
        "unknown",
        "transforms.a.type",
        "value.converter.unknown",
        "partition.field.name",
    }
    assert all(len(reasons) == 1 for reasons in found.values())


def test_settings_of_writers_and_caches_are_accepted_of_an_avro_converter() -> None:
    names = ("auto.register.schemas", "use.latest.version", "enhanced.avro.schema.support", "schemas.enable")
    config = {**S3, "value.converter": AVRO, **{f"value.converter.{name}": "false" for name in names}}
    assert errors(config) == {}
    assert parsed(config) == parsed(dict(S3))


def test_comments_are_no_settings() -> None:
    assert errors({**S3, "_comment": "why", "_comment_partitioner": "how"}) == {}


@pytest.mark.parametrize("name", ["aws.access.key.id", "aws.secret.access.key"])
def test_keys_of_a_configuration_provider_are_refused(name: str) -> None:
    keys = {"aws.access.key.id": "a", "aws.secret.access.key": "b", name: "${env:SOMETHING}"}
    found = errors({**S3, **keys})
    assert found.keys() == {name}
    assert "no configuration providers" in found[name][0]


def test_no_answer_has_a_secret() -> None:
    config = {
        **S3,
        "aws.access.key.id": "an-id",
        "aws.secret.access.key": "SECRET",
        "s3.proxy.password": "SECRET",
        "s3.sse.customer.key": "SECRET",
        "value.converter.basic.auth.user.info": "me:SECRET",
    }
    found = [each for each in validated(config).settings if each.definition.name in config]
    # The setting of the converter has no definition, so Kafka shows it, too; no error repeats it.
    assert "SECRET" not in json.dumps(
        [each.as_json() for each in found if not each.definition.name.startswith("value.converter.")]
    )
    assert "SECRET" not in "".join(error for each in found for error in each.errors)
    assert "SECRET" not in repr(parsed({**S3, "aws.access.key.id": "i", "aws.secret.access.key": "SECRET"}))


def test_there_is_one_task_however_many_are_allowed() -> None:
    config = {**S3, "tasks.max": "12"}
    (plugin,) = [each for each in lake_sinks(folders(), "1") if each.class_name == S3["connector.class"]]
    assert errors(config) == {}
    assert list(plugin.task_configs(config, most_tasks(config))) == [config]
    assert (plugin.runs_in, plugin.offsets_in_group, plugin.kind) == ("pipeline", False, "sink")


def test_the_platform_has_both_and_a_standalone_worker_has_none(tmp_path: Path) -> None:
    plugins = worker_parts(Settings(data_dir=tmp_path)).plugins
    found = [plugins.find(name) for name in ("LakeSink", S3["connector.class"])]
    assert [plugin is not None and plugin.runs_in for plugin in found] == ["pipeline", "pipeline"]
    # Nothing would run it there.
    assert builtin_plugins(AnyFile(tmp_path)).find("LakeSink") is None


def test_the_two_classes_have_the_same_settings_and_short_names() -> None:
    confluents, ours = lake_sinks(folders(), "1").find("S3Sink"), lake_sinks(folders(), "1").find("LakeSink")
    assert confluents is not None
    assert ours is not None
    converters: dict[str, Any] = {"key.converter": "", "value.converter": ""}
    assert [each.name for each in settings_of(confluents, converters)] == [
        each.name for each in settings_of(ours, converters)
    ]
