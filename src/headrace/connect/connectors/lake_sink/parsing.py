"""Turns the configuration of a lake sink into the `LakeSink` that the pipeline runs.

Invariants: what validate accepts can be parsed, and gives the same value each time; a configuration is
validated first, because one in the log may be older than this version. Nothing is opened or created.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.connect.allowed_folders import AllowedFolders
from headrace.connect.common_settings import settings_of
from headrace.connect.connectors.lake_sink.checking import RESET, read_values
from headrace.connect.connectors.lake_sink.class_names import (
    FORMATS,
    LAKE_SINK,
    S3_SINK,
)
from headrace.connect.connectors.lake_sink.converter_settings import read_converter
from headrace.connect.connectors.lake_sink.partitions import read_partitions
from headrace.connect.connectors.lake_sink.plain_file_settings import (
    read_codec,
    read_plain_style,
    read_table_format,
)
from headrace.connect.connectors.lake_sink.plugin import lake_sinks
from headrace.connect.connectors.lake_sink.stores import Allowed, Folders, read_store
from headrace.connect.connectors.lake_sink.transformations import read_transformations
from headrace.connect.plugins import names_of
from headrace.connect.state.configs import ConnectorWish
from headrace.connect.validation import validate
from headrace.core.addresses import WILDCARD_HOSTS, bracketed
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.sink import ErrorPolicy, LakeSink, NullValues

_CLASSES: Final = names_of(S3_SINK) | names_of(LAKE_SINK)
_ROTATIONS: Final = ("rotate.interval.ms", "rotate.schedule.interval.ms")

Config = Mapping[str, str]


def folders_of(settings: Settings) -> Folders:
    """Where a platform with these settings may have tables."""
    return Folders(lake_dir=settings.lake_dir, allowed=AllowedFolders.of(settings))


def is_lake_sink(config: Config) -> bool:
    """Whether a connector is a lake sink, by its class."""
    return config.get("connector.class") in _CLASSES


def lake_sink_of(wish: ConnectorWish, settings: Settings) -> LakeSink:
    """What a connector of this platform asks for. Raises connector_invalid."""
    folders = folders_of(settings)
    host = "127.0.0.1" if settings.host in WILDCARD_HOSTS else bracketed(settings.host)
    return parse(
        {**wish.config, "name": wish.name},
        lake_dir=folders.lake_dir,
        allowed=folders.allowed,
        registry_url=f"http://{host}:{settings.registry_port}",
    )


def parse(config: Config, *, lake_dir: Path, allowed: Allowed, registry_url: str) -> LakeSink:
    """The sink of a configuration. `registry_url` is for Avro converters that name no registry. Raises
    connector_invalid.
    """
    folders = Folders(lake_dir=lake_dir, allowed=allowed)
    plugin = lake_sinks(folders, headrace.__version__).of(config)
    if plugin is None:
        raise HeadraceError(
            "connector_invalid", f"{config.get('connector.class')} is not the class of a lake sink."
        )
    validate(plugin, config, {}).raise_if_wrong()
    values = read_values(settings_of(plugin, {}), config)
    return LakeSink(
        name=config["name"],
        topics=tuple(dict.fromkeys(topic for topic in values["topics"] if topic)),
        topics_regex=values["topics.regex"],
        storage=read_store(values, folders),
        topics_dir=values["topics.dir"].strip("/"),
        key=read_converter(config, "key", registry_url),
        value=read_converter(config, "value", registry_url),
        partitioning=read_partitions(values),
        flush_size=values["flush.size"],
        commit_within_ms=_commit_within(values),
        file_format=FORMATS[values["format.class"]],
        table_format=read_table_format(values),
        codec=read_codec(values),
        plain_style=read_plain_style(values, config),
        transformations=read_transformations(config),
        null_values=NullValues(values["behavior.on.null.values"].lower()),
        compatibility=values["schema.compatibility"].upper(),
        stores_keys=values["store.kafka.keys"],
        stores_headers=values["store.kafka.headers"],
        json_column=values["json.column"],
        errors=ErrorPolicy(
            tolerates_all=values["errors.tolerance"].lower() == "all",
            dead_letter_topic=values["errors.deadletterqueue.topic.name"],
            has_context_headers=values["errors.deadletterqueue.context.headers.enable"],
        ),
        starts_at_latest=config.get(RESET, "earliest").strip() == "latest",
    )


def _commit_within(values: Mapping[str, Any]) -> int | None:
    """The smallest of the times that are set."""
    return min((values[name] for name in _ROTATIONS if values[name] > 0), default=None)
