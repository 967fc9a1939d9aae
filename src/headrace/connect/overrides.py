"""Settings of the clients that a connector or a worker may change: `consumer.override.…`, `producer.…`.

Kafka's names are those of Java's clients; librdkafka has most of them under the same name. Those that it does
not have, and those that would lead to another cluster, are refused rather than ignored, and so are values
that librdkafka does not take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.client.connections import refused_settings

# By Kafka's name, the name of librdkafka.
_CONSUMER: Final = {
    name: name
    for name in (
        "auto.offset.reset",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    )
} | {"fetch.max.wait.ms": "fetch.wait.max.ms"}
_PRODUCER: Final = {
    name: name
    for name in ("batch.size", "compression.type", "delivery.timeout.ms", "linger.ms", "request.timeout.ms")
} | {"max.request.size": "message.max.bytes"}
_KNOWN: Final[Mapping[str, Mapping[str, str]]] = {"consumer": _CONSUMER, "producer": _PRODUCER}
# Answered by the worker itself.
MAX_POLL_RECORDS: Final = "max.poll.records"
_STRATEGY: Final = "partition.assignment.strategy"
# By Java's name, the name of librdkafka. Partitions are taken away all at once here, so those that take away
# one by one are not among them.
_STRATEGIES: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "range": "range",
    "roundrobin": "roundrobin",
}
PREFIXES: Final = ("consumer.override.", "producer.override.", "admin.override.")


def overrides(config: Mapping[str, str], client: str, *, infix: str = ".override.") -> dict[str, str]:
    """The settings for librdkafka in a configuration. Settings that are unknown are left out."""
    known, prefix = _KNOWN[client], f"{client}{infix}"
    return {
        known[name.removeprefix(prefix)]: _strategies(value) if name == f"{prefix}{_STRATEGY}" else value
        for name, value in config.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in known
    }


def refused_overrides(config: Mapping[str, str | None]) -> dict[str, str]:
    """Why which of the overrides in a configuration cannot be honoured."""
    refused: dict[str, str] = {}
    for name, value in config.items():
        client, infix, setting = name.partition(".override.")
        if infix and f"{client}{infix}" in PREFIXES:
            known = {*_KNOWN.get(client, {}), *((MAX_POLL_RECORDS,) if client == "consumer" else ())}
            if setting not in known:
                refused[name] = f"The {client} setting {setting} cannot be changed by a connector here"
            elif value is not None and (reason := _wrong_value(setting, value)):
                refused[name] = f"Invalid value {value} for configuration {name}: {reason}"
    given = {name: value for name, value in config.items() if value is not None and name not in refused}
    for client in _KNOWN:
        refused |= _refused_by_client(client, given)
    return refused


def _wrong_value(setting: str, value: str) -> str:
    """Empty if nothing is wrong, as far as it is up to the worker."""
    if setting == MAX_POLL_RECORDS:
        text = value.strip()
        is_number = text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0
        return "" if is_number else "Value must be at least 1"
    if setting == _STRATEGY and not {each.strip() for each in value.split(",")} <= _STRATEGIES.keys():
        return (
            "Only RangeAssignor and RoundRobinAssignor are supported here, which take partitions away all at "
            "once"
        )
    return ""


def _refused_by_client(client: str, given: Mapping[str, str]) -> dict[str, str]:
    """Settings that are refused; all of them are tried together, since some depend on others."""
    together = overrides(given, client)
    reason = refused_settings(client, together) if together else ""
    if not reason:
        return {}
    names = [name for name in given if overrides({name: given[name]}, client)]
    alone = {name: refused_settings(client, overrides({name: given[name]}, client)) for name in names}
    found = {name: why for name, why in alone.items() if why} or {names[0]: reason}
    return {
        name: f"Invalid value {given[name]} for configuration {name}: {why}" for name, why in found.items()
    }


def _strategies(value: str) -> str:
    names = (each.strip() for each in value.split(","))
    return ",".join(_STRATEGIES.get(name, name) for name in names)
