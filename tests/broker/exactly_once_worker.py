"""A client that copies the topic `input` to `output` in transactions, until somebody kills it.

Each record is copied to the partition of its own number, with its place in front of its value, and the offset
behind it is committed in the same transaction. Now and then one is aborted on purpose; what it wrote
says so. An error that ends the producer ends the process: whoever started it starts it again.

    python -m tests.broker.exactly_once_worker <bootstrap> <number of the worker> <seed>
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

INPUT, OUTPUT, GROUP = "input", "output", "copies"
ABORTED: Final = b"aborted on purpose:"
TIMEOUT_MS: Final = 6_000
SECONDS: Final = 30.0
QUICK: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    # librdkafka 2.16 may wait for a handle that it has given up, when it looks for brokers all over again.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class _MustAbortError(Exception):
    pass


def _done(call: Callable[[], Any]) -> None:
    """Repeat what may be repeated. Raises _MustAbortError, KafkaException."""
    while True:
        try:
            call()
        except KafkaException as failed:
            error = failed.args[0]
            if error.txn_requires_abort():
                raise _MustAbortError from failed
            if not error.retriable():
                raise
        else:
            return


class Worker:
    def __init__(self, bootstrap: str, number: int, seed: int) -> None:
        self._chance = random.Random(seed)
        common = {"bootstrap.servers": bootstrap} | QUICK
        # Before the consumer asks for offsets: what an earlier life has left open is aborted by this.
        self._producer = Producer(
            common
            | {
                "transactional.id": f"copy-{number}",
                "transaction.timeout.ms": TIMEOUT_MS,
                "message.timeout.ms": TIMEOUT_MS,
                "linger.ms": 1,
            }
        )
        _done(lambda: self._producer.init_transactions(SECONDS))
        self._consumer = Consumer(
            common
            | {
                "group.id": GROUP,
                # A member that is killed comes back as itself, without waiting for its session to end.
                "group.instance.id": f"copy-{number}",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.subscribe([INPUT])

    def run(self) -> None:
        while True:
            messages = self._consumer.consume(self._chance.randint(1, 30), 0.1)
            messages = [each for each in messages if each.error() is None]
            if messages:
                self._copy(messages)

    def _copy(self, messages: list[Any]) -> None:
        on_purpose = self._chance.random() < 0.15
        self._producer.begin_transaction()
        try:
            for each in messages:
                place = b"%d:%d:" % (each.partition(), each.offset())
                mark = ABORTED if on_purpose else b""
                self._producer.produce(OUTPUT, mark + place + each.value(), partition=each.partition())
            behind = {each.partition(): each.offset() + 1 for each in messages}
            offsets = [TopicPartition(INPUT, partition, offset) for partition, offset in behind.items()]
            group = self._consumer.consumer_group_metadata()
            _done(lambda: self._producer.send_offsets_to_transaction(offsets, group, SECONDS))
            if on_purpose:
                self._producer.flush(SECONDS)
                raise _MustAbortError
            _done(lambda: self._producer.commit_transaction(SECONDS))
        except _MustAbortError:
            _done(lambda: self._producer.abort_transaction(SECONDS))
            self._go_back()

    def _go_back(self) -> None:
        """Read on from what was committed: what was read since then was not copied."""
        committed = self._consumer.committed(self._consumer.assignment(), SECONDS)
        self._consumer.assign(
            [TopicPartition(each.topic, each.partition, max(0, each.offset)) for each in committed]
        )


if __name__ == "__main__":
    Worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).run()
