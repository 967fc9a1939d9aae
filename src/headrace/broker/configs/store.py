"""The configs of the broker and its topics: reading, describing, checking and altering them.

The data folder stores the configs that were set; this class interprets them. A broker config that is the
default of a topic config affects all topics without their own value at once.

Invariants: only checked values are stored; a change is on disk before it takes effect; refusals are ApiErrors
with Kafka's code and message. Runs on the broker's event loop. Never touches files itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from headrace.broker.configs import operations
from headrace.broker.configs.broker_table import BROKER_CONFIGS, left_out_because
from headrace.broker.configs.broker_values import BrokerValues, is_sensitive
from headrace.broker.configs.definition import TopicConfig
from headrace.broker.configs.entries import ConfigEntry, SynonymValue
from headrace.broker.configs.operations import NotAListError, Operation
from headrace.broker.configs.static_values import identity, static_values
from headrace.broker.configs.topic_table import TOPIC_CONFIGS
from headrace.broker.configs.topic_values import check_topic
from headrace.broker.configs.values import ConfigSource, ConfigType, ConfigValue, InvalidValueError, render
from headrace.broker.errors import ApiError
from headrace.broker.settings import BrokerSettings
from headrace.core.errors import HeadraceError
from headrace.log.config import LogConfig

# The data folder stores one table of broker configs; these prefixes distinguish the two sources.
_ALL_NODES: Final = "all nodes/"
_THIS_NODE: Final = "this node/"


class OpenLog(Protocol):
    def expire_producers_after(self, milliseconds: int) -> None: ...
    def configure(self, config: LogConfig, /) -> None: ...


class OpenTopic(Protocol):
    @property
    def overrides(self) -> Mapping[str, str]: ...
    @property
    def partitions(self) -> Sequence[OpenLog]: ...


class Logs(Protocol):
    """The part of the data folder that is needed here."""

    @property
    def topics(self) -> Mapping[str, OpenTopic]: ...
    @property
    def broker_overrides(self) -> Mapping[str, str]: ...
    def set_broker_overrides(self, overrides: dict[str, str], /) -> None: ...
    def set_overrides(self, name: str, overrides: dict[str, str], config: LogConfig, /) -> None: ...


class ConfigStore:
    """All configs of one broker."""

    def __init__(self, settings: BrokerSettings, logs: Logs) -> None:
        """Raises HeadraceError if the settings contain an invalid config."""
        self._settings: Final = settings
        self._logs: Final = logs
        kept = logs.broker_overrides
        self._values = BrokerValues(
            static=_checked_static(settings),
            of_all_nodes=_with_prefix(kept, _ALL_NODES),
            of_this_node=_with_prefix(kept, _THIS_NODE),
        )
        if kept:  # the logs were opened with the configs of the start only
            self._configure_topics()
        else:
            for topic in logs.topics.values():
                self.adopt(topic)

    def announce(self, port: int) -> None:
        """Show this port in the listeners. Called when the broker listens, because port 0 chooses any."""
        static = {**self._values.static, **identity(self._settings, port)}
        self._values = BrokerValues(
            static=static, of_all_nodes=self._values.of_all_nodes, of_this_node=self._values.of_this_node
        )

    # Reading

    def broker(self, name: str) -> ConfigValue:
        """A broker config in force. Raises KeyError for an unknown one."""
        return self._values.value(name)

    def number(self, name: str) -> int:
        value = self._values.value(name)
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        value = self._values.value(name)
        assert isinstance(value, bool), name
        return value

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of the logs of a topic with these checked overrides."""
        return self._values.log_config(overrides)

    def adopt(self, topic: OpenTopic) -> None:
        """Set what is not a config of topics on the logs of a topic, which may be new."""
        expiration_ms = self.number("producer.id.expiration.ms")
        for log in topic.partitions:
            log.expire_producers_after(expiration_ms)

    # Describing

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[ConfigEntry]:
        """All configs of a topic with these overrides, or the named ones."""
        return [
            self._topic_entry(config, overrides)
            for name, config in TOPIC_CONFIGS.items()
            if (not names or name in names) and (not config.internal or name in overrides)
        ]

    def describe_new_topic(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """The configs for the answer to CreateTopics (KIP-525): sorted, with the texts as sent."""
        entries = []
        for name, config in sorted(TOPIC_CONFIGS.items()):
            if config.internal and name not in overrides:
                continue
            value, source = self._origin(config, overrides)
            entries.append(ConfigEntry(name=name, value=value, source=source, type=config.type))
        return entries

    def describe_broker(self, names: Collection[str] | None = None) -> list[ConfigEntry]:
        """All configs of this node, or the named ones."""
        known = sorted({*BROKER_CONFIGS, *self._values.texts})
        return [
            self._broker_entry(name, self._values.synonyms(name))
            for name in known
            if not names or name in names
        ]

    def describe_all_nodes(self, names: Collection[str] | None = None) -> list[ConfigEntry]:
        """Only the configs that were set for all nodes."""
        entries = []
        for name, text in sorted(self._values.of_all_nodes.items()):
            if names and name not in names:
                continue
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            synonyms = [each for each in self._values.synonyms(name) if each.source is source]
            entries.append(self._broker_entry(name, tuple(synonyms), text))
        return entries

    def describe_group(self, names: Collection[str] | None = None) -> list[ConfigEntry]:
        """The configs of a group, which are those of this node: no group has its own."""
        return [
            replace(self._broker_entry(of_node, self._values.synonyms(of_node)), name=name, read_only=True)
            for name, of_node in _GROUP_CONFIGS.items()
            if not names or name in names
        ]

    # Altering

    def check_topic(self, overrides: Mapping[str, str]) -> None:
        """Check the overrides of a topic. Raises ApiError (INVALID_CONFIG)."""
        try:
            check_topic(overrides, self._values)
        except InvalidValueError as error:
            raise ApiError(ErrorCode.invalid_config, str(error)) from error

    def altered_topic(self, overrides: Mapping[str, str], changes: Sequence[Operation]) -> dict[str, str]:
        """The overrides after the operations, checked. Raises ApiError."""
        try:
            altered = operations.apply(changes, overrides, TOPIC_CONFIGS)
        except NotAListError as error:
            kind, name = error.operation.kind.name, error.operation.name
            message = f"Can't {kind} to key {name} because its type is not LIST."
            raise ApiError(ErrorCode.invalid_config, message) from error
        self.check_topic(altered)
        return altered

    def set_topic(self, name: str, overrides: Mapping[str, str]) -> None:
        """Replace all overrides of a topic by these checked ones. Raises LogError."""
        self._logs.set_overrides(name, dict(overrides), self.log_config(overrides))

    def altered_broker(self, changes: Sequence[Operation], *, of_this_node: bool) -> dict[str, str]:
        """The configs of this node, or of all nodes, after the operations, checked. Raises ApiError."""
        texts = self._values.of_this_node if of_this_node else self._values.of_all_nodes
        try:
            altered = operations.apply(changes, texts, BROKER_CONFIGS)
        except NotAListError as error:
            name = error.operation.name
            message = f"Unknown config name: {name}"
            if name in BROKER_CONFIGS:
                kind = error.operation.kind.name.lower()
                message = f"Config value {kind} is not allowed for config key: {name}"
            raise ApiError(ErrorCode.invalid_config, message) from error
        self.check_broker(altered, of_this_node=of_this_node)
        return altered

    def check_broker(self, texts: Mapping[str, str], *, of_this_node: bool) -> None:
        """Check configs of this node, or of all nodes. Raises ApiError (INVALID_REQUEST, as in Kafka)."""
        try:
            _check_dynamic(texts)
            for name, text in texts.items():
                if name in BROKER_CONFIGS:
                    BROKER_CONFIGS[name].parse(text)
            self._values.altered(texts, of_this_node=of_this_node).check()
        except InvalidValueError as error:
            raise ApiError(ErrorCode.invalid_request, str(error)) from error

    def set_broker(self, texts: Mapping[str, str], *, of_this_node: bool) -> None:
        """Replace all configs of this node, or of all nodes, by these checked ones. Raises LogError."""
        values = self._values.altered(dict(texts), of_this_node=of_this_node)
        kept = {_ALL_NODES + name: text for name, text in values.of_all_nodes.items()}
        kept |= {_THIS_NODE + name: text for name, text in values.of_this_node.items()}
        self._logs.set_broker_overrides(kept)
        self._values = values
        self._configure_topics()

    # Internals

    def _configure_topics(self) -> None:
        for topic in self._logs.topics.values():
            config = self.log_config(topic.overrides)
            for log in topic.partitions:
                log.configure(config)
            self.adopt(topic)

    def _topic_entry(self, config: TopicConfig, overrides: Mapping[str, str]) -> ConfigEntry:
        synonyms: tuple[SynonymValue, ...] = ()
        if config.synonyms:
            synonyms = self._values.synonyms(config.synonyms[0].name)
        value = render(self._values.topic_defaults[config.name])
        if config.name in overrides:
            value = render(config.parse(overrides[config.name]))
            own = SynonymValue(name=config.name, value=value, source=ConfigSource.DYNAMIC_TOPIC)
            synonyms = (own, *synonyms)
        return ConfigEntry(
            name=config.name,
            value=value,
            source=_source(synonyms),
            type=config.type,
            synonyms=synonyms,
            documentation=config.documentation,
        )

    def _origin(self, config: TopicConfig, overrides: Mapping[str, str]) -> tuple[str | None, ConfigSource]:
        if config.name in overrides:
            return overrides[config.name], ConfigSource.DYNAMIC_TOPIC
        for source, texts in self._values.sources:
            for synonym in config.synonyms:
                if synonym.name in texts:
                    return synonym.convert(texts[synonym.name]), source
        return config.default_text, ConfigSource.DEFAULT

    def _broker_entry(
        self, name: str, synonyms: tuple[SynonymValue, ...], text: str | None = None
    ) -> ConfigEntry:
        config = BROKER_CONFIGS.get(name)
        if config is None:  # unknown, but stored as in Kafka
            return ConfigEntry(
                name=name,
                value=None,
                source=_source(synonyms),
                type=ConfigType.UNKNOWN,
                read_only=True,
                sensitive=True,
                synonyms=synonyms,
            )
        value = render(self._values.value(name)) if text is None else text
        sensitive = is_sensitive(config)
        return ConfigEntry(
            name=name,
            value=None if sensitive else value,
            source=_source(synonyms),
            type=config.type,
            read_only=not config.dynamic,
            sensitive=sensitive,
            synonyms=synonyms,
            documentation=config.documentation,
        )


_GROUP_CONFIGS: Final = {
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
}


def static_log_config(settings: BrokerSettings) -> Callable[[Mapping[str, str]], LogConfig]:
    """The settings of logs by their topic's overrides, as far as they are known before the data folder is
    open; a ConfigStore on that folder then adds what the broker was told while it ran. Raises HeadraceError.
    """
    values = BrokerValues(static=_checked_static(settings), of_all_nodes={}, of_this_node={})
    return values.log_config


def _checked_static(settings: BrokerSettings) -> dict[str, str]:
    static = static_values(settings, settings.port)
    try:
        BrokerValues(static=static, of_all_nodes={}, of_this_node={}).check()
    except InvalidValueError as error:
        raise HeadraceError("invalid_setting", str(error), remedy="Set it to a valid value.") from error
    return static


def _check_dynamic(texts: Mapping[str, str]) -> None:
    fixed = sorted(name for name in texts if name in BROKER_CONFIGS and not BROKER_CONFIGS[name].dynamic)
    reasons = {name: reason for name in texts if (reason := left_out_because(name)) is not None}
    if not fixed and not reasons:
        return
    message = f"Cannot update these configs dynamically: [{', '.join(sorted([*fixed, *reasons]))}]"
    for reason in dict.fromkeys(reasons.values()):
        message = f"{message.removesuffix('.')}. {reason}"
    raise InvalidValueError(message)


def _with_prefix(kept: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in kept.items() if name.startswith(prefix)}


def _source(synonyms: Sequence[SynonymValue]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT
