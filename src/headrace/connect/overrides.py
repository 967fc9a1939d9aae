"""Settings of the clients that a connector or a worker may change: `consumer.override.…`, `producer.…`.

Kafka's names are those of Java's clients; librdkafka has most of them under the same name. Those that it does
not have, and those that would lead to another cluster, are refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
PREFIXES: Final = ("consumer.override.", "producer.override.", "admin.override.")


def overrides(config: Mapping[str, str], client: str, *, infix: str = ".override.") -> dict[str, str]:
    """The settings for librdkafka in a configuration. Settings that are unknown are left out."""
    known, prefix = _KNOWN[client], f"{client}{infix}"
    return {
        known[name.removeprefix(prefix)]: value
        for name, value in config.items()
        if name.startswith(prefix) and name.removeprefix(prefix) in known
    }


def refused_overrides(config: Mapping[str, str | None]) -> dict[str, str]:
    """Why which of the overrides in a configuration cannot be honoured."""
    refused: dict[str, str] = {}
    for name in config:
        client, infix, setting = name.partition(".override.")
        if infix and f"{client}{infix}" in PREFIXES:
            known = {*_KNOWN.get(client, {}), *((MAX_POLL_RECORDS,) if client == "consumer" else ())}
            if setting not in known:
                refused[name] = f"The {client} setting {setting} cannot be changed by a connector here"
    return refused
