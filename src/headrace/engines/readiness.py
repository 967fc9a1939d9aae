"""Checks that a Kafka cluster is really serving: its brokers answer and know each other.

An Apache Kafka broker answers metadata requests only after the active controller has registered and admitted
it, so an answer means that it would accept a write. Never changes anything in the cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.core.errors import HeadraceError

PAUSE: Final = 0.05
ANSWER_TIMEOUT: Final = 2.0


def wait_until_serving(
    bootstrap: str, *, brokers: int, deadline: float, between: Callable[[], None] = lambda: None
) -> None:
    """Return once the cluster answers with this many brokers; `deadline` is on the monotonic clock.

    `between` is called before each attempt and may raise to give up early. Raises log_unavailable at the
    deadline.
    """
    quiet = logging.getLogger(__name__ + ".client")
    quiet.setLevel(logging.CRITICAL)  # refused connections are expected here
    client = AdminClient(
        {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100},
        logger=quiet,
    )
    seen = "no answer"
    while True:
        between()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise HeadraceError(
                "log_unavailable",
                f"The Kafka cluster at {bootstrap} is not serving: {seen}.",
                remedy="Check that it is running and that the address is correct.",
            )
        try:
            metadata = client.list_topics(timeout=min(ANSWER_TIMEOUT, remaining))
        except KafkaException as error:
            seen = error.args[0].str()
            continue
        if len(metadata.brokers) >= brokers:
            return
        seen = f"{len(metadata.brokers)} of {brokers} brokers have joined"
        time.sleep(PAUSE)
