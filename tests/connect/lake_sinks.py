"""What the tests of the lake sink share: configurations, and what validate and parse make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from headrace.connect.allowed_folders import AllowedFolders
from headrace.connect.connectors.lake_sink.parsing import parse
from headrace.connect.connectors.lake_sink.plugin import lake_sinks
from headrace.connect.connectors.lake_sink.stores import Folders
from headrace.connect.converters import STRING_CONVERTER
from headrace.connect.definitions import shown
from headrace.connect.validation import Validation, validate
from headrace.lake.sink import LakeSink

REGISTRY: Final = "http://localhost:8081"
# What a worker of the platform says.
WORKER: Final = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
STORAGE: Final = "io.confluent.connect.storage.partitioner"
TIME_PARTITIONER: Final = f"{STORAGE}.TimeBasedPartitioner"
FIELD_PARTITIONER: Final = f"{STORAGE}.FieldPartitioner"
BOTH_PARTITIONER: Final = "headrace.FieldAndTimePartitioner"
S3: Final = {
    "name": "into-the-lake",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "events",
    "s3.bucket.name": "a-bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "flush.size": "1000",
}
OURS: Final = {"name": "into-the-lake", "connector.class": "headrace.LakeSinkConnector", "topics": "events"}
TIME: Final = {
    "partitioner.class": TIME_PARTITIONER,
    "path.format": "'year'=YYYY/'month'=MM",
    "partition.duration.ms": "3600000",
    "timezone": "UTC",
    "locale": "en-US",
}

_DATA: Final = Path("/nonexistent/headrace")


def folders(data_dir: Path = _DATA) -> Folders:
    return Folders(
        lake_dir=data_dir / "lake", allowed=AllowedFolders([data_dir / "files"], data_dir=data_dir)
    )


def validated(config: dict[str, str], where: Folders | None = None) -> Validation:
    plugin = lake_sinks(where or folders(), "1").of(config)
    assert plugin is not None
    return validate(plugin, config, dict(WORKER))


def errors(config: dict[str, str], where: Folders | None = None) -> dict[str, tuple[str, ...]]:
    found = validated(config, where)
    return {each.definition.name: each.errors for each in found.settings if each.errors}


def parsed(config: dict[str, str], where: Folders | None = None) -> LakeSink:
    where = where or folders()
    return parse(config, lake_dir=where.lake_dir, allowed=where.allowed, registry_url=REGISTRY)


def posted(path: Path) -> dict[str, str]:
    """The configuration in a file, as the REST API takes it: all values are texts."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: shown(value) or "" for name, value in {"name": content["name"], **content["config"]}.items()
    }
