"""All settings of the lake sink, their values in a configuration, and what the values show only together.

Invariant: a setting with an error of its own has no value here, and causes no second error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.connect.connectors.lake_sink.class_names import FORMATS
from headrace.connect.connectors.lake_sink.connector_settings import TABLE_SETTINGS, connector_settings
from headrace.connect.connectors.lake_sink.converter_settings import converter_kind, wrong_converter
from headrace.connect.connectors.lake_sink.partitions import wrong_partitions
from headrace.connect.connectors.lake_sink.plain_file_settings import wrong_formats
from headrace.connect.connectors.lake_sink.s3_settings import KEY_AND_HEADER_SETTINGS, s3_settings
from headrace.connect.connectors.lake_sink.storage_settings import PARTITIONER_SETTINGS, storage_settings
from headrace.connect.connectors.lake_sink.stores import Folders, wrong_store
from headrace.connect.connectors.lake_sink.transformations import (
    read_transformations,
    wrong_transformations,
)
from headrace.connect.converters import SIMPLE_HEADER_CONVERTER, full_name
from headrace.connect.definitions import HIDDEN, Definition, read_setting
from headrace.lake.sink import ConverterKind, FileFormat

RESET: Final = "consumer.override.auto.offset.reset"
_WHOLE_SENTENCES: Final = ("Invalid value", "Missing required")
_SECRET: Final = frozenset({"auth", "key", "password", "secret", "token"})
_ISOLATION: Final = "consumer.override.isolation.level"

Config = Mapping[str, str]


def all_settings(*, is_confluents: bool) -> tuple[Definition, ...]:
    """`is_confluents`: what Confluent's connector requires is required, and its defaults are Confluent's."""
    return (
        *connector_settings(is_confluents=is_confluents),
        *storage_settings(is_confluents=is_confluents),
        *PARTITIONER_SETTINGS,
        *TABLE_SETTINGS,
        *s3_settings(is_confluents=is_confluents),
        *KEY_AND_HEADER_SETTINGS,
    )


def read_values(definitions: Iterable[Definition], config: Config) -> dict[str, Any]:
    """The value of each setting; None for one with an error."""
    readings = {each.name: read_setting(each, config) for each in definitions}
    return {name: None if reading.errors else reading.value for name, reading in readings.items()}


def wrong_settings(values: Mapping[str, Any], config: Config, folders: Folders) -> dict[str, list[str]]:
    """What the settings show only together, by their names."""
    transformations = wrong_transformations(config)
    wrong = (
        wrong_store(values, config, folders)
        | wrong_partitions(values)
        | wrong_formats(values, config)
        | wrong_converter(config, "key")
        | wrong_converter(config, "value")
        | transformations
        | _wrong_consumer(config)
        | ({} if transformations else _wrong_rows(values, config))
    )
    if values["behavior.on.null.values"] == "write" and values["store.kafka.keys"] is False:
        wrong["behavior.on.null.values"] = "Rows without a value have only a key: set store.kafka.keys=true"
    if values["json.column"] and not _finds_columns(config):
        reason = "Only JSON without schemas (schemas.enable=false) has fields without columns"
        wrong.setdefault("json.column", reason)
    headers = full_name(config.get("header.converter", SIMPLE_HEADER_CONVERTER).strip())
    if values["store.kafka.headers"] and headers not in (None, SIMPLE_HEADER_CONVERTER):
        wrong["header.converter"] = "Headers are stored as they are; only SimpleHeaderConverter is supported"
    return {name: [_error(name, config.get(name), reason)] for name, reason in wrong.items()}


def _error(name: str, value: str | None, reason: str) -> str:
    """As Kafka words it. Secrets are not repeated."""
    if reason.startswith(_WHOLE_SENTENCES):
        return reason
    if value is not None and _SECRET & set(name.split(".")):
        value = HIDDEN
    return f"Invalid value {'null' if value is None else value} for configuration {name}: {reason}"


def _finds_columns(config: Config) -> bool:
    """Whether the columns are found in the data."""
    is_json = converter_kind(config, "value") is ConverterKind.JSON
    return is_json and config.get("value.converter.schemas.enable", "true").strip().lower() == "false"


def _wrong_consumer(config: Config) -> dict[str, str]:
    wrong = {}
    if config.get(RESET, "earliest").strip() not in ("earliest", "latest"):
        wrong[RESET] = "Only earliest and latest are supported"
    if config.get(_ISOLATION, "read_committed").strip() != "read_committed":
        wrong[_ISOLATION] = "Tables have only records of committed transactions"
    return wrong


def _wrong_rows(values: Mapping[str, Any], config: Config) -> dict[str, str]:
    """Values without fields are no rows, unless a transformation puts them into a field, or files have
    nothing but values.
    """
    if FORMATS.get(values["format.class"] or "") is FileFormat.BYTES:
        return {}
    if converter_kind(config, "value") not in (ConverterKind.STRING, ConverterKind.BYTES):
        return {}
    if any(each.kind == "HoistField" and each.side == "value" for each in read_transformations(config)):
        return {}
    return {
        "value.converter": "Values without fields cannot be rows: use AvroConverter or JsonConverter, or the "
        "transformation HoistField$Value"
    }
