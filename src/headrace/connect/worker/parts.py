"""What all connectors of a worker share, and which converters one of them uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.connect.converters import SIMPLE_HEADER_CONVERTER, Converter, full_name, make_converter
from headrace.connect.plugins import Config, Plugin, Plugins
from headrace.connect.state.configs import ConfigLog
from headrace.connect.state.source_offsets import OffsetLog
from headrace.connect.state.statuses import StatusLog

Role = Literal["key", "value", "header"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """`converters` has `key.converter`, `value.converter` and settings of theirs, as in a worker's file;
    `clients` has settings of librdkafka for consumers and producers.
    """

    bootstrap: str
    worker_id: str
    plugins: Plugins
    configs: ConfigLog
    statuses: StatusLog
    offsets: OffsetLog
    converters: Mapping[str, str]
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # How often offsets are committed, and how long a task may take to stop.
    offset_flush_seconds: float = 5.0
    graceful_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConverter:
    """A converter with the name of its class, for the headers of dead letters."""

    class_name: str
    converter: Converter


def converter_of(role: Role, config: Config, plugin: Plugin, parts: WorkerParts) -> NamedConverter:
    """The connector's own, the plugin's, or the worker's. Raises DataError."""
    setting = f"{role}.converter"
    sources = (config, plugin.default_converters, parts.converters)
    named = next((source for source in sources if setting in source), {setting: SIMPLE_HEADER_CONVERTER})
    prefix = f"{setting}."
    settings = {
        name.removeprefix(prefix): value
        for source in (named, config)
        for name, value in source.items()
        if name.startswith(prefix)
    }
    name = named[setting]
    return NamedConverter(class_name=full_name(name) or name, converter=make_converter(name, settings))
