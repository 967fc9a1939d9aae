"""Topics and records for tests against a real log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic


def create_topic(bootstrap: str, name: str, *, partitions: int = 1, **config: str) -> None:
    """Make a topic, also one whose deletion is still under way."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(name, partitions, config=config)])[name].result()
        except KafkaException as error:
            if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                return False
            raise
        return True

    wait_until(created, "the topic can be created")


def add_partitions(bootstrap: str, name: str, *, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, total)])[name].result()


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result()


def group_names(bootstrap: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return {group.group_id for group in admin.list_consumer_groups().result().valid}


def topic_names(bootstrap: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return set(admin.list_topics(timeout=120).topics)


@contextmanager
def producing(bootstrap: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    yield producer
    assert producer.flush(120) == 0


def produce(bootstrap: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Write records, given as arguments of `Producer.produce`, and wait until the log has them."""
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    with producing(bootstrap) as producer:
        for record in records:
            producer.produce(topic, on_delivery=delivered, **record)
            producer.poll(0)
    assert failures == []


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 120.0) -> None:
    """Wait for a condition; fails with its name where it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
