"""OffsetCommit, OffsetFetch and OffsetDelete over a socket, in every version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.served_broker import ServedBroker, served
from tests.conformance.answers.conversation import wait_until

OFFSET_COMMIT, OFFSET_FETCH, METADATA, OFFSET_DELETE = 8, 9, 3, 47
CONSUMER_GROUP_HEARTBEAT = 68
TOPIC, OTHER = "topic", "other"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served(tmp_path_factory.mktemp("broker")) as broker:
        broker.create(TOPIC, 3)
        broker.create(OTHER)
        yield broker


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def topic_id(broker: ServedBroker, name: str) -> uuid.UUID:
    found: uuid.UUID = broker.do(lambda inside: inside.logs.topics[name].id)
    return found


def commit(
    broker: ServedBroker, group_id: str, version: int, name: str, *offsets: dict[str, Any], **fields: Any
) -> dict[int, str]:
    """The error of each partition."""
    known = broker.do(lambda inside: name in inside.logs.topics)
    topics = [
        {
            "name": name,
            "topic_id": topic_id(broker, name) if known else uuid.uuid4(),
            "partitions": list(offsets),
        }
    ]
    asked = {"group_id": group_id, "topics": topics, "retention_time": -1} | fields
    (topic,) = broker.ask(OFFSET_COMMIT, version, **asked)["topics"]
    assert topic.get("name", name) == name
    return {each["partition_index"]: each["error_code"] for each in topic["partitions"]}


def offset(partition: int, number: int, **fields: Any) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": number, "committed_metadata": "note"} | fields


def fetch(
    broker: ServedBroker, group_id: str, version: int, *names: str, partitions: tuple[int, ...] = (0, 1)
) -> dict[tuple[Any, int], tuple[int, str]]:
    """Offset and metadata by topic (its id from version 10 on) and partition; without names of all."""
    topics = [
        {"name": name, "topic_id": topic_id(broker, name), "partition_indexes": partitions} for name in names
    ]
    group = {"group_id": group_id, "topics": topics or None}
    reply = broker.ask(OFFSET_FETCH, version, **group, groups=[group])
    (answer,) = reply["groups"] if version >= 8 else (reply,)
    assert answer.get("error_code", "none") == "none"
    return {
        (topic["name"] if version < 10 else topic["topic_id"], each["partition_index"]): (
            each["committed_offset"],
            each["metadata"],
        )
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


@pytest.mark.parametrize("version", range(2, 11))
def test_commit(broker: ServedBroker, group_id: str, version: int) -> None:
    assert commit(broker, group_id, version, TOPIC, offset(0, 5), offset(2, 7), offset(9, 1)) == {
        0: "none",
        2: "none",
        9: "unknown_topic_or_partition",
    }
    unknown = "unknown_topic_id" if version >= 10 else "unknown_topic_or_partition"
    assert commit(broker, group_id, version, "no-such-topic", offset(0, 5)) == {0: unknown}
    assert fetch(broker, group_id, 7) == {(TOPIC, 0): (5, "note"), (TOPIC, 2): (7, "note")}
    missing = "group_id_not_found" if version >= 9 else "illegal_generation"
    generation = {"generation_id_or_member_epoch": 3, "member_id": "nobody"}
    assert commit(broker, "no-such-group", version, TOPIC, offset(0, 5), **generation) == {0: missing}


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch(broker: ServedBroker, group_id: str, version: int) -> None:
    commit(broker, group_id, 9, TOPIC, offset(0, 5))
    commit(broker, group_id, 9, OTHER, offset(0, 6, committed_metadata=None))
    name: dict[str, Any] = {each: each for each in (TOPIC, OTHER)}
    if version >= 10:
        name = {each: topic_id(broker, each) for each in (TOPIC, OTHER)}
    assert fetch(broker, group_id, version, TOPIC) == {
        (name[TOPIC], 0): (5, "note"),
        (name[TOPIC], 1): (-1, ""),
    }
    assert fetch(broker, "no-such-group", version, TOPIC) == {
        (name[TOPIC], 0): (-1, ""),
        (name[TOPIC], 1): (-1, ""),
    }
    if version >= 2:
        assert fetch(broker, group_id, version) == {
            (name[TOPIC], 0): (5, "note"),
            (name[OTHER], 0): (6, ""),
        }


def test_fetch_of_several_groups(broker: ServedBroker, group_id: str) -> None:
    commit(broker, group_id, 10, TOPIC, offset(0, 5))
    ids = [{"topic_id": each, "partition_indexes": [0]} for each in (uuid.uuid4(), topic_id(broker, TOPIC))]
    groups = [{"group_id": each, "topics": ids} for each in (group_id, "no-such-group")]
    replies = broker.ask(OFFSET_FETCH, 10, groups=groups)["groups"]
    assert [each["group_id"] for each in replies] == [group_id, "no-such-group"]
    for reply, expected in zip(replies, (5, -1), strict=True):
        # As from Apache Kafka: what is not known comes last.
        (known,), (unknown,) = (each["partitions"] for each in reply["topics"])
        assert (unknown["error_code"], unknown["committed_offset"]) == ("unknown_topic_id", -1)
        assert (known["error_code"], known["committed_offset"]) == ("none", expected)


def test_an_offset_belongs_to_a_topic_not_to_its_name(tmp_path: Path) -> None:
    with served(tmp_path / "data") as broker:
        broker.create(TOPIC)
        commit(broker, "g", 10, TOPIC, offset(0, 5))
        broker.do(lambda inside: inside.delete_topic(TOPIC))
        broker.create(TOPIC)
        assert fetch(broker, "g", 9, TOPIC, partitions=(0,)) == {(TOPIC, 0): (-1, "")}
        assert fetch(broker, "g", 9) == {}


def test_an_offset_of_a_topic_whose_deletion_was_not_noted(tmp_path: Path) -> None:
    """As when the broker ended in between, or was loading the group."""
    with served(tmp_path / "data") as broker:
        broker.create(TOPIC)
        broker.create(OTHER)
        commit(broker, "g", 10, TOPIC, offset(0, 5))
        commit(broker, "g", 10, OTHER, offset(0, 6))
        broker.do(lambda inside: inside.logs.delete_topic(TOPIC))
        broker.create(TOPIC)
        for version, name in ((9, TOPIC), (10, topic_id(broker, TOPIC))):
            assert fetch(broker, "g", version, TOPIC, partitions=(0,)) == {(name, 0): (-1, "")}
        assert fetch(broker, "g", 9) == {(OTHER, 0): (6, "note")}


def test_offsets_that_were_asked_to_go_go(tmp_path: Path) -> None:
    """Versions 2 to 4 say how long an offset is kept."""
    with served(tmp_path / "data", configs={"offsets.retention.check.interval.ms": "20"}) as broker:
        broker.create(TOPIC)
        commit(broker, "g", 9, TOPIC, offset(0, 5))
        commit(broker, "g", 4, TOPIC, offset(0, 5), retention_time=1)
        wait_until(lambda: not fetch(broker, "g", 9))


def test_delete(broker: ServedBroker, group_id: str) -> None:
    commit(broker, group_id, 9, TOPIC, offset(0, 5), offset(1, 6))

    def delete(asked_group: str, *partitions: int) -> Any:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": each} for each in partitions]}]
        reply = broker.ask(OFFSET_DELETE, 0, group_id=asked_group, topics=topics)
        found = [
            (each["partition_index"], each["error_code"])
            for topic in reply["topics"]
            for each in topic["partitions"]
        ]
        return reply["error_code"], found

    assert delete(group_id, 0, 7) == ("none", [(7, "unknown_topic_or_partition"), (0, "none")])
    assert fetch(broker, group_id, 9) == {(TOPIC, 1): (6, "note")}
    assert delete("no-such-group", 0) == ("group_id_not_found", [])
    assert delete("", 0) == ("invalid_group_id", [])


def test_a_late_commit_of_a_consumer(broker: ServedBroker, group_id: str) -> None:
    """KIP-1251: with an older epoch a member commits what it has had since then, and nothing else."""
    broker.create("late", 2)
    late = topic_id(broker, "late")

    def beat(member_id: str, epoch: int, **fields: Any) -> Any:
        asked = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch} | fields
        reply = broker.ask(CONSUMER_GROUP_HEARTBEAT, 1, **asked)
        assert reply["error_code"] == "none"
        return reply

    joining = {"rebalance_timeout": 30_000, "subscribed_topic_names": ["late"], "topic_partitions": []}
    first = beat("first", 0, **joining)
    beat("second", 0, **joining)
    owned = first
    while owned["member_epoch"] == first["member_epoch"]:
        # It is told what to give up, and gives it up.
        told = beat("first", owned["member_epoch"])
        kept = told["assignment"]["topic_partitions"] if told["assignment"] else None
        owned = beat("first", told["member_epoch"], topic_partitions=kept) if kept is not None else told
        if kept is not None:
            (mine,) = kept[0]["partitions"]
    who = {"member_id": "first", "generation_id_or_member_epoch": first["member_epoch"]}
    other = 1 - mine
    assert commit(broker, group_id, 9, "late", offset(mine, 5), **who) == {mine: "none"}
    refused = {mine: "stale_member_epoch", other: "stale_member_epoch"}
    assert commit(broker, group_id, 10, "late", offset(mine, 6), offset(other, 6), **who) == refused
    assert fetch(broker, group_id, 10, "late") == {(late, mine): (5, "note"), (late, other): (-1, "")}


def test_while_groups_are_being_loaded(tmp_path: Path) -> None:
    with served(tmp_path / "data") as broker:
        broker.create(TOPIC)
        commit(broker, "g", 9, TOPIC, offset(0, 5))

        def unload(inside: Any) -> None:
            for shard in list(inside.groups.shards):
                shard.loaded = False

        broker.do(unload)
        loading = "coordinator_load_in_progress"
        assert commit(broker, "g", 9, TOPIC, offset(0, 5), offset(7, 1)) == {
            0: loading,
            7: "unknown_topic_or_partition",
        }
        asked = {"group_id": "g", "topics": [{"name": TOPIC, "partition_indexes": [0, 1]}]}
        oldest = broker.ask(OFFSET_FETCH, 1, **asked)
        (topic,) = oldest["topics"]
        assert [each["error_code"] for each in topic["partitions"]] == [loading, loading]
        newer = broker.ask(OFFSET_FETCH, 2, **asked)
        assert (newer["error_code"], newer["topics"]) == (loading, [])
        (group,) = broker.ask(OFFSET_FETCH, 9, groups=[asked])["groups"]
        assert (group["error_code"], group["topics"]) == (loading, [])
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        assert broker.ask(OFFSET_DELETE, 0, group_id="g", topics=topics)["error_code"] == loading
