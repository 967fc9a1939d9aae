"""What consoles and tools of operators ask: DescribeAcls (29), ElectLeaders (43), AlterPartitionReassignments
(45), ListPartitionReassignments (46), DescribeClientQuotas (48), DescribeUserScramCredentials (50),
DescribeQuorum (55), ListConfigResources (74)."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.answers.conversation import Conversation, scenario
from tests.conformance.answers.likeness import RECENT_MS
from tests.conformance.raw_client import plain

DESCRIBE_ACLS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 29, 43, 45, 46
DESCRIBE_QUOTAS, DESCRIBE_SCRAM, DESCRIBE_QUORUM, LIST_CONFIG_RESOURCES = 48, 50, 55, 74
ANY = 1
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@scenario(range(1, 4))
def describe_acls(conversation: Conversation, version: int) -> None:
    anything = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    conversation.ask(DESCRIBE_ACLS, version, "all", **anything)
    conversation.ask(DESCRIBE_ACLS, version, "of a topic", **{**anything, "resource_name_filter": "t"})
    conversation.ask(DESCRIBE_ACLS, version, "unknown type", **{**anything, "resource_type_filter": 99})


@scenario(range(3))
def elect_leaders(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    kinds = [("preferred", 0), ("unclean", 1), ("unknown kind", 7)] if version else [("preferred", None)]
    for label, kind in kinds:
        fields: dict[str, Any] = {} if kind is None else {"election_type": kind}
        for asked, topics in {
            "partitions": [{"topic": topic.name, "partitions": [1, 0]}],
            "unknown partition": [{"topic": topic.name, "partitions": [0, 9]}],
            "unknown topic": [{"topic": "no-such-topic", "partitions": [0]}],
            "bad name": [{"topic": "a/b", "partitions": [0]}],
            "no partitions": [{"topic": topic.name, "partitions": []}],
            "none": [],
        }.items():
            conversation.ask(
                ELECT_LEADERS, version, f"{label}, {asked}", topic_partitions=topics, timeout=30_000, **fields
            )
        reply = conversation.ask_quietly(
            ELECT_LEADERS, version, topic_partitions=None, timeout=30_000, **fields
        )
        ours = [plain(each) for each in reply.replica_election_results if each.topic == topic.name]
        conversation.note(f"{label}, all", ours)


@scenario(range(2))
def alter_partition_reassignments(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    choices = ({}, {"allow_replication_factor_change": False}) if version else ({},)
    for fields in choices:
        for label, name, partition, replicas in (
            ("to itself", topic.name, 0, [1]),
            ("to another", topic.name, 0, [2]),
            ("to two", topic.name, 0, [1, 2]),
            ("to one twice", topic.name, 1, [1, 1]),
            ("to none", topic.name, 1, []),
            ("to a negative one", topic.name, 1, [-1]),
            ("called off", topic.name, 1, None),
            ("unknown partition", topic.name, 9, [1]),
            ("unknown topic", "no-such-topic", 0, [1]),
            ("unknown topic called off", "no-such-topic", 0, None),
        ):
            partitions = [{"partition_index": partition, "replicas": replicas}]
            conversation.ask(
                ALTER_REASSIGNMENTS,
                version,
                label,
                timeout=30_000,
                topics=[{"name": name, "partitions": partitions}],
                **fields,
            )
    several = [{"partition_index": 1, "replicas": [1]}, {"partition_index": 0, "replicas": None}]
    topics = [{"name": topic.name, "partitions": several}]
    conversation.ask(ALTER_REASSIGNMENTS, version, "several", timeout=30_000, topics=topics)
    conversation.ask(ALTER_REASSIGNMENTS, version, "nothing", timeout=30_000, topics=[])


@scenario(range(1))
def list_partition_reassignments(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    for label, topics in {
        "all": None,
        "none": [],
        "one": [{"name": topic.name, "partition_indexes": [0]}],
        "unknown partition": [{"name": topic.name, "partition_indexes": [9]}],
        "unknown topic": [{"name": "no-such-topic", "partition_indexes": [0]}],
    }.items():
        conversation.ask(LIST_REASSIGNMENTS, version, label, timeout=30_000, topics=topics)


@scenario(range(2))
def describe_client_quotas(conversation: Conversation, version: int) -> None:
    exact, default, specified, unknown = range(4)
    for label, components in {
        "all": [],
        "a user": [("user", exact, "nobody")],
        "the default user": [("user", default, None)],
        "every user": [("user", specified, None)],
        "user and client": [("user", exact, "nobody"), ("client-id", specified, None)],
        "an address": [("ip", exact, "10.0.0.1")],
        "address and user": [("ip", exact, "10.0.0.1"), ("user", specified, None)],
        "twice": [("user", exact, "a"), ("user", exact, "b")],
        "no type": [("", exact, "a")],
        "unknown type": [("colour", exact, "red")],
        "no name": [("user", exact, None)],
        "default with a name": [("user", default, "a")],
        "any with a name": [("user", specified, "a")],
        "unknown match": [("user", unknown, None)],
    }.items():
        for strict in (False, True):
            conversation.ask(
                DESCRIBE_QUOTAS,
                version,
                f"{label}, strict {strict}",
                components=[
                    {"entity_type": kind, "match_type": match_type, "match": match}
                    for kind, match_type, match in components
                ],
                strict=strict,
            )


@scenario(range(1))
def describe_user_scram_credentials(conversation: Conversation, version: int) -> None:
    for label, users in {"all": None, "none": [], "one": ["a"], "twice": ["a", "a"]}.items():
        asked = None if users is None else [{"name": name} for name in users]
        conversation.ask(DESCRIBE_SCRAM, version, label, users=asked)


@scenario(range(3))
def describe_quorum(conversation: Conversation, version: int) -> None:
    for label, topics in {
        "metadata": [("__cluster_metadata", [0])],
        "unknown partition": [("__cluster_metadata", [1])],
        "two partitions": [("__cluster_metadata", [0, 1])],
        "another topic": [("no-such-topic", [0])],
        "two topics": [("__cluster_metadata", [0]), ("no-such-topic", [0])],
        "no partitions": [("__cluster_metadata", [])],
        "nothing": [],
    }.items():
        reply = conversation.ask_quietly(
            DESCRIBE_QUORUM,
            version,
            topics=[
                {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
                for name, indexes in topics
            ],
        )
        conversation.note(label, _without_times(plain(reply)))


def _without_times(answer: Any) -> Any:
    """Times near the present read alike."""
    if isinstance(answer, dict):
        return {
            name: "<now>"
            if name.endswith("_timestamp") and abs(value - time.time() * 1000) < RECENT_MS
            else _without_times(value)
            for name, value in answer.items()
        }
    return [_without_times(each) for each in answer] if isinstance(answer, list) else answer


@scenario(range(2))
def list_config_resources(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    types: dict[str, list[int]] = {"all": []}
    if version:
        types |= {
            "topics": [TOPIC],
            "this node": [BROKER],
            "loggers": [BROKER_LOGGER],
            "metrics": [CLIENT_METRICS],
            "groups and loggers and brokers": [GROUP, BROKER, BROKER_LOGGER],
            "twice": [BROKER, BROKER],
            "unknown type": [BROKER, 99],
            "unknown type only": [0],
        }
    for label, wanted in types.items():
        fields = {"resource_types": wanted} if version else {}
        reply = conversation.ask_quietly(LIST_CONFIG_RESOURCES, version, **fields)
        # Other tests have topics and configs of groups too.
        ours = [
            plain(each)
            for each in reply.config_resources
            if getattr(each, "resource_type", CLIENT_METRICS) not in (TOPIC, GROUP)
            or each.resource_name == topic.name
        ]
        conversation.note(label, {"error_code": reply.error_code.name, "found": ours})
