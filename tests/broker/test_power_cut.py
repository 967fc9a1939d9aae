"""The power of the machine is cut under a broker that does not sync: its offsets are never used again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker.broker_process import PowerCutBroker

TOPIC = "events"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PowerCutBroker]:
    process = PowerCutBroker(tmp_path / "data")
    process.start()
    yield process
    process.end()


def produce(bootstrap: str, *values: str, key: str | None = None) -> list[int]:
    """The offsets at which the broker acknowledged the values."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 30_000})
    offsets: list[int] = []
    for value in values:
        producer.produce(
            TOPIC, value, key, partition=0, on_delivery=lambda _, message: offsets.append(message.offset())
        )
    assert producer.flush(30) == 0
    assert len(offsets) == len(values)
    return offsets


def end_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[1]
    finally:
        consumer.close()


def test_offsets_that_were_acknowledged_are_not_used_again(broker: PowerCutBroker) -> None:
    lost = produce(broker.bootstrap, *(f"lost {number}" for number in range(40)))
    broker.cut_power()
    broker.start()
    assert end_offset(broker.bootstrap) > max(lost)
    kept = produce(broker.bootstrap, "kept")
    assert min(kept) > max(lost)


def test_a_killed_broker_leaves_no_hole(broker: PowerCutBroker) -> None:
    assert produce(broker.bootstrap, "first", "second") == [0, 1]
    broker.kill()
    broker.start()
    assert end_offset(broker.bootstrap) == 2
    assert produce(broker.bootstrap, "third") == [2]
