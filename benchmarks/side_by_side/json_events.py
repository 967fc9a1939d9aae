"""Marketplace events as JSON, and topics filled with them before anything is measured."""

from __future__ import annotations

import json
import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from side_by_side.background import Background

PARTITIONS: Final = 4
_DISTINCT: Final = 5000
_WAIT: Final = 60.0
_EVERY: Final = 0.005
TYPES: Final = ("ListingView", "Search", "AddToCart", "Checkout", "Purchase")


def event(number: int) -> bytes:
    """About 190 bytes; each type is a fifth of the events."""
    return json.dumps(
        {
            "Event_Type": TYPES[number % len(TYPES)],
            "Event_Version": "1",
            "User_ID": f"user-{number:08}",
            "Listing_ID": f"listing-{number * 7919 % 100_000:06}",
            "Server_Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_760_000_000 + number)),
            "Device_Type": "web" if number % 3 else "app",
        }
    ).encode()


def stream_of(topic: str) -> str:
    """The statement that creates a stream of such events, named after its topic."""
    return f"""CREATE STREAM {topic} (user_key VARCHAR KEY, event_type VARCHAR, event_version VARCHAR,
      user_id VARCHAR, listing_id VARCHAR, server_time VARCHAR, device_type VARCHAR)
      WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'JSON');"""


def fill(bootstrap: str, topic: str, *, records: int, partitions: int = PARTITIONS) -> None:
    """Create the topic and write this many events, round-robin over its partitions."""
    Cluster(bootstrap).create_topic(topic, partitions=partitions)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 400_000,
        }
    )
    values = [event(number) for number in range(_DISTINCT)]
    for number in range(records):
        value = values[number % _DISTINCT]
        while True:
            try:
                producer.produce(topic, value, key=b"%d" % number, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(_WAIT):
        raise RuntimeError(f"cannot write {left} events to {topic}")


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(_WAIT)


class Trickle(Background):
    """Writes an event to the topic every few milliseconds while the block runs."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def stop(self) -> None:
        super().stop()
        self._producer.flush(_WAIT)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(_EVERY):
            self._producer.produce(self._topic, event(number), key=b"%d" % number)
            self._producer.poll(0)
            number += 1


class TopicEnd:
    """How many records a topic has, by its end offsets."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark", "log_level": 0})
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def count(self) -> int:
        return sum(
            self._consumer.get_watermark_offsets(each, timeout=_WAIT, cached=False)[1]
            for each in self._partitions
        )

    def close(self) -> None:
        self._consumer.close()
