"""Declares configs as data, from which validation, DescribeConfigs and the documentation derive.

Invariants: names, types, defaults, checks and the order of synonyms are those of Apache Kafka 4.3.1 and are
tested against it; documentation is our own. `inert` marks configs that are accepted,
checked, stored and shown but have no effect on one node; the compatibility page shows this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.broker.configs.validators import ListOf, Validator
from headrace.broker.configs.values import ConfigType, ConfigValue, parse, render

HOUR_MS: Final = 60 * 60 * 1000
MINUTE_MS: Final = 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One config. `default` is the parsed value, or None."""

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    validator: Validator | None = None
    inert: bool = False
    # Kafka hides these unless they are set.
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """Passwords are never shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        return render(self.default)

    def parse(self, text: str) -> ConfigValue:
        """The value of the text. Raises InvalidValueError."""
        value = parse(self.type, self.name, text)
        if self.validator is None:
            return value
        self.validator.check(self.name, value)
        if isinstance(self.validator, ListOf) and isinstance(value, tuple):
            return tuple(dict.fromkeys(value))  # duplicates are dropped (KIP-1161)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A broker config that is the default of a topic config, possibly in another unit."""

    name: str
    factor: int = 1

    def convert(self, text: str) -> str:
        """The text in the topic config's unit; unchanged if the units are the same."""
        return text if self.factor == 1 else str(int(text) * self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Config):
    """A config of topics. `field` is the field of LogConfig that it sets; "" if it is inert."""

    synonyms: tuple[Synonym, ...] = ()
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Config):
    """A config of the broker. `dynamic`: can be altered at run time."""

    dynamic: bool = False
