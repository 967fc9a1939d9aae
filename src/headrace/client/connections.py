"""Opens librdkafka's clients. All of their common configuration is here.

Invariants: no client creates a topic by asking for it; none prints to the terminal, since every failure is
raised, reported or logged by the caller; each finds a restarted broker within about a second.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

_log = logging.getLogger(__name__)

ErrorListener = Callable[[KafkaError], None]

_CRITICAL: Final = 2
_RECONNECT_MS: Final = 1_000
_NEW_TOPICS_MS: Final = 2_000
_SESSION_MS: Final = 10_000


def open_admin(bootstrap: str, *, most_reconnect_ms: int = _RECONNECT_MS) -> AdminClient:
    """Tries to reconnect with pauses that grow to `most_reconnect_ms`."""
    return AdminClient(_common(bootstrap) | {"reconnect.backoff.max.ms": most_reconnect_ms}, logger=_log)


def open_consumer(
    bootstrap: str,
    *,
    fetch_wait_ms: int,
    on_error: ErrorListener | None = None,
    only_committed: bool = True,
) -> Consumer:
    """A consumer for partitions assigned by hand. It joins no group and commits nothing.

    The broker holds a fetch for at most `fetch_wait_ms` while there is nothing to read. `on_error` is called
    inside a poll when a connection is lost; librdkafka reconnects by itself. Unless `only_committed`, it also
    reads records of transactions that are open or were aborted, and whatever lies behind an open one.
    """
    configuration = _common(bootstrap) | {
        # Required by the client. Without subscriptions and commits no such group comes into being.
        "group.id": f"headrace-reader-{uuid.uuid4()}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
        "isolation.level": "read_committed" if only_committed else "read_uncommitted",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": fetch_wait_ms,
        "fetch.error.backoff.ms": 100,
        "queued.max.messages.kbytes": 16_384,
    }
    if on_error is not None:
        configuration["error_cb"] = on_error
    return Consumer(configuration, logger=_log)


def open_member(bootstrap: str, group: str, *, more: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer that joins a group and commits only what it is told to. `more` adds to the configuration."""
    configuration = _common(bootstrap) | {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "queued.max.messages.kbytes": 16_384,
        # A member that was killed keeps its partitions for so long.
        "session.timeout.ms": _SESSION_MS,
        # How soon a topic that is created later is found.
        "topic.metadata.refresh.interval.ms": _NEW_TOPICS_MS,
    }
    return Consumer(configuration | dict(more or {}), logger=_log)


def open_producer(
    bootstrap: str,
    *,
    timeout_seconds: float,
    more: Mapping[str, Any] | None = None,
    on_error: ErrorListener | None = None,
    logger: logging.Logger = _log,
) -> Producer:
    """A producer whose records are acknowledged by all replicas, and written once even if sent again.

    A record that is not acknowledged within `timeout_seconds` fails. `more` adds to the configuration.
    """
    configuration = _common(bootstrap) | {
        "acks": "all",
        "enable.idempotence": True,
        # A lone record does not wait for company; batches fill while the previous one is on its way.
        "linger.ms": 0,
        # As Java's clients do: a key goes to the same partition, whoever writes it.
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "delivery.timeout.ms": int(timeout_seconds * 1000),
    }
    if on_error is not None:
        configuration["error_cb"] = on_error
    return Producer(configuration | dict(more or {}), logger=logger)


def refused_settings(client: str, more: Mapping[str, Any]) -> str:
    """Why a `consumer` or `producer` with these settings cannot be opened; empty if it can.

    Opens one that connects nowhere.
    """
    try:
        if client == "consumer":
            open_member("", "none", more=more).close()
        else:
            open_producer("", timeout_seconds=_SESSION_MS / 1000, more=more)
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    return ""


def _common(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": _RECONNECT_MS,
        # While the log is away a client complains at every attempt.
        "log_level": _CRITICAL,
    }
