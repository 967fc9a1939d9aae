"""Bytes of partitions, asked of both kinds of log, and of brokers that do not answer."""

from __future__ import annotations

import logging
import socket
import threading

import pytest

from headrace.engines.apache_kafka import ApacheKafka
from headrace.query.partition_sizes import partition_sizes
from headrace.query.topics import TopicBrowser
from headrace.testing import EmbeddedBroker
from tests.assembly.fakes import wait_until
from tests.ports import free_port
from tests.query.records import create_topic, produce


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("engine", ["broker", "kafka"])
def test_sizes_are_those_of_the_files(engine: str, request: pytest.FixtureRequest, topic_name: str) -> None:
    log: EmbeddedBroker | ApacheKafka = request.getfixturevalue(engine)
    create_topic(log.bootstrap, topic_name, partitions=2)
    produce(log.bootstrap, topic_name, [{"value": b"x" * 1_000, "partition": 1} for _ in range(50)])

    def sizes_of_the_topic() -> dict[tuple[str, int], int]:
        sizes = partition_sizes([address(log.bootstrap)], 10)
        return {place: size for place, size in sizes.items() if place[0] == topic_name}

    # Apache Kafka makes the folder of an empty partition some time after it has said that the topic is there.
    wait_until(lambda: len(sizes_of_the_topic()) == 2, "both partitions have a folder")
    sizes = sizes_of_the_topic()
    assert sizes[topic_name, 0] == 0
    assert 50_000 < sizes[topic_name, 1] < 60_000


def test_the_topic_browser_tells_sizes(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=2)
    produce(broker.bootstrap, topic_name, [{"value": b"x" * 1_000, "partition": 0}])
    topics = TopicBrowser(broker.bootstrap, lambda _id: "").topics()
    partitions = next(topic.partitions for topic in topics if topic.name == topic_name)
    assert [(partition.size_bytes or 0) > 1_000 for partition in partitions] == [True, False]


def test_a_broker_that_does_not_answer_leaves_its_partitions_unknown(
    broker: EmbeddedBroker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    produce(broker.bootstrap, topic_name, [{"value": b"x", "partition": 0}])
    with caplog.at_level(logging.WARNING):
        sizes = partition_sizes([("127.0.0.1", free_port()), address(broker.bootstrap)], 5)
    assert sizes[topic_name, 0] > 0
    assert "did not report the sizes of its partitions" in caplog.text


@pytest.mark.parametrize(
    "answer", [b"", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x08garbage!", b"\x00\x00\x00\x02xx"]
)
def test_nonsense_is_not_believed(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert partition_sizes([server.getsockname()], 5) == {}
        thread.join()
