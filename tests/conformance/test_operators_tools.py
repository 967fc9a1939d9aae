"""Apache Kafka's tools for operators: what they print of one node, and how they say what it has not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conformance.engines import EMBEDDED, Engine
from tests.conformance.java_tools import Finished, JavaTools


@pytest.fixture
def tool(engine: Engine, java_tools: JavaTools) -> Callable[..., Finished]:
    """Run a tool against the engine, however it ends."""

    def run(name: str, *arguments: str) -> Finished:
        return java_tools.run(name, "--bootstrap-server", engine.bootstrap, *arguments)

    return run


def test_kafka_features(tool: Callable[..., Finished], engine: Engine) -> None:
    done = tool("kafka-features", "describe")
    assert done.exit_code == 0, done
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", done.output))
    assert (levels["group.version"], levels["transaction.version"]) == ("1", "2"), done
    if engine.name == EMBEDDED:
        assert len(levels) == 2


def test_kafka_metadata_quorum(tool: Callable[..., Finished], engine: Engine) -> None:
    status = tool("kafka-metadata-quorum", "describe", "--status")
    assert status.exit_code == 0, status
    printed = {line.split(":")[0]: line.partition(":")[2].strip() for line in status.output.splitlines()}
    assert (printed["LeaderId"], printed["MaxFollowerLag"]) == ("1", "0")
    assert printed["CurrentObservers"] == "[]"
    assert [voter["id"] for voter in json.loads(printed["CurrentVoters"])] == [1]
    replication = tool("kafka-metadata-quorum", "describe", "--replication")
    assert replication.exit_code == 0, replication
    rows = [line.split() for line in replication.output.splitlines()[1:] if line.strip()]
    assert [(row[0], row[-1]) for row in rows] == [("1", "Leader")]
    if engine.name == EMBEDDED:
        assert printed["LeaderEpoch"] == printed["HighWatermark"] == "-1"


def test_kafka_leader_election(tool: Callable[..., Finished], new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    for kind in ("preferred", "unclean"):
        done = tool("kafka-leader-election", "--election-type", kind, "--topic", topic, "--partition", "1")
        assert done.exit_code == 0, done
        assert f"Valid replica already elected for partitions {topic}-1" in done.output


def test_kafka_reassign_partitions(
    tool: Callable[..., Finished], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    plan = tmp_path / "plan.json"
    for replicas, code in (([1], 0), ([2], 1)):
        moves = [{"topic": topic, "partition": 0, "replicas": replicas}]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        done = tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
        assert done.exit_code == code, done
    listed = tool("kafka-reassign-partitions", "--list")
    assert listed.exit_code == 0, listed
    assert "No partition reassignments found." in listed.output


def test_kafka_acls(tool: Callable[..., Finished]) -> None:
    done = tool("kafka-acls", "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in done.output + done.errors


def test_kafka_configs_of_other_things(tool: Callable[..., Finished]) -> None:
    for kind in ("users", "clients", "ips", "client-metrics", "groups"):
        done = tool("kafka-configs", "--describe", "--entity-type", kind)
        assert (done.exit_code, done.errors) == (0, ""), (kind, done)
    for kind in ("topics", "brokers"):
        done = tool("kafka-configs", "--describe", "--all", "--entity-type", kind)
        assert done.exit_code == 0, (kind, done)


@pytest.mark.parametrize("tool_name", ["kafka-share-groups", "kafka-streams-groups"])
def test_groups_that_are_not_built(tool: Callable[..., Finished], engine: Engine, tool_name: str) -> None:
    listed = tool(tool_name, "--list")
    assert (listed.exit_code, listed.output.strip()) == (0, ""), listed
    described = tool(tool_name, "--describe", "--group", "nobody")
    if engine.name == EMBEDDED:
        assert "UnsupportedVersionException" in described.output + described.errors, described


@pytest.mark.long
def test_a_share_consumer(
    tool: Callable[..., Finished], new_topic: Callable[..., str], engine: Engine
) -> None:
    """Where there are no share groups, the client says so itself, at once and for good."""
    patience = "30000" if engine.name == EMBEDDED else "100"
    done = tool("kafka-console-share-consumer", "--topic", new_topic(), "--timeout-ms", patience)
    refused = "UnsupportedVersionException: The cluster does not support the share group protocol"
    assert (refused in done.errors) == (engine.name == EMBEDDED), done


def test_librdkafka_asks_the_same(engine: Engine, new_topic: Callable[..., str]) -> None:
    place = TopicPartition(new_topic(), 0)
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    elected = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(120)
    assert [error.code() for error in elected.values()] == [KafkaError.ELECTION_NOT_NEEDED]
    assert admin.describe_user_scram_credentials().result(120) == {}
    (unknown,) = admin.describe_user_scram_credentials(["nobody"]).values()
    with pytest.raises(KafkaException) as refused:
        unknown.result(120)
    assert refused.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY),
        *(None, None, AclOperation.ANY, AclPermissionType.ANY),
    )
    # It passes over the error.
    assert admin.describe_acls(everything).result(120) == []
