"""What is known about one config of one topic or of the broker: the value in force and where it comes from.

Invariants: the first synonym is the one in force; a config without synonyms has its default.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.broker.configs.values import ConfigSource, ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class SynonymValue:
    """One of the places that say something about a config, with the text that stands there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A config as it is shown to clients; `value` is None where it has none, or where it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[SynonymValue, ...] = ()
    documentation: str | None = None
