"""The broker configs set at the start: Kafka's `server.properties`, without the file.

Three origins, later ones first: configs given by name, the settings of the broker, and values that suit one
machine better than Kafka's defaults. A setting equal to Kafka's default is left out, so that DescribeConfigs
shows as set only what the user set.

Invariants: every text is valid, otherwise the broker does not start and names the config and the reason. The
identity of the broker and the place of its data come from the settings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.broker.configs.broker_table import BROKER_CONFIGS, left_out_because
from headrace.broker.configs.values import InvalidValueError, render
from headrace.broker.settings import BrokerSettings
from headrace.core.errors import HeadraceError

ONE_MACHINE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "10",
    # On a laptop a consumer is usually alone in its group: waiting for others only delays it.
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    # After a restart hundreds of clients may reconnect at once.
    "socket.listen.backlog.size": "512",
    # -1 lets the operating system size the buffer, which it does better.
    "socket.receive.buffer.bytes": "-1",
}

# The setting to use instead, for the error if one of these configs is given by name.
_IDENTITY: Final[Mapping[str, str]] = {
    "node.id": "node_id",
    "broker.id": "node_id",
    "listeners": "host and port",
    "advertised.listeners": "advertised_host",
    "log.dirs": "data_dir",
    "log.dir": "data_dir",
    "process.roles": "",
}

_SETTINGS: Final[Mapping[str, Callable[[BrokerSettings], bool | int]]] = {
    "num.partitions": lambda settings: settings.default_partitions,
    "auto.create.topics.enable": lambda settings: settings.auto_create_topics,
    "message.max.bytes": lambda settings: settings.max_message_bytes,
    "socket.request.max.bytes": lambda settings: settings.max_request_bytes,
    "connections.max.idle.ms": lambda settings: settings.idle_timeout_ms,
}


def static_values(settings: BrokerSettings, port: int) -> dict[str, str]:
    """The configs set at the start, as text. Raises HeadraceError for an invalid one."""
    values = dict(ONE_MACHINE)
    values |= identity(settings, port)
    for name, of in _SETTINGS.items():
        text = render(of(settings))
        assert text is not None
        if text != BROKER_CONFIGS[name].default_text:
            values[name] = _checked(name, text)
    for name, text in settings.configs.items():
        values[name] = _given_by_name(name, text)
    return values


def identity(settings: BrokerSettings, port: int) -> dict[str, str]:
    advertised = settings.advertised_host or settings.host
    return {
        "node.id": str(settings.node_id),
        "broker.id": str(settings.node_id),
        "listeners": f"PLAINTEXT://{_bracketed(settings.host)}:{port}",
        "advertised.listeners": f"PLAINTEXT://{_bracketed(advertised)}:{port}",
        "log.dirs": str(settings.data_dir),
    }


def _given_by_name(name: str, text: str) -> str:
    if name in _IDENTITY:
        setting = _IDENTITY[name]
        remedy = f"Set {setting} instead." if setting else "Leave it out."
        raise HeadraceError("invalid_setting", f"The config {name} cannot be set by name.", remedy=remedy)
    if name not in BROKER_CONFIGS:
        reason = left_out_because(name) or "Apache Kafka has no such broker config."
        raise HeadraceError(
            "unknown_setting",
            f"The embedded broker has no config {name}: {reason}",
            remedy="Leave it out, or start Apache Kafka with --engine kafka.",
        )
    return _checked(name, text)


def _checked(name: str, text: str) -> str:
    try:
        BROKER_CONFIGS[name].parse(text)
    except InvalidValueError as error:
        raise HeadraceError("invalid_setting", str(error), remedy=f"Set {name} to a valid value.") from error
    return text


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
