"""The APIs of groups over a socket, in every version; in detail what they answer is compared with Apache
Kafka (`tests/conformance/answers/`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.served_broker import ServedBroker, served

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
DELETE_GROUPS, CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 42, 68, 69
NOT_ASKED_FOR = -(2**31)
ON_GROUP = 3400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def join(broker: ServedBroker, group_id: str, version: int = 9, **fields: Any) -> Any:
    """The reply to a join, with the id that the first one gave."""
    asked = {
        "group_id": group_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "test",
        "protocols": [{"name": "first", "metadata": b"mine"}],
    } | fields
    reply = broker.ask(JOIN_GROUP, version, **asked)
    if reply["error_code"] == "member_id_required":
        asked["member_id"] = reply["member_id"]
        reply = broker.ask(JOIN_GROUP, version, **asked)
    return reply


def sync(broker: ServedBroker, group_id: str, member: Any, version: int = 5, **fields: Any) -> Any:
    asked = {
        "group_id": group_id,
        "generation_id": member["generation_id"],
        "member_id": member["member_id"],
        "protocol_type": "test",
        "protocol_name": "first",
        "assignments": [{"member_id": member["member_id"], "assignment": b"all"}],
    } | fields
    return broker.ask(SYNC_GROUP, version, **asked)


@pytest.mark.parametrize("version", range(10))
def test_the_life_of_a_member(broker: ServedBroker, group_id: str, version: int) -> None:
    member = join(broker, group_id, version)
    assert member["error_code"] == "none"
    assert member["leader"] == member["member_id"]
    assert member["member_id"].startswith("conformance-")
    assert [each["metadata"] for each in member["members"]] == [b"mine"]
    assert member["protocol_name"] == "first"
    synced = sync(broker, group_id, member, min(version, 5))
    assert (synced["error_code"], synced["assignment"]) == ("none", b"all")
    one = {"group_id": group_id, "member_id": member["member_id"]}
    heartbeat = broker.ask(HEARTBEAT, min(version, 4), **one, generation_id=1)
    assert heartbeat["error_code"] == "none"
    members = [{"member_id": member["member_id"], "group_instance_id": None}]
    left = broker.ask(LEAVE_GROUP, min(version, 5), **one, members=members)
    assert left["error_code"] == "none"
    again = broker.ask(LEAVE_GROUP, min(version, 5), **one, members=members)
    if version < 3:
        assert again["error_code"] == "unknown_member_id"
    else:
        assert again["error_code"] == "none"
        assert [each["error_code"] for each in again["members"]] == ["unknown_member_id"]


def test_a_protocol_that_is_none_is_null_where_the_version_can_say_so(broker: ServedBroker) -> None:
    for version, protocol in ((6, ""), (7, None)):
        refused = join(broker, "", version)
        assert (refused["error_code"], refused["protocol_name"]) == ("invalid_group_id", protocol)


def test_a_member_says_which_protocol_it_is_in(broker: ServedBroker, group_id: str) -> None:
    member = join(broker, group_id)
    for missing in ("protocol_type", "protocol_name"):
        refused = sync(broker, group_id, member, **{missing: None})
        assert refused["error_code"] == "inconsistent_group_protocol"
    assert sync(broker, group_id, member)["error_code"] == "none"


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(broker: ServedBroker, group_id: str, version: int) -> None:
    member = join(broker, group_id, group_instance_id="one")
    sync(broker, group_id, member)
    asked = [group_id, "no-such-group"]
    reply = broker.ask(DESCRIBE_GROUPS, version, groups=asked, include_authorized_operations=True)
    known, unknown = reply["groups"]
    assert (known["group_state"], known["protocol_type"], known["protocol_data"]) == (
        "Stable",
        "test",
        "first",
    )
    (one,) = known["members"]
    assert one["client_host"] == "/127.0.0.1"
    assert one["client_id"] == "conformance"
    assert (one["member_metadata"], one["member_assignment"]) == (b"mine", b"all")
    assert version < 4 or one["group_instance_id"] == "one"
    assert version < 3 or known["authorized_operations"] == ON_GROUP
    assert unknown["group_state"] == "Dead"
    if version < 6:
        assert unknown["error_code"] == "none"
    else:
        assert (unknown["error_code"], unknown["error_message"]) == (
            "group_id_not_found",
            "Group no-such-group not found.",
        )
        assert unknown["authorized_operations"] == NOT_ASKED_FOR


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(broker: ServedBroker, group_id: str, version: int) -> None:
    join(broker, group_id)

    def listed(**filters: Any) -> list[Any]:
        groups = broker.ask(LIST_GROUPS, version, **filters)["groups"]
        return [each for each in groups if each["group_id"] == group_id]

    (found,) = listed()
    assert found["protocol_type"] == "test"
    if version >= 4:
        assert found["group_state"] == "CompletingRebalance"
        assert listed(states_filter=["Stable"]) == []
        assert listed(states_filter=["completingrebalance"]) == [found]
    if version >= 5:
        assert found["group_type"] == "classic"
        assert listed(types_filter=["consumer"]) == []


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(broker: ServedBroker, group_id: str, version: int) -> None:
    member = join(broker, group_id)
    asked = [group_id, "no-such-group", group_id]

    def delete() -> dict[str, str]:
        results = broker.ask(DELETE_GROUPS, version, groups_names=asked)["results"]
        assert len(results) == 2
        return {each["group_id"]: each["error_code"] for each in results}

    assert delete() == {group_id: "non_empty_group", "no-such-group": "group_id_not_found"}
    members = [{"member_id": member["member_id"]}]
    broker.ask(LEAVE_GROUP, 5, group_id=group_id, members=members)
    assert delete()[group_id] == "none"
    assert delete()[group_id] == "group_id_not_found"


@pytest.mark.parametrize("version", range(2))
def test_consumer_groups(broker: ServedBroker, group_id: str, version: int) -> None:
    topic = f"topic-{version}"
    broker.create(topic, 3)
    member_id = "" if version == 0 else "mine"
    joining = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    joined = broker.ask(CONSUMER_GROUP_HEARTBEAT, version, **joining)
    assert joined["error_code"] == "none"
    assert joined["member_id"] == member_id or (version == 0 and joined["member_id"])
    assert joined["heartbeat_interval"] == 5_000
    (assigned,) = joined["assignment"]["topic_partitions"]
    assert assigned["partitions"] == [0, 1, 2]
    refused = broker.ask(CONSUMER_GROUP_HEARTBEAT, version, **joining | {"rebalance_timeout": -1})
    assert (refused["error_code"], refused["error_message"]) == (
        "invalid_request",
        "RebalanceTimeoutMs must be provided in first request.",
    )
    reply = broker.ask(CONSUMER_GROUP_DESCRIBE, version, group_ids=[group_id, "no-such-group"])
    known, unknown = reply["groups"]
    assert (known["group_state"], known["assignor_name"]) == ("Stable", "uniform")
    (member,) = known["members"]
    assert member["client_host"] == "/127.0.0.1"
    assert member["assignment"] == member["target_assignment"]
    (described,) = member["assignment"]["topic_partitions"]
    assert (described["topic_name"], described["partitions"]) == (topic, [0, 1, 2])
    assert version == 0 or member["member_type"] == 1
    assert unknown["error_code"] == "group_id_not_found"
    left = broker.ask(
        CONSUMER_GROUP_HEARTBEAT, version, group_id=group_id, member_id=joined["member_id"], member_epoch=-1
    )
    assert left["error_code"] == "none"


def test_the_consumer_protocol_can_be_switched_off(tmp_path: Path) -> None:
    with served(tmp_path / "data", configs={"group.coordinator.rebalance.protocols": "classic"}) as broker:
        asked = {"group_id": "g", "member_id": "m", "member_epoch": 0}
        reply = broker.ask(CONSUMER_GROUP_HEARTBEAT, 1, **asked)
        assert reply["error_code"] == "unsupported_version"
        (group,) = broker.ask(CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])["groups"]
        assert group["error_code"] == "unsupported_version"


def test_while_groups_are_being_loaded(tmp_path: Path) -> None:
    """Clients are told to come again, each in the place where its version looks for it."""
    with served(tmp_path / "data") as broker:
        join(broker, "g")

        def unload(broker: Any) -> None:
            for shard in list(broker.groups.shards):
                shard.loaded = False

        broker.do(unload)
        loading = "coordinator_load_in_progress"
        assert join(broker, "g")["error_code"] == loading
        member = {"member_id": "m", "generation_id": 1}
        assert sync(broker, "g", member)["error_code"] == loading
        # A member has nothing to do about it.
        assert broker.ask(HEARTBEAT, 4, group_id="g", **member)["error_code"] == "none"
        assert broker.ask(LEAVE_GROUP, 5, group_id="g", members=[])["error_code"] == loading
        assert broker.ask(LIST_GROUPS, 5)["error_code"] == loading
        for key, field, answers in (
            (DESCRIBE_GROUPS, "groups", "groups"),
            (DELETE_GROUPS, "groups_names", "results"),
            (CONSUMER_GROUP_DESCRIBE, "group_ids", "groups"),
        ):
            (answer,) = broker.ask(key, {15: 6, 42: 2, 69: 1}[key], **{field: ["g"]})[answers]
            assert answer["error_code"] == loading
        heartbeat = {"group_id": "g", "member_id": "m", "member_epoch": 1}
        assert broker.ask(CONSUMER_GROUP_HEARTBEAT, 1, **heartbeat)["error_code"] == loading
