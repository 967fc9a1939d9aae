"""Waits until a Kafka cluster is really serving: its brokers answer and know each other.

An Apache Kafka broker answers metadata requests only after the active controller has registered and admitted
it, so an answer means that it would accept a write. Never changes anything in the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from headrace.client.connections import open_admin
from headrace.client.errors import log_unavailable

_PAUSE_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 2.0
# Refused connections are what this waits through.
_RECONNECT_MS: Final = 100


def wait_until_serving(
    bootstrap: str, *, brokers: int, deadline: float, between: Callable[[], None] = lambda: None
) -> None:
    """Return when the cluster answers with so many brokers; raise log_unavailable at the deadline.

    The deadline is on the monotonic clock. `between` is called before each attempt and may raise to give up
    early.
    """
    admin = open_admin(bootstrap, most_reconnect_ms=_RECONNECT_MS)
    seen = "it did not answer"
    while True:
        between()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise log_unavailable(bootstrap, "serve requests", seen)
        try:
            metadata = admin.list_topics(timeout=min(_ANSWER_SECONDS, remaining))
        except KafkaException as error:
            seen = error.args[0].str()
            continue
        if len(metadata.brokers) >= brokers:
            return
        seen = f"{len(metadata.brokers)} of {brokers} brokers have joined"
        time.sleep(_PAUSE_SECONDS)
