"""Transactions with every client on both engines: what readers see, who is fenced, which offsets count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import kafka as kafka_python
import pytest
from py4j.protocol import Py4JError

from tests.conformance.answers.conversation import LIST_OFFSETS, wait_until
from tests.conformance.answers.transactional_producer import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine
from tests.conformance.java_tools import Finished, JavaTools
from tests.conformance.raw_client import RawClient
from tests.conformance.transactional_clients import (
    ALL,
    COMMITTED,
    LibrdkafkaTransactions,
    Make,
    Read,
    Transactions,
    read_with_librdkafka,
    readers,
    writers,
)

WRITERS = ("librdkafka", "kafka-python", "java")
FENCED = (confluent_kafka.KafkaException, kafka_python.errors.KafkaError, Py4JError)


@pytest.fixture
def make(engine: Engine, java_tools: JavaTools) -> Iterator[Callable[[str, str], Transactions]]:
    """A transactional producer of the client of this name; they are closed after the test."""
    opened: list[Transactions] = []
    by_name: dict[str, Make] = writers(java_tools)

    def made(client: str, transactional_id: str) -> Transactions:
        opened.append(by_name[client](engine.bootstrap, transactional_id))
        return opened[-1]

    yield made
    for each in opened:
        each.close()


@pytest.fixture
def read(engine: Engine, java_tools: JavaTools) -> Callable[..., dict[str, list[bytes]]]:
    """What the clients of these names, or all, read at this isolation level."""
    by_name: dict[str, Read] = readers(java_tools)

    def by_all(topic: str, level: str, *names: str) -> dict[str, list[bytes]]:
        return {name: by_name[name](engine.bootstrap, topic, level) for name in names or by_name}

    return by_all


@pytest.fixture
def write(engine: Engine, clients: dict[str, Client]) -> Callable[[str, bytes], None]:
    """Without a transaction."""

    def written(topic: str, value: bytes) -> None:
        clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=value)], partition=0)

    return written


@pytest.fixture
def tool(engine: Engine, java_tools: JavaTools) -> Callable[..., Finished]:
    """Run `kafka-transactions`, which must end well."""

    def run(*arguments: str) -> Finished:
        done = java_tools.run("kafka-transactions", "--bootstrap-server", engine.bootstrap, *arguments)
        assert done.exit_code == 0, done
        return done

    return run


def same(values: list[bytes], *names: str) -> dict[str, list[bytes]]:
    return dict.fromkeys(names or WRITERS, values)


def latest(raw: RawClient, topic: str, level: int) -> int:
    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    topics = [{"name": topic, "partitions": partitions}]
    reply = raw.ask(LIST_OFFSETS, 7, replica_id=-1, isolation_level=level, topics=topics)
    return int(reply.topics[0].partitions[0].offset)


def settle(raw: RawClient, topic: str) -> None:
    """Wait for the markers: Apache Kafka answers before they are written."""
    wait_until(lambda: latest(raw, topic, 1) == latest(raw, topic, 0))


@pytest.mark.parametrize("client", WRITERS)
def test_readers_see_what_was_committed(
    raw: RawClient,
    make: Callable[[str, str], Transactions],
    read: Callable[..., dict[str, list[bytes]]],
    new_topic: Callable[..., str],
    client: str,
) -> None:
    topic = new_topic()
    producer = make(client, topic)
    for number, committed in enumerate((True, False, True, False)):
        producer.begin()
        producer.send(topic, b"%d first" % number, b"%d second" % number)
        if committed:
            producer.commit()
        else:
            producer.abort()
    everything = [b"%d %s" % (number, which) for number in range(4) for which in (b"first", b"second")]
    kept = [each for each in everything if each.startswith((b"0", b"2"))]
    settle(raw, topic)
    assert read(topic, COMMITTED) == same(kept)
    assert read(topic, ALL, "java") == same(everything, "java")


@pytest.mark.parametrize("client", WRITERS)
def test_a_second_instance_fences_the_first(
    engine: Engine,
    raw: RawClient,
    make: Callable[[str, str], Transactions],
    new_topic: Callable[..., str],
    client: str,
) -> None:
    topic = new_topic()
    first = make(client, topic)
    first.begin()
    first.send(topic, b"of the first")
    second = make(client, topic)
    second.begin()
    second.send(topic, b"of the second")
    with pytest.raises(FENCED):
        first.commit()
    second.commit()
    settle(raw, topic)
    assert read_with_librdkafka(engine.bootstrap, topic, COMMITTED) == [b"of the second"]


@pytest.mark.parametrize("client", WRITERS)
def test_offsets_count_when_their_transaction_is_committed(
    engine: Engine, make: Callable[[str, str], Transactions], new_topic: Callable[..., str], client: str
) -> None:
    topic = new_topic()
    group = f"{topic}-readers"
    producer = make(client, topic)

    def committed() -> int:
        with group_consumer(engine, group) as consumer:
            (place,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=120)
        return int(place.offset)

    for offset, commits, counts in ((5, True, 5), (7, False, 5), (9, True, 9)):
        producer.begin()
        producer.send(topic, b"with offset")
        producer.send_offset(topic, offset, group)
        if commits:
            producer.commit()
        else:
            producer.abort()
        wait_until(lambda expected=counts: committed() == expected)  # type: ignore[misc]


@contextmanager
def group_consumer(engine: Engine, group: str) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": engine.bootstrap, "group.id": group, "isolation.level": COMMITTED}
    )
    try:
        yield consumer
    finally:
        consumer.close()


def test_an_open_transaction_holds_readers_of_committed_records_back(
    raw: RawClient,
    write: Callable[[str, bytes], None],
    make: Callable[[str, str], Transactions],
    read: Callable[..., dict[str, list[bytes]]],
    new_topic: Callable[..., str],
) -> None:
    topic = new_topic()
    write(topic, b"before")
    producer = make("librdkafka", topic)
    producer.begin()
    producer.send(topic, b"in it")
    write(topic, b"after")
    assert (latest(raw, topic, 0), latest(raw, topic, 1)) == (3, 1)
    assert read(topic, COMMITTED) == same([b"before"])
    producer.commit()
    wait_until(lambda: latest(raw, topic, 1) == 4)
    assert read(topic, COMMITTED, "java") == same([b"before", b"in it", b"after"], "java")


def test_producer_perf_test_in_transactions(
    engine: Engine, raw: RawClient, java_tools: JavaTools, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    done = java_tools.run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "2000", "--record-size", "50", "--throughput", "5000"),
        *("--transactional-id", topic, "--transaction-duration-ms", "5"),
        *("--bootstrap-server", engine.bootstrap),
    )
    assert done.exit_code == 0, done
    assert done.output.startswith("2000 records sent")
    settle(raw, topic)
    assert len(read_with_librdkafka(engine.bootstrap, topic, COMMITTED)) == 2000
    # Each transaction has left a marker. At 5,000 records a second there are several on any machine.
    assert latest(raw, topic, 1) > 2001


def test_kafka_transactions(
    raw: RawClient,
    tool: Callable[..., Finished],
    make: Callable[[str, str], Transactions],
    engine: Engine,
    new_topic: Callable[..., str],
) -> None:
    topic = new_topic()
    place = ("--topic", topic, "--partition", "0")

    producer = make("java", topic)
    producer.begin()
    producer.send(topic, b"open")
    (listed,) = (line for line in tool("list").output.splitlines() if line.startswith(topic))
    assert listed.split()[-1] == "Ongoing"
    described = tool("describe", "--transactional-id", topic).output
    assert f"{topic}-0" in described
    assert "Ongoing" in described
    active = tool("describe-producers", *place).output.splitlines()[1].split()
    assert active[-1] == "0", "the offset at which the transaction begins"
    assert topic not in tool("find-hanging", "--broker-id", "1").output
    tool("abort", *place, "--start-offset", "0")
    wait_until(lambda: latest(raw, topic, 1) == 2)
    assert read_with_librdkafka(engine.bootstrap, topic, COMMITTED) == []
    assert read_with_librdkafka(engine.bootstrap, topic, ALL) == [b"open"]


def test_transactions_are_listed_and_described_in_all_states(
    raw: RawClient, make: Callable[[str, str], Transactions], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    producer = make("librdkafka", topic)

    def state() -> str:
        described = raw.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[topic])
        return str(described.transaction_states[0].transaction_state)

    assert state() == "Empty"
    for ends, finally_in in ((producer.commit, "CompleteCommit"), (producer.abort, "CompleteAbort")):
        producer.begin()
        producer.send(topic, b"one")
        assert state() == "Ongoing"
        ends()
        wait_until(lambda expected=finally_in: state() == expected)  # type: ignore[misc]
        listed = raw.ask(LIST_TRANSACTIONS, 0, state_filters=[finally_in], producer_id_filters=[])
        assert topic in {each.transactional_id for each in listed.transaction_states}


def test_every_transaction_of_javas_client_has_an_epoch_of_its_own(
    raw: RawClient, make: Callable[[str, str], Transactions], new_topic: Callable[..., str]
) -> None:
    """KIP-890: it finds `transaction.version` 2 among the features, and lets the broker add partitions."""
    topic = new_topic()
    producer = make("java", topic)
    epochs = []
    for _ in range(3):
        producer.begin()
        producer.send(topic, b"one")
        described = raw.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[topic])
        epochs.append(described.transaction_states[0].producer_epoch)
        producer.commit()
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


@pytest.mark.long
def test_a_transaction_that_takes_too_long_is_aborted(
    engine: Engine, raw: RawClient, new_topic: Callable[..., str]
) -> None:
    """Apache Kafka looks for them every ten seconds."""
    topic = new_topic()
    options = {"transaction.timeout.ms": 1_000, "message.timeout.ms": 1_000}
    producer = LibrdkafkaTransactions(engine.bootstrap, topic, **options)
    producer.begin()
    producer.send(topic, b"too late")
    assert latest(raw, topic, 1) == 0
    settle(raw, topic)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit()
    assert read_with_librdkafka(engine.bootstrap, topic, COMMITTED) == []
    following = LibrdkafkaTransactions(engine.bootstrap, topic)
    following.begin()
    following.send(topic, b"in time")
    following.commit()
    settle(raw, topic)
    assert read_with_librdkafka(engine.bootstrap, topic, COMMITTED) == [b"in time"]
