"""The power of the machine is cut under a broker that does not sync: its offsets are never used again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.cluster import Cluster
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
    assert producer.flush(120) == 0
    assert len(offsets) == len(values)
    return offsets


def end_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=120)[1]
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


def committed(bootstrap: str, offset: int | None = None) -> int:
    """What a group has committed, after it has committed `offset`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "enable.auto.commit": False})
    try:
        if offset is not None:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=120)
        return found.offset
    finally:
        consumer.close()


def transact(bootstrap: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "transactional"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, value, partition=0)
    producer.commit_transaction(30)


def visible(bootstrap: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    try:
        while True:
            message = consumer.poll(120)
            assert message is not None
            error, value = message.error(), message.value()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                return found
            assert value is not None
            found.append(value.decode())
    finally:
        consumer.close()


def test_groups_and_transactions_are_loaded_over_the_hole(broker: PowerCutBroker) -> None:
    """Their internal topics have holes too: first at the end, and then in the middle."""
    produce(broker.bootstrap, "plain")
    transact(broker.bootstrap, "first")
    assert committed(broker.bootstrap, 1) == 1
    broker.stop()
    broker.start()
    transact(broker.bootstrap, "lost")
    assert committed(broker.bootstrap, 2) == 2
    broker.cut_power()
    broker.start()
    assert committed(broker.bootstrap) == 1
    assert visible(broker.bootstrap) == ["plain", "first"]
    transact(broker.bootstrap, "second")
    assert committed(broker.bootstrap, 3) == 3
    broker.kill()
    broker.start()
    assert committed(broker.bootstrap) == 3
    transact(broker.bootstrap, "third")
    assert visible(broker.bootstrap) == ["plain", "first", "second", "third"]


def test_a_compacted_topic_with_a_hole_is_compacted(broker: PowerCutBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": "0",
        "flush.messages": "1",
    }
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(120)
    produce(broker.bootstrap, *(f"{number}" for number in range(10)), key="k")
    broker.cut_power()
    broker.start()
    for number in range(3):
        produce(broker.bootstrap, f"after {number}", key="k")
    deadline = time.monotonic() + 120
    while len(found := visible(broker.bootstrap)) > 2:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    # The last segment is not compacted, so the record before it may still be there.
    assert found[-1] == "after 2"


def test_a_topic_that_gets_flush_messages_1_loses_nothing_from_then_on(broker: PowerCutBroker) -> None:
    """Not even what was written before: the change is answered when that is synced."""
    values = [f"{number}" for number in range(20)]
    produce(broker.bootstrap, *values)
    Cluster(broker.bootstrap).configure_topic(TOPIC, {"flush.messages": "1"})
    broker.cut_power()
    broker.start()
    assert visible(broker.bootstrap) == values


def test_what_a_topic_with_flush_messages_has_answered_survives(broker: PowerCutBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"flush.messages": "1"})])[TOPIC].result(120)
    values = [f"{number}" for number in range(20)]
    produce(broker.bootstrap, *values)
    broker.cut_power()
    broker.start()
    assert visible(broker.bootstrap) == values
