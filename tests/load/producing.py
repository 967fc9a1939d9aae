"""A producer without transactions, idempotent or plain: numbered values to partitions at random."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.testing.history import (
    ProducerStarted,
    SendAcknowledged,
    SendInvoked,
    SendRefused,
    SendUnknown,
    partition_name,
)
from tests.load.client import PATIENCE_SECONDS, GaveUp, Life, error_of, main

BURST = 300


def run(life: Life) -> None:
    plan, random = life.plan, life.random
    life.history.write(ProducerStarted(client=plan.name, idempotent=plan.idempotent))
    producer = Producer(
        life.settings(
            enable_idempotence=plan.idempotent,
            acks="all",
            linger_ms=random.choice([0, 5, 20]),
            compression_type=random.choice(["none", "lz4", "zstd"]),
            batch_size=random.choice([2_000, 100_000]),
            delivery_timeout_ms=int(1000 * PATIENCE_SECONDS),
        )
    )
    number = 0
    due = time.monotonic()
    while life.goes_on():
        count = BURST if random.random() < 0.01 else random.randint(1, 10)
        due = max(due, time.monotonic() - 1.0) + count / plan.rate
        for _ in range(count):
            number += 1
            send(life, producer, f"{plan.name}:{number}")
        while life.goes_on() and (left := due - time.monotonic()) > 0:
            producer.poll(min(left, 0.1))
    if producer.flush(PATIENCE_SECONDS):
        raise GaveUp("sends were not answered although the broker is there")


def send(life: Life, producer: Any, value: str, transaction: str | None = None) -> None:
    """One record to a partition at random; its answer comes to `answered` in some later call of the
    producer."""
    plan, history = life.plan, life.history
    number = life.random.randrange(plan.partitions)
    partition = partition_name(plan.topic, number)

    def answered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            # Also what was purged from the queue may have been sent before and wait there to be repeated.
            history.write(SendUnknown(client=plan.name, value=value, error=error.str()))
            return
        offset = message.offset()
        history.write(
            SendAcknowledged(
                client=plan.name, value=value, partition=partition, offset=offset if offset >= 0 else None
            )
        )

    history.write(SendInvoked(client=plan.name, value=value, partition=partition, transaction=transaction))
    try:
        producer.produce(plan.topic, value, partition=number, on_delivery=answered)
    except BufferError:
        history.write(SendRefused(client=plan.name, value=value, error="the queue is full"))
        producer.poll(0.1)
    except KafkaException as exception:
        # It never got into the queue: the producer has failed before.
        history.write(SendRefused(client=plan.name, value=value, error=error_of(exception).str()))
        raise


if __name__ == "__main__":
    main(run)
