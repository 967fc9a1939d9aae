"""Clients (librdkafka) that start before the broker and try to reach it every few milliseconds."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from side_by_side.engines import Broker

PATIENCE: Final = 180.0


def settings(broker: Broker) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        # librdkafka itself waits 11 ms between two attempts.
        "reconnect.backoff.ms": 2,
        "reconnect.backoff.max.ms": 5,
        "topic.metadata.refresh.fast.interval.ms": 5,
        "retry.backoff.ms": 5,
        "retry.backoff.max.ms": 10,
        "socket.connection.setup.timeout.ms": 1000,
        # These clients expect refused connections.
        "log_level": 0,
        "error_cb": lambda _: None,
    }


class WaitingProducer:
    """Has a record to send before the broker is up."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._failure: object = None
        self._acknowledged_at = 0.0
        self._producer = Producer({**settings(broker), "acks": "all", "linger.ms": 0})
        self._producer.produce(topic, b"first", on_delivery=self._delivered)

    def acknowledged_at(self) -> float:
        """Wait until it is acknowledged; returns when."""
        deadline = time.monotonic() + PATIENCE
        while not self._acknowledged_at:
            self._producer.poll(0.1)
            if self._failure is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the first record was not acknowledged: {self._failure}")
        return self._acknowledged_at

    def _delivered(self, error: object, _: Message) -> None:
        self._failure = error
        if error is None:
            self._acknowledged_at = time.monotonic()


class WaitingConsumer:
    """Wants the record at an offset before the broker is up."""

    def __init__(self, broker: Broker, topic: str, offset: int) -> None:
        self._offset = offset
        self._consumer = Consumer(
            {
                **settings(broker),
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, offset)])

    def received_at(self) -> float:
        """Wait until it has arrived; returns when."""
        try:
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                message = self._consumer.poll(0.1)
                now = time.monotonic()
                if message is None:
                    continue
                if message.error() is not None or message.offset() != self._offset:
                    raise RuntimeError(f"offset {self._offset}: {message.error()}, {message.offset()}")
                return now
            raise RuntimeError(f"the record at offset {self._offset} did not arrive")
        finally:
            self._consumer.close()
