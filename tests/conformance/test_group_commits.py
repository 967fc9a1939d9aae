"""Commits: automatic, synchronous, asynchronous, of specific offsets; where a group without any begins."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine, Server
from tests.conformance.java_tools import JavaTools
from tests.conformance.members import (
    JavaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
    consumer_protocol,
    poll_until,
)

OFFSET_FETCH = 9
COUNT = 20


@pytest.fixture
def topic(engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]) -> str:
    name = new_topic(2)
    messages = [Message(value=b"%d" % number) for number in range(COUNT)]
    clients["librdkafka"].write(engine.bootstrap, name, messages, partition=0)
    return name


@pytest.fixture
def closing() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def committed(engine: Engine, group_id: str, topic: str, partition: int = 0) -> tuple[int, str]:
    """Offset and metadata, as the broker has them."""
    with engine.connect() as client:
        asked = [{"name": topic, "partition_indexes": [partition]}]
        reply = client.ask(OFFSET_FETCH, 7, group_id=group_id, topics=asked)
        (found,) = reply.topics[0].partitions
        return found.committed_offset, found.metadata


def read_all(member: Member, count: int = COUNT) -> None:
    poll_until([member], lambda: len(member.read) >= count)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_of_librdkafka(
    engine: Engine, topic: str, closing: contextlib.ExitStack, protocol: str
) -> None:
    settings = consumer_protocol() if protocol == "consumer" else {}
    member = LibrdkafkaMember(engine, topic, topic, **settings)
    closing.callback(member.close)
    read_all(member)
    consumer = member.consumer
    consumer.commit(
        offsets=[confluent_kafka.TopicPartition(topic, 0, 7, metadata="a note")], asynchronous=False
    )
    # librdkafka sends the zero byte that ends its text, too.
    assert committed(engine, topic, topic) == (7, "a note\0")
    found = consumer.committed([confluent_kafka.TopicPartition(topic, each) for each in (0, 1)], timeout=120)
    assert [(each.offset, each.metadata) for each in found] == [
        (7, "a note"),
        (confluent_kafka.OFFSET_INVALID, None),
    ]
    assert all(each.error is None for each in consumer.commit(asynchronous=False))
    assert committed(engine, topic, topic)[0] == COUNT
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 3)], asynchronous=True)
    poll_until([member], lambda: committed(engine, topic, topic)[0] == 3)


def test_automatic_commits(engine: Engine, topic: str, closing: contextlib.ExitStack) -> None:
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 100}
    member = LibrdkafkaMember(engine, topic, topic, **settings)
    closing.callback(member.close)
    read_all(member)
    poll_until([member], lambda: committed(engine, topic, topic)[0] == COUNT)
    member.close()
    again = LibrdkafkaMember(engine, topic, topic)
    closing.callback(again.close)
    poll_until([again], lambda: len(again.assigned) == 2)
    (position,) = again.consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=120)
    assert position.offset == COUNT


def test_a_close_commits(engine: Engine, topic: str) -> None:
    """What auto commit has not committed yet is committed when a member leaves."""
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 600_000}
    member = LibrdkafkaMember(engine, topic, topic, **settings)
    read_all(member)
    member.close()
    assert committed(engine, topic, topic)[0] == COUNT


def test_commits_of_kafka_python(engine: Engine, topic: str, closing: contextlib.ExitStack) -> None:
    member = KafkaPythonMember(engine, topic, topic)
    closing.callback(member.close)
    read_all(member)
    place = kafka_python.TopicPartition(topic, 0)
    member.consumer.commit({place: kafka_python.OffsetAndMetadata(7, "a note", 0)})
    assert committed(engine, topic, topic) == (7, "a note")
    assert member.consumer.committed(place) == 7
    member.consumer.commit()
    assert committed(engine, topic, topic)[0] == COUNT
    member.consumer.commit_async({place: kafka_python.OffsetAndMetadata(3, "", -1)})
    poll_until([member], lambda: committed(engine, topic, topic)[0] == 3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_of_java(
    engine: Engine,
    java_tools: JavaTools,
    topic: str,
    closing: contextlib.ExitStack,
    protocol: str,
) -> None:
    jvm = java_tools.jvm
    member = JavaMember(java_tools, engine, topic, topic, **{"group.protocol": protocol})
    closing.callback(member.close)
    read_all(member)
    place = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    offset = jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
    member.consumer.commitSync({place: offset(7, "a note")})
    assert committed(engine, topic, topic) == (7, "a note")
    assert member.consumer.committed({place}).get(place).offset() == 7
    member.consumer.commitSync()
    assert committed(engine, topic, topic)[0] == COUNT
    member.consumer.commitAsync({place: offset(3)}, None)
    poll_until([member], lambda: committed(engine, topic, topic)[0] == 3)


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_where_a_group_begins(
    engine: Engine,
    clients: dict[str, Client],
    topic: str,
    closing: contextlib.ExitStack,
    reset: str,
) -> None:
    member = LibrdkafkaMember(engine, topic, topic, **{"auto.offset.reset": reset})
    closing.callback(member.close)
    if reset == "earliest":
        read_all(member)
        assert member.read == [(0, offset) for offset in range(COUNT)]
    elif reset == "latest":

        def writes_until_read() -> bool:
            clients["librdkafka"].write(engine.bootstrap, topic, [Message(value=b"new")], partition=0)
            return bool(member.read)

        poll_until([member], writes_until_read)
        assert member.read[0][1] >= COUNT
    else:
        deadline = time.monotonic() + 120
        message: Any = None
        while message is None and time.monotonic() < deadline:
            message = member.consumer.poll(0.2)
        assert message is not None
        assert message.error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_where_a_group_of_java_begins(
    engine: Engine,
    java_tools: JavaTools,
    topic: str,
    closing: contextlib.ExitStack,
    reset: str,
) -> None:
    member = JavaMember(java_tools, engine, topic, topic, **{"auto.offset.reset": reset})
    closing.callback(member.close)
    place = java_tools.jvm.org.apache.kafka.common.TopicPartition(topic, 0)
    if reset == "none":
        with pytest.raises(Exception, match="NoOffsetForPartitionException"):
            read_all(member)
        return
    poll_until([member], lambda: len(member.assigned) == 2)
    if reset == "latest":
        assert member.consumer.position(place) == COUNT
    else:
        read_all(member)
        assert member.read == [(0, offset) for offset in range(COUNT)]


@pytest.mark.long
def test_offsets_survive_a_restart(
    server: Server, engine: Engine, closing: contextlib.ExitStack, topic_name: str
) -> None:
    """And so does the group: a member that missed the restart stays what it was."""
    own = Engine(name=engine.name, bootstrap=server.bootstrap)
    producer = confluent_kafka.Producer({"bootstrap.servers": own.bootstrap})
    for number in range(COUNT):
        producer.produce(topic_name, b"%d" % number)
    assert producer.flush(60) == 0
    member = LibrdkafkaMember(own, topic_name, topic_name, **{"session.timeout.ms": 60_000})
    closing.callback(member.close)
    read_all(member)
    member.consumer.commit(asynchronous=False)
    (before,) = [member.consumer.memberid()]
    server.stop()
    server.start()
    server.wait_ready(120)
    poll_until([member], lambda: _describes(own, topic_name, before))
    assert committed(own, topic_name, topic_name)[0] == COUNT
    member.consumer.commit(offsets=[confluent_kafka.TopicPartition(topic_name, 0, 5)], asynchronous=False)
    assert committed(own, topic_name, topic_name)[0] == 5
    assert member.consumer.memberid() == before


def _describes(engine: Engine, group_id: str, member_id: str) -> bool:
    with engine.connect() as client:
        (group,) = client.ask(15, 6, groups=[group_id]).groups
        return [each.member_id for each in group.members] == [member_id]
