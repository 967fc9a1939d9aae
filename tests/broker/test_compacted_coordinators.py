"""Coordinators load what they know from their topics, and those are compacted: nothing may be missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.broker_process import BrokerProcess
from tests.broker.compacted_topics import WAIT_SECONDS, wait_for
from tests.ports import free_port

SETTINGS = {
    "log.cleaner.backoff.ms": "10",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # The internal topics take no small segments, but short ones.
    "log.roll.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}

Result = TypeVar("Result")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    arguments = ["--fsync", "always"]
    for name, value in SETTINGS.items():
        arguments += ["--set", f"{name}={value}"]
    process = BrokerProcess(tmp_path / "data", free_port(), arguments)
    process.start()
    try:
        yield process
    finally:
        process.end()


def first_offset(folder: Path) -> int:
    """Of the first batch that is left."""
    for path in sorted(folder.glob("*.log")):
        with path.open("rb") as file:
            content = file.read(8)
        if content:
            return int.from_bytes(content, "big")
    return 0


def restart(broker: BrokerProcess, *, kill: bool) -> None:
    if kill:
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()


def committer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


def patiently(work: Callable[[], Result]) -> Result:
    """Again while the coordinator loads."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return work()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("kill", [True, pytest.param(False, marks=pytest.mark.long)])
def test_offsets_and_groups(broker: BrokerProcess, tmp_path: Path, kill: bool) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("events", 2, 1)])["events"].result(WAIT_SECONDS)
    member = committer(broker.bootstrap, "members")
    member.subscribe(["events"])
    wait_for(lambda: member.poll(0.1) is None and len(member.assignment()) == 2, "no assignment")
    # Written once and never again: it has to stand in the compacted part.
    member.commit(offsets=[TopicPartition("events", 1, 42, metadata="once")], asynchronous=False)
    busy = committer(broker.bootstrap, "busy")
    gone = committer(broker.bootstrap, "gone")
    patiently(lambda: gone.commit(offsets=[TopicPartition("events", 0, 7)], asynchronous=False))
    gone.close()
    patiently(lambda: admin.delete_consumer_groups(["gone"])["gone"].result(WAIT_SECONDS))
    for number in range(300):
        place = TopicPartition("events", 0, number, metadata=f"number {number}")
        patiently(lambda place=place: busy.commit(offsets=[place], asynchronous=False))  # type: ignore[misc]
    folder = tmp_path / "data" / "__consumer_offsets-0"
    # A commit takes more than 150 bytes.
    wait_for(lambda: sum(path.stat().st_size for path in folder.glob("*.log")) < 15_000, "not compacted")
    restart(broker, kill=kill)
    (found,) = patiently(lambda: busy.committed([TopicPartition("events", 0)], WAIT_SECONDS))
    assert (found.offset, found.metadata) == (299, "number 299")
    (found,) = patiently(lambda: member.committed([TopicPartition("events", 1)], WAIT_SECONDS))
    assert (found.offset, found.metadata) == (42, "once")
    listed = admin.list_consumer_groups().result(WAIT_SECONDS)
    assert {group.group_id for group in listed.valid} == {"members", "busy"}
    # The member is still one, in the generation it was in.
    patiently(lambda: member.commit(offsets=[TopicPartition("events", 1, 43)], asynchronous=False))
    for consumer in (member, busy):
        consumer.close()


def transactional(bootstrap: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "writer",
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_SECONDS)
    return producer


def write(producer: Producer, number: int, *, commit: bool) -> None:
    producer.begin_transaction()
    producer.produce("events", f"{number}", "key" if commit else "aborted", partition=0)
    if commit:
        producer.commit_transaction(WAIT_SECONDS)
    else:
        producer.abort_transaction(WAIT_SECONDS)


def committed_values(bootstrap: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition("events", 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                consumer.close()
                return found
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value.decode())
    raise AssertionError("the log cannot be read to its end")


@pytest.mark.parametrize("kill", [True, pytest.param(False, marks=pytest.mark.long)])
def test_transactions(broker: BrokerProcess, tmp_path: Path, kill: bool) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("events", 1, 1)])["events"].result(WAIT_SECONDS)
    producer = transactional(broker.bootstrap)
    for number in range(60):
        write(producer, number, commit=number % 3 != 0)
    folder = tmp_path / "data" / "__transaction_state-0"
    wait_for(lambda: first_offset(folder) > 0, "not compacted")
    # Open when the broker ends: it must not become visible, and its successor fences it.
    producer.begin_transaction()
    producer.produce("events", "open", "key", partition=0)
    producer.flush(WAIT_SECONDS)
    restart(broker, kill=kill)
    successor = transactional(broker.bootstrap)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(WAIT_SECONDS)
    assert refused.value.args[0].fatal()
    for number in range(60, 70):
        write(successor, number, commit=True)
    assert committed_values(broker.bootstrap) == [
        str(number) for number in range(70) if number >= 60 or number % 3 != 0
    ]
