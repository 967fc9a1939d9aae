"""SIGKILL at random moments under load: everything acknowledged is there, in order, once, at its offset.

Idempotent producers of librdkafka write numbered records to several partitions while the broker is killed and
started again on the same folder. They retry by themselves, so duplicates would come from the broker alone.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.broker_process import BrokerProcess
from tests.broker.compacted_topics import wait_for
from tests.ports import free_port

PARTITIONS = 3
TOPIC = "numbers"


class NumberedProducer:
    """Sends 0, 1, 2 … to one partition in a thread of its own; remembers what was acknowledged where."""

    def __init__(self, bootstrap: str, name: str, partition: int, linger_ms: int) -> None:
        self.name = name
        self.partition = partition
        self.acknowledged: dict[int, int] = {}
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "delivery.timeout.ms": 120_000,
                "queue.buffering.max.messages": 5_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        if left := self._producer.flush(120):
            self.failures.append(f"{left} records were never answered")

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    TOPIC, f"{self.name}:{number}", partition=self.partition, on_delivery=self._delivered
                )
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            if number % 50 == 0:
                self._producer.poll(0.005)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failures.append(error.str())
        else:
            self.acknowledged[int(message.value().split(b":")[1])] = message.offset()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(120)


def read_all(bootstrap: str) -> dict[int, list[tuple[int, str, int]]]:
    """Per partition: offset, producer and number of every record, in the order of the log."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    at_end: set[int] = set()
    deadline = time.monotonic() + 120
    while len(at_end) < PARTITIONS:
        assert time.monotonic() < deadline, "the log cannot be read to its end"
        for message in consumer.consume(5_000, 0.5):
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error().str()
                at_end.add(message.partition())
                continue
            name, number = message.value().decode().split(":")
            found[message.partition()].append((message.offset(), name, int(number)))
    consumer.close()
    return found


def check(found: dict[int, list[tuple[int, str, int]]], producers: list[NumberedProducer]) -> None:
    for partition, records in found.items():
        offsets = [offset for offset, _name, _number in records]
        assert offsets == list(range(len(offsets))), f"offsets of partition {partition} have gaps"
    for producer in producers:
        assert producer.failures == []
        mine = [
            (number, offset) for offset, name, number in found[producer.partition] if name == producer.name
        ]
        numbers = [number for number, _offset in mine]
        assert numbers == list(range(len(numbers))), f"{producer.name}: lost, doubled or out of order"
        places = dict(mine)
        for number, offset in producer.acknowledged.items():
            assert places.get(number) == offset, f"{producer.name}: {number} was acknowledged at {offset}"


def run_rounds(folder: Path, rounds: int, *, fsync: str, seed: int, fewest: int) -> None:
    """The last kill comes when so many records have been acknowledged: else the rounds would show nothing."""
    chance = random.Random(seed)
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    # Small segments, so that kills meet rolls, indexes and snapshots too.
    arguments = ["--fsync", fsync, "--set", "log.segment.bytes=1048576"]
    broker = BrokerProcess(folder, port, arguments)
    producers: list[NumberedProducer] = []
    try:
        broker.start()
        create_topic(bootstrap)
        for index in range(2 * PARTITIONS):
            linger = 0 if index % 2 else 5
            producers.append(NumberedProducer(bootstrap, f"p{index}", index % PARTITIONS, linger))
        for left in reversed(range(rounds)):
            time.sleep(chance.uniform(0.05, 0.8))
            if not left:
                wait_for(
                    lambda: sum(len(producer.acknowledged) for producer in producers) > fewest,
                    f"more than {fewest} records are acknowledged",
                )
            broker.kill()
            broker.start()
        for producer in producers:
            producer.finish()
        check(read_all(bootstrap), producers)
        # What the log says must not depend on the process that says it.
        broker.kill()
        broker.start()
        check(read_all(bootstrap), producers)
        broker.stop()
        broker.start()
        check(read_all(bootstrap), producers)
    finally:
        for producer in producers:
            producer.finish()
        broker.end()


@pytest.mark.parametrize("fsync", ["os", "always"])
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path, fsync: str) -> None:
    run_rounds(tmp_path, 4, fsync=fsync, seed=random.randrange(2**32), fewest=1_000)


@pytest.mark.long
@pytest.mark.parametrize("fsync", ["os", "interval", "always"])
def test_nothing_acknowledged_is_lost_in_fifty_rounds(tmp_path: Path, fsync: str) -> None:
    run_rounds(tmp_path, 50, fsync=fsync, seed=random.randrange(2**32), fewest=10_000)


def test_a_broker_that_was_killed_while_it_recovered_recovers(tmp_path: Path) -> None:
    port = free_port()
    broker = BrokerProcess(tmp_path, port, ["--set", "log.segment.bytes=1048576"])
    producers: list[NumberedProducer] = []
    try:
        broker.start()
        create_topic(broker.bootstrap)
        producers = [NumberedProducer(broker.bootstrap, f"p{index}", index, 5) for index in range(PARTITIONS)]
        for attempt in range(6):
            broker.kill()
            broker.spawn()
            time.sleep(0.05 * attempt)
            os.kill(broker.pid, signal.SIGKILL)
            broker.wait()
            broker.start()
        for producer in producers:
            producer.finish()
        check(read_all(broker.bootstrap), producers)
    finally:
        for producer in producers:
            producer.finish()
        broker.end()
