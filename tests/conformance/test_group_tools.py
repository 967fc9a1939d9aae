"""Apache Kafka's commands for groups, and an admin client."""

from __future__ import annotations

import re
from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine
from tests.conformance.java_tools import Finished, JavaTools
from tests.conformance.members import LibrdkafkaMember, consumer_protocol, poll_until, settle

COUNT = 10


@pytest.fixture
def tool(engine: Engine, java_tools: JavaTools) -> Callable[..., Finished]:
    """Run a tool against the engine; it must end well unless a code is given."""

    def run(name: str, *arguments: str, exit_code: int = 0) -> Finished:
        done = java_tools.run(name, "--bootstrap-server", engine.bootstrap, *arguments)
        assert done.exit_code == exit_code, done
        return done

    return run


@pytest.fixture
def topic(engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]) -> str:
    name = new_topic(2)
    messages = [Message(value=b"%d" % number) for number in range(COUNT)]
    for partition in range(2):
        clients["librdkafka"].write(engine.bootstrap, name, messages, partition=partition)
    return name


def rows(output: str) -> list[list[str]]:
    """The cells of a table without its headings."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    return [line for line in lines if "GROUP" not in line and "TOPIC" not in line]


def test_consumer_groups(engine: Engine, tool: Callable[..., Finished], topic: str) -> None:
    group = ("--group", topic)
    member = LibrdkafkaMember(engine, topic, topic, **{"client.id": "a-client"})
    try:
        settle(engine, topic, [member], 2)
        poll_until([member], lambda: len(member.read) == 2 * COUNT)
        member.consumer.commit(
            offsets=[confluent_kafka.TopicPartition(topic, each, 4 + each) for each in range(2)],
            asynchronous=False,
        )
        assert topic in tool("kafka-consumer-groups", "--list").output.split()
        listed = tool("kafka-consumer-groups", "--list", "--state", "stable", "--type", "classic").output
        assert [topic, "Classic", "Stable"] in rows(listed) or [topic, "Stable"] in [
            [row[0], row[-1]] for row in rows(listed)
        ]
        described = rows(tool("kafka-consumer-groups", "--describe", *group).output)
        assert [row[1:6] for row in described if row[0] == topic] == [
            [topic, "0", "4", str(COUNT), str(COUNT - 4)],
            [topic, "1", "5", str(COUNT), str(COUNT - 5)],
        ]
        assert {tuple(row[-2:]) for row in described} == {("/127.0.0.1", "a-client")}
        state = tool("kafka-consumer-groups", "--describe", "--state", *group).output
        assert re.search(r"range\s+Stable\s+1", state)
        people = tool("kafka-consumer-groups", "--describe", "--members", "--verbose", *group).output
        assert re.search(rf"/127\.0\.0\.1\s+a-client\s+2\s+.*{re.escape(topic)}", people)
        busy = tool("kafka-consumer-groups", "--delete", *group)
        assert "GroupNotEmptyException" in busy.output + busy.errors
        reset = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
        refused = tool("kafka-consumer-groups", *reset, *group)
        assert "inactive" in refused.output + refused.errors
    finally:
        member.close()
    dry = tool(
        "kafka-consumer-groups", "--reset-offsets", "--to-latest", "--dry-run", "--topic", topic, *group
    )
    assert sorted(row[1:] for row in rows(dry.output)) == [
        [topic, "0", str(COUNT)],
        [topic, "1", str(COUNT)],
    ]
    for how, offset in (
        (("--to-earliest",), "0"),
        (("--to-latest",), str(COUNT)),
        (("--shift-by", "-3"), str(COUNT - 3)),
        (("--to-offset", "2"), "2"),
    ):
        tool("kafka-consumer-groups", "--reset-offsets", *how, "--all-topics", "--execute", *group)
        now = rows(tool("kafka-consumer-groups", "--describe", "--offsets", *group).output)
        assert [row[3] for row in now if row[0] == topic] == [offset, offset]
    tool("kafka-consumer-groups", "--delete-offsets", "--topic", f"{topic}:0", *group)
    now = rows(tool("kafka-consumer-groups", "--describe", *group).output)
    assert [row[2:4] for row in now if row[0] == topic] == [["1", "2"]]
    gone = tool("kafka-consumer-groups", "--delete", *group).output
    assert f"Deletion of requested consumer groups ('{topic}') was successful." in gone
    assert topic not in tool("kafka-consumer-groups", "--list").output.split()
    unknown = tool("kafka-consumer-groups", "--describe", *group)
    assert "not found" in unknown.output + unknown.errors


def test_kafka_groups(engine: Engine, tool: Callable[..., Finished], topic: str) -> None:
    member = LibrdkafkaMember(engine, topic, topic)
    try:
        settle(engine, topic, [member], 2)
        listed = rows(tool("kafka-groups", "--list").output)
        assert [topic, "Classic", "consumer"] in listed
    finally:
        member.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_consumer(
    java_tools: JavaTools,
    engine: Engine,
    tool: Callable[..., Finished],
    topic: str,
    protocol: str,
) -> None:
    """Reads in a group, commits when it ends, and goes on after that."""
    asked = (
        *("--bootstrap-server", engine.bootstrap, "--topic", topic, "--group", topic),
        *("--command-property", f"group.protocol={protocol}", "--from-beginning"),
        *("--timeout-ms", "30000", "--max-messages"),
    )
    first = java_tools.run("kafka-console-consumer", *asked, "15")
    assert len(first.output.split()) == 15, first
    rest = java_tools.run("kafka-console-consumer", *asked, "5")
    expected = sorted([str(number) for number in range(COUNT)] * 2)
    assert sorted([*first.output.split(), *rest.output.split()]) == expected
    described = rows(tool("kafka-consumer-groups", "--describe", "--group", topic).output)
    assert [row[3:6] for row in described if row[0] == topic] == [[str(COUNT), str(COUNT), "0"]] * 2


def test_admin_client_of_librdkafka(engine: Engine, topic: str, clients: dict[str, Client]) -> None:
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    member = LibrdkafkaMember(engine, topic, topic)
    try:
        settle(engine, topic, [member], 2)
        described = admin.describe_consumer_groups([topic], request_timeout=120)[topic].result(120)
        assert described.state == confluent_kafka.ConsumerGroupState.STABLE
        (one,) = described.members
        assert {each.partition for each in one.assignment.topic_partitions} == {0, 1}
        listed = admin.list_consumer_groups(request_timeout=120).result(120)
        assert topic in {each.group_id for each in listed.valid}
        assert listed.errors == []
    finally:
        member.close()
    places = [confluent_kafka.TopicPartition(topic, 0, 4)]
    wish = confluent_kafka.ConsumerGroupTopicPartitions(topic, places)
    (altered,) = admin.alter_consumer_group_offsets([wish], request_timeout=120).values()
    assert [each.offset for each in altered.result(120).topic_partitions] == [4]
    (found,) = admin.list_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions(topic)], request_timeout=30
    ).values()
    assert [(each.partition, each.offset) for each in found.result(120).topic_partitions] == [(0, 4)]
    (deleted,) = admin.delete_consumer_groups([topic], request_timeout=120).values()
    deleted.result(120)
    listed = admin.list_consumer_groups(request_timeout=120).result(120)
    assert topic not in {each.group_id for each in listed.valid}
    assert clients


def test_consumer_groups_of_the_consumer_protocol(
    engine: Engine, tool: Callable[..., Finished], topic: str
) -> None:
    group = ("--group", topic)
    member = LibrdkafkaMember(engine, topic, topic, **consumer_protocol(**{"client.id": "a-client"}))
    try:
        settle(engine, topic, [member], 2)
        listed = tool("kafka-consumer-groups", "--list", "--type", "consumer").output
        assert topic in listed.split()
        state = tool("kafka-consumer-groups", "--describe", "--state", "--verbose", *group).output
        assert re.search(r"uniform\s+Stable\s+2\s+2\s+1", state)
        people = tool("kafka-consumer-groups", "--describe", "--members", "--verbose", *group).output
        assert re.search(rf"/127\.0\.0\.1\s+a-client\s+2\s+.*{re.escape(topic)}:0,1", people)
        busy = tool("kafka-consumer-groups", "--delete", *group)
        assert "GroupNotEmptyException" in busy.output + busy.errors
    finally:
        member.close()
    gone = tool("kafka-consumer-groups", "--delete", *group).output
    assert f"Deletion of requested consumer groups ('{topic}') was successful." in gone
