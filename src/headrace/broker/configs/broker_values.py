"""The broker configs in force. In order of precedence, they were set for this node at run time, for all
nodes, or at the start, or they are Kafka's defaults.

Invariants: immutable; a change makes a new object, which can be checked before it takes effect. A config
hides its relatives in other units (`log.retention.ms` hides `log.retention.hours`) in sources of lower rank,
as in Apache Kafka's DynamicBrokerConfig. Never persists anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import dropwhile
from typing import Any, Final

from headrace.broker.configs.broker_table import BROKER_CONFIGS, family
from headrace.broker.configs.definition import Config, TopicConfig
from headrace.broker.configs.entries import SynonymValue
from headrace.broker.configs.topic_table import TOPIC_CONFIGS
from headrace.broker.configs.values import ConfigSource, ConfigValue, InvalidValueError
from headrace.log.config import LogConfig

# Checked together, because they may be set in different sources. The messages are Kafka's.
_AT_LEAST: Final = (("log.roll.ms", 1), ("log.roll.jitter.ms", 0))
_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ASSIGNMENT_INTERVAL: Final = "group.consumer.assignment.interval.ms"


@dataclass(frozen=True, kw_only=True)
class BrokerValues:
    """The texts in each of the three sources, by name."""

    static: Mapping[str, str]
    of_all_nodes: Mapping[str, str]
    of_this_node: Mapping[str, str]

    @property
    def sources(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        return (
            (ConfigSource.DYNAMIC_BROKER, self.of_this_node),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.of_all_nodes),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    def altered(self, texts: Mapping[str, str], *, of_this_node: bool) -> BrokerValues:
        """A copy with these texts in place of all texts of the source."""
        if of_this_node:
            return replace(self, of_this_node=texts)
        return replace(self, of_all_nodes=texts)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts in force, by name, with stronger sources over weaker ones."""
        result: dict[str, str] = {}
        for _source, texts in reversed(self.sources):
            for name, text in texts.items():
                for relative in family(name):
                    result.pop(relative, None)
                result[name] = text
        return result

    def value(self, name: str) -> ConfigValue:
        """The value in force. Raises KeyError for a config that the table does not have."""
        if name not in self._parsed:
            config = BROKER_CONFIGS[name]
            text = self.texts.get(name)
            self._parsed[name] = config.default if text is None else config.parse(text)
        return self._parsed[name]

    @cached_property
    def _parsed(self) -> dict[str, ConfigValue]:
        """Cached values: some are read with every request."""
        return {}

    def synonyms(self, name: str) -> tuple[SynonymValue, ...]:
        """All sources of this config, from the strongest to the weakest."""
        found = [
            SynonymValue(name=relative, value=texts[relative], source=source)
            for source, texts in self.sources
            for relative in family(name)
            if relative in texts
        ]
        for relative in family(name):
            config = BROKER_CONFIGS.get(relative)
            if config is not None and config.default is not None:
                found.append(
                    SynonymValue(name=relative, value=config.default_text, source=ConfigSource.DEFAULT)
                )
        # As in Kafka: synonyms before the config's own name do not apply to it.
        kept = tuple(dropwhile(lambda each: each.name != name, found))
        if is_sensitive(BROKER_CONFIGS.get(name)):
            return tuple(replace(each, value=None) for each in kept)
        return kept

    def topic_default(self, config: TopicConfig) -> ConfigValue:
        """The default for topics without their own value."""
        for synonym in config.synonyms:
            value = self.value(synonym.name)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                value *= synonym.factor
                if config.name == "retention.ms":
                    return max(value, -1)  # the broker's config may be any negative number, a topic's only -1
            return value
        return config.default

    @cached_property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        return {name: self.topic_default(config) for name, config in TOPIC_CONFIGS.items()}

    @cached_property
    def _without_overrides(self) -> LogConfig:
        return LogConfig(**dict(_fields(self.topic_defaults)))

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of a topic's logs. Raises InvalidValueError if the overrides are invalid."""
        if not overrides:
            return self._without_overrides
        own = {name: TOPIC_CONFIGS[name].parse(text) for name, text in overrides.items()}
        return replace(self._without_overrides, **dict(_fields(own)))

    def check(self) -> None:
        """Check that the values fit together. Raises InvalidValueError."""
        for name, least in _AT_LEAST:
            value = self.value(name)
            if isinstance(value, int) and value < least:
                raise InvalidValueError(
                    f"requirement failed: {name} must be greater than or equal to {least}"
                )
        retention = next((each for name in _RETENTION if (each := self.value(name)) is not None), None)
        if retention == 0:
            raise InvalidValueError(
                "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
            )
        interval = self._whole_number(_ASSIGNMENT_INTERVAL)
        for bound, words, fits in (
            ("group.consumer.max.assignment.interval.ms", "less", interval.__le__),
            ("group.consumer.min.assignment.interval.ms", "greater", interval.__ge__),
        ):
            if not fits(self._whole_number(bound)):
                raise InvalidValueError(f"{_ASSIGNMENT_INTERVAL} must be {words} than or equal to {bound}")

    def _whole_number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value


def is_sensitive(config: Config | None) -> bool:
    """Unknown configs might be secrets: Kafka hides their values."""
    return config is None or config.sensitive


def _fields(values: Mapping[str, ConfigValue]) -> Iterator[tuple[str, Any]]:
    """As fields of LogConfig. internal.segment.bytes is last in the table, so it wins if it is set."""
    for name, config in TOPIC_CONFIGS.items():
        value = values.get(name)
        if not config.field or value is None:
            continue
        yield config.field, frozenset(value) if isinstance(value, tuple) else value
