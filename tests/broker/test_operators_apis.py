"""What operators and consoles ask a cluster, answered by one node: elections, moves, quorum, features, and
what there is none of (ACLs, quotas, credentials)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from tests.broker.asking import ask

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.mark.parametrize("version", range(1, 4))
def test_there_are_no_acls(broker: Broker, version: int) -> None:
    reply = ask(broker, ALL[29], version, resource_type_filter=1)
    assert (reply.error_code.name, reply.error_message) == (
        "security_disabled",
        "No Authorizer is configured on the broker",
    )
    assert reply.resources == ()


def elected(reply: Any) -> list[tuple[str, list[tuple[int, str]]]]:
    return [
        (topic.topic, [(each.partition_id, each.error_code.name) for each in topic.partition_result])
        for topic in reply.replica_election_results
    ]


@pytest.mark.parametrize("version", range(3))
def test_nobody_needs_to_be_elected(broker: Broker, version: int) -> None:
    broker.create_topic("a", 2, {})
    asked = [{"topic": "a", "partitions": [1, 2]}, {"topic": "b", "partitions": [0]}]
    reply = ask(broker, ALL[43], version, topic_partitions=asked, election_type=0)
    assert getattr(reply, "error_code", 0) == 0
    assert elected(reply) == [
        ("a", [(1, "election_not_needed"), (2, "unknown_topic_or_partition")]),
        ("b", [(0, "unknown_topic_or_partition")]),
    ]
    assert elected(ask(broker, ALL[43], version, topic_partitions=None)) == [("a", [])]


def test_an_election_of_an_unknown_kind(broker: Broker) -> None:
    broker.create_topic("a", 1, {})
    asked = [{"topic": "a", "partitions": [0]}]
    reply = ask(broker, ALL[43], 2, topic_partitions=asked, election_type=7)
    assert reply.error_code.name == "invalid_request"
    assert elected(reply) == [("a", [(0, "invalid_request")])]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("name", "partition", "replicas", "code", "message"),
    [
        ("a", 0, [1], "none", None),
        (
            "a",
            0,
            [2],
            "invalid_replica_assignment",
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            "a",
            0,
            [],
            "invalid_replica_assignment",
            "The manual partition assignment includes an empty replica list.",
        ),
        ("a", 0, None, "no_reassignment_in_progress", None),
        ("a", 1, [1], "unknown_topic_or_partition", "Unable to find partition a:1."),
        ("b", 0, [1], "unknown_topic_or_partition", "Unable to find a topic named b."),
    ],
)
def test_moving_partitions(
    broker: Broker,
    *,
    version: int,
    name: str,
    partition: int,
    replicas: list[int] | None,
    code: str,
    message: str | None,
) -> None:
    broker.create_topic("a", 1, {})
    partitions = [{"partition_index": partition, "replicas": replicas}]
    reply = ask(
        broker,
        ALL[45],
        version,
        topics=[{"name": name, "partitions": partitions}],
    )
    assert (reply.error_code.name, reply.error_message) == ("none", None)
    (topic,) = reply.responses
    (answer,) = topic.partitions
    assert (topic.name, answer.partition_index) == (name, partition)
    assert (answer.error_code.name, answer.error_message) == (code, message)


def test_nothing_is_being_moved(broker: Broker) -> None:
    broker.create_topic("a", 1, {})
    for topics in (None, [{"name": "a", "partition_indexes": [0]}]):
        reply = ask(broker, ALL[46], 0, topics=topics)
        assert (reply.error_code.name, reply.error_message, reply.topics) == ("none", None, ())


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([], "none", ""),
        ([("user", 0, "a"), ("client-id", 1, None)], "none", ""),
        ([("ip", 2, None)], "none", ""),
        ([("", 0, "a")], "invalid_request", "Invalid empty entity type."),
        (
            [("user", 0, "a"), ("user", 0, "b")],
            "invalid_request",
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("colour", 0, "red")], "unsupported_version", "Unsupported entity type colour"),
        ([("user", 9, None)], "invalid_request", "Unknown match type 9"),
        (
            [("user", 0, None)],
            "invalid_request",
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", 1, "a")],
            "invalid_request",
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("ip", 0, "::1"), ("user", 0, "a")],
            "invalid_request",
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component.",
        ),
    ],
)
def test_nobody_has_a_quota(
    broker: Broker,
    version: int,
    components: list[tuple[str, int, str | None]],
    code: str,
    message: str | None,
) -> None:
    asked = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    reply = ask(broker, ALL[48], version, components=asked, strict=False)
    assert (reply.error_code.name, reply.error_message) == (code, message)
    assert reply.entries == (() if code == "none" else None)


def test_nobody_has_credentials(broker: Broker) -> None:
    api = ALL[50]
    assert ask(broker, api, 0, users=None).results == ()
    asked = [{"name": name} for name in ("a", "b", "a")]
    found = {each.user: each for each in ask(broker, api, 0, users=asked).results}
    assert {name: each.error_code.name for name, each in found.items()} == {
        "a": "duplicate_resource",
        "b": "resource_not_found",
    }
    assert found["b"].error_message == "Attempt to describe a user credential that does not exist: b"


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_this_node(broker: Broker, version: int) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    reply = ask(broker, ALL[55], version, topics=asked)
    assert reply.error_code.name == "none"
    (partition,) = reply.topics[0].partitions
    assert (partition.error_code.name, partition.leader_id) == ("none", 1)
    assert (partition.leader_epoch, partition.high_watermark) == (-1, -1)
    assert partition.observers == ()
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, -1)
    if version >= 2:
        (node,) = reply.nodes
        assert (node.node_id, node.listeners[0].port) == (1, broker.port)


def test_there_is_no_other_quorum(broker: Broker) -> None:
    broker.create_topic("a", 1, {})
    asked = [{"topic_name": "a", "partitions": [{"partition_index": 0}]}]
    reply = ask(broker, ALL[55], 2, topics=asked)
    assert reply.topics[0].partitions[0].error_code.name == "unknown_topic_or_partition"
    assert reply.nodes == ()


def resources(broker: Broker, *types: int) -> list[tuple[int, str]]:
    reply = ask(broker, ALL[74], 1, resource_types=list(types))
    assert reply.error_code.name == "none"
    return [(each.resource_type, each.resource_name) for each in reply.config_resources]


def test_what_can_have_configs(broker: Broker) -> None:
    for name in ("a", "b"):
        broker.create_topic(name, 1, {})
    topics = [(TOPIC, "a"), (TOPIC, "b")]
    assert resources(broker) == [(BROKER_LOGGER, "1"), (BROKER, "1"), *topics]
    assert resources(broker, TOPIC) == topics
    assert resources(broker, BROKER) == [(BROKER, "1")]
    assert resources(broker, CLIENT_METRICS, GROUP) == []
    api = ALL[74]
    assert ask(broker, api, 0).config_resources == ()
    assert ask(broker, api, 1, resource_types=[99]).error_code.name == "unsupported_version"


def test_features(broker: Broker) -> None:
    api = ALL[18]
    fields = {"client_software_name": "test", "client_software_version": "1"}
    for version, supported in ((3, []), (4, [("group.version", 0, 1), ("transaction.version", 0, 2)])):
        reply = ask(broker, api, version, **fields)
        assert [
            (each.name, each.min_version, each.max_version) for each in reply.supported_features
        ] == supported
        finalized = [(each.name, each.max_version_level) for each in reply.finalized_features]
        assert finalized == [("group.version", 1), ("transaction.version", 2)]
        # Java's clients do not believe an epoch of -1.
        assert reply.finalized_features_epoch >= 0
    assert ask(broker, api, 2).api_keys


def test_a_group_goes_by_the_configs_of_the_node(start: Callable[..., Broker]) -> None:
    broker = start(configs={"group.consumer.session.timeout.ms": "50000"})
    asked = [{"resource_type": 32, "resource_name": "g", "configuration_keys": None}]
    reply = ask(broker, ALL[32], 4, resources=asked, include_synonyms=False)
    (result,) = reply.results
    assert {each.name: (each.value, each.read_only) for each in result.configs} == {
        "consumer.heartbeat.interval.ms": ("5000", True),
        "consumer.session.timeout.ms": ("50000", True),
    }
