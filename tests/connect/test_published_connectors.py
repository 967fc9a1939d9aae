"""Connector files as people publish them for Confluent's S3 sink: accepted, or refused with exactly these
settings.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lake.sink import ConverterKind, Partitioning, TimePartitions
from tests.connect.lake_sinks import errors, parsed, posted

FOLDER = Path(__file__).parent / "published"
FILES = sorted(path.stem for path in FOLDER.glob("*.json"))
PROVIDER = "s3.credentials.provider"
# By file, the settings that are refused and a part of the reason.
REFUSED: dict[str, dict[str, str]] = {
    "assumed-role": {
        "aws.secret.access.key": "Both keys are needed",
        "aws.secret.key.id": "has no setting",
        f"{PROVIDER}.class": "Only the default chain",
        f"{PROVIDER}.sts.role.arn": "has no setting",
        f"{PROVIDER}.sts.role.external.id": "has no setting",
        f"{PROVIDER}.sts.role.session.name": "has no setting",
    },
    "avro-files-with-positions": {},
    "both-converters-avro": {"storage.class": "Missing required"},
    "bytes-as-they-are": {"storage.class": "Missing required"},
    "change-events-with-positions": {},
    "compressed-json-by-event-time": {},
    "days-with-a-field": {
        "partition.field.name": "headrace.FieldAndTimePartitioner",
        "storage.class": "Missing required",
    },
    "encrypted-by-key": {"s3.ssea.name": "bucket's own settings"},
    "field-and-time-partitioner": {"partitioner.class": "headrace.FieldAndTimePartitioner"},
    "hours-in-bangkok": {},
    "hours-with-another-duration": {},
    "hours-with-zstd": {},
    "json-with-keys-and-headers": {},
    "json-without-schemas": {},
    "keys-tombstones-and-timestamps": {"s3.object.tagging": "not tagged"},
    "logs-by-their-own-time": {
        "auto.register.schemas": "has no setting",
        "use.latest.version": "has no setting",
    },
    "parquet-without-converters": {},
    "protobuf-with-a-fixed-folder": {
        "consumer.override.receive.buffer.bytes": "cannot be changed",
        "path.format": "'us-east-1' has no part of the time",
        "value.converter": "could not be found",
    },
    "sales-with-avro-keys": {},
    "sessions-by-three-fields": {},
    "settings-of-other-connectors": {
        "behavior.on.malformed.documents": "has no setting",
        "max.retries": "has no setting",
        "s3.ssl.enabled": "has no setting",
    },
    "telemetry-by-day": {},
    "topics-by-expression": {"table.name.format": "has no setting"},
    "transformation-of-their-own": {"transforms.DebeziumRecord.type": "It is not supported"},
    "trimmed-for-a-page": {"flush.size": "Missing required", "storage.class": "Missing required"},
    "two-fields-with-providers": {
        "aws.access.key.id": "no configuration providers",
        "aws.secret.access.key": "no configuration providers",
        "storage.class": "Missing required",
    },
}
# What makes a refused file a valid one, beside leaving out what is refused.
REPAIRS: dict[str, dict[str, str]] = {
    "storage.class": {"storage.class": "io.confluent.connect.s3.storage.S3Storage"},
    "flush.size": {"flush.size": "1000"},
    "partitioner.class": {"partitioner.class": "headrace.FieldAndTimePartitioner"},
    "path.format": {"path.format": "'dt'=YYYY-MM-dd/'hr'=HH"},
    "aws.secret.access.key": {"aws.access.key.id": "access", "aws.secret.access.key": "secret"},
}


def test_every_file_has_its_result_and_its_note() -> None:
    assert list(REFUSED) == FILES
    notes = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in FILES if f"| `{name}` |" not in notes] == []


@pytest.mark.parametrize("name", FILES)
def test_it_is_accepted_or_refused_with_exactly_these_settings(name: str) -> None:
    found = errors(posted(FOLDER / f"{name}.json"))
    assert found.keys() == REFUSED[name].keys()
    for setting, reason in REFUSED[name].items():
        assert len(found[setting]) == 1
        assert reason in found[setting][0]


@pytest.mark.parametrize("name", FILES)
def test_without_what_is_refused_it_is_a_sink(name: str) -> None:
    config = posted(FOLDER / f"{name}.json")
    left = {setting: value for setting, value in config.items() if setting not in REFUSED[name]}
    for setting in REFUSED[name]:
        left |= REPAIRS.get(setting, {})
    if "transforms.DebeziumRecord.type" in REFUSED[name]:
        del left["transforms"]
    sink = parsed(left)
    assert sink.name == config["name"]
    assert sink.flush_size > 0


def test_what_some_of_them_mean() -> None:
    telemetry = parsed(posted(FOLDER / "telemetry-by-day.json"))
    assert telemetry.commit_within_ms == 60_000
    assert telemetry.partitioning == Partitioning(
        time=TimePartitions(
            columns=(("year", "yyyy"), ("month", "MM"), ("day", "dd")),
            duration_ms=3_600_000,
            timezone="UTC",
            extractor="Record",
        )
    )
    changes = parsed(posted(FOLDER / "change-events-with-positions.json"))
    assert changes.key.kind is changes.value.kind is ConverterKind.AVRO
    assert [(each.kind, each.side, dict(each.settings)) for each in changes.transformations] == [
        (
            "InsertField",
            "value",
            {
                "offset.field": "_kafka_offset",
                "partition.field": "_kafka_partition",
                "timestamp.field": "_kafka_timestamp",
            },
        )
    ]
