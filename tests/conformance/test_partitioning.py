"""Where a key goes: all clients agree with Java's murmur2. And how many partitions there can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine
from tests.conformance.java_tools import JavaTools
from tests.conformance.topics import create_topic, end_offsets

KEYS = [b"", b"a", b"key", "ключ".encode(), bytes(range(256)), *(b"user-%d" % number for number in range(60))]


def test_keys_go_where_java_sends_them(
    engine: Engine, clients: dict[str, Client], java_tools: JavaTools, topic_name: str
) -> None:
    partitions = 7
    utils = java_tools.jvm.org.apache.kafka.common.utils.Utils
    expected = {key: utils.toPositive(utils.murmur2(key)) % partitions for key in KEYS}
    # Compared as sets of keys in a partition: clients acknowledge in any order.
    for writer, client in clients.items():
        options = {"partitioner": "murmur2_random"} if writer == "librdkafka" else {}
        topic = f"{topic_name}_{writer}"
        create_topic(engine, topic, partitions)
        # librdkafka's murmur2_random takes an empty key for none.
        keys = [key for key in KEYS if key or writer != "librdkafka"]
        messages = [Message(value=key, key=key) for key in keys]
        client.write(engine.bootstrap, topic, messages, partition=None, **options)
        counts = Counter(expected[key] for key in keys)
        for partition in range(partitions):
            found = clients["librdkafka"].read(
                engine.bootstrap, topic, counts[partition], partition=partition
            )
            assert {each.key for each in found} == {key for key in keys if expected[key] == partition}


def test_explicit_partition(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(5)
    for writer in clients.values():
        for partition in (0, 2, 4):
            places = writer.write(
                engine.bootstrap, topic, [Message(value=b"v", key=b"same")], partition=partition
            )
            assert places[0][0] == partition
    with engine.connect() as client:
        assert end_offsets(client, topic, 5) == [3, 0, 3, 0, 3]


def test_records_without_a_key_are_spread(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(4)
    messages = [Message(value=b"x" * 1000)] * 400
    clients["librdkafka"].write(
        engine.bootstrap, topic, messages, partition=None, sticky_partitioning_linger_ms="0"
    )
    with engine.connect() as client:
        ends = end_offsets(client, topic, 4)
    assert sum(each or 0 for each in ends) == 400
    assert all(ends)


def _fill(engine: Engine, clients: dict[str, Client], topic: str, partitions: int) -> None:
    """One record into each, and each in its place."""
    create_topic(engine, topic, partitions)
    with engine.connect() as client:
        assert end_offsets(client, topic, partitions) == [0] * partitions
    messages = [Message(value=b"%d" % number, key=b"k%d" % number) for number in range(4 * partitions)]
    places = clients["librdkafka"].write(
        engine.bootstrap, topic, messages, partition=None, partitioner="murmur2"
    )
    with engine.connect() as client:
        ends = end_offsets(client, topic, partitions)
    assert Counter(partition for partition, _ in places) == Counter(
        {partition: end for partition, end in enumerate(ends) if end}
    )


@pytest.mark.parametrize("partitions", [1, 2, 50])
def test_partition_counts(
    engine: Engine, clients: dict[str, Client], topic_name: str, partitions: int
) -> None:
    _fill(engine, clients, topic_name, partitions)


@pytest.mark.long
def test_five_hundred_partitions(engine: Engine, clients: dict[str, Client], topic_name: str) -> None:
    _fill(engine, clients, topic_name, 500)
