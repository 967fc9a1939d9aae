"""One config of a topic or of the broker: the value in force and where it comes from.

Invariants: the first synonym is the one in force; a config without synonyms has its default.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.broker.configs.values import ConfigSource, ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class SynonymValue:
    """A source that sets a config, with its text."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A config as clients see it; `value` is None if there is none or if it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[SynonymValue, ...] = ()
    documentation: str | None = None
