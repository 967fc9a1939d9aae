"""The broker inside the process of a test, as somebody else's tests would use it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(120) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=120)
        assert all(message.error() is None for message in messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_a_broker_serves_within_a_with_statement_and_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker() as broker:
        folder = broker.data_dir
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        produce(broker.bootstrap, "greetings", [b"hello"])
        assert consume(broker.bootstrap, "greetings", 1) == [b"hello"]
        # A consumer with a group's name asks for its coordinator, which is made with its topic.
        assert broker.call(lambda inside: set(inside.logs.topics)) <= {"greetings", "__consumer_offsets"}
    assert not broker.is_running
    assert not folder.exists()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("end", [EmbeddedBroker.stop, EmbeddedBroker.kill], ids=["stop", "kill"])
def test_stopped_or_killed_it_starts_again_with_its_port_and_its_records(
    tmp_path: Path, end: object, topic_name: str
) -> None:
    assert callable(end)
    with EmbeddedBroker(tmp_path) as broker:
        produce(broker.bootstrap, topic_name, [b"one", b"two"])
        before = broker.bootstrap
        end(broker)
        assert not broker.is_running
        end(broker)
        broker.start()
        assert broker.bootstrap == before
        produce(broker.bootstrap, topic_name, [b"three"])
        assert consume(broker.bootstrap, topic_name, 3) == [b"one", b"two", b"three"]
    assert tmp_path.exists()


def test_settings_are_keyword_arguments(topic_name: str) -> None:
    with EmbeddedBroker(fsync="always", default_partitions=3, node_id=7) as broker:
        produce(broker.bootstrap, topic_name, [b"kept"])
        assert broker.call(lambda inside: len(inside.logs.topics[topic_name].partitions)) == 3
        assert broker.call(lambda inside: inside.node_id) == 7


def test_what_cannot_start_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker(tmp_path / "one") as broker:
        for other in (EmbeddedBroker(tmp_path / "two", port=broker.port), EmbeddedBroker(tmp_path / "one")):
            with pytest.raises(HeadraceError):
                other.start()
            assert not other.is_running
    assert set(threading.enumerate()) <= before


def test_the_fixture_is_a_broker_for_one_test(headrace_broker: EmbeddedBroker, topic_name: str) -> None:
    produce(headrace_broker.bootstrap, topic_name, [b"x"])
    assert consume(headrace_broker.bootstrap, topic_name, 1) == [b"x"]


def test_loading_the_plugin_loads_no_broker() -> None:
    script = "import sys, headrace.testing.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"uvloop", "kio", "headrace.broker.server"}.intersection(loaded.split())
