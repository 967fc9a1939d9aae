"""Classic groups.

JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), DescribeGroups (15), ListGroups (16),
DeleteGroups (42).
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.answers.conversation import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    SYNC_GROUP,
    Conversation,
    Topic,
    scenario,
    wait_until,
)
from tests.conformance.raw_client import RawClient

MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27
# Not the type of consumers: what members offer is theirs alone.
TYPE = "test"
OFFERS = (("first", b"one"), ("second", b"two"))


def join_fields(group_id: str, member_id: str = "", **fields: Any) -> dict[str, Any]:
    protocols = fields.pop("protocols", OFFERS)
    return {
        "group_id": group_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": member_id,
        "protocol_type": TYPE,
        "protocols": [{"name": name, "metadata": content} for name, content in protocols],
    } | fields


def sync_fields(group_id: str, member_id: str, generation: int, **fields: Any) -> dict[str, Any]:
    assignments = fields.pop("assignments", {})
    return {
        "group_id": group_id,
        "generation_id": generation,
        "member_id": member_id,
        "protocol_type": TYPE,
        "protocol_name": "first",
        "assignments": [{"member_id": each, "assignment": part} for each, part in assignments.items()],
    } | fields


def heartbeat_fields(group_id: str, member_id: str, generation: int, **fields: Any) -> dict[str, Any]:
    return {"group_id": group_id, "generation_id": generation, "member_id": member_id} | fields


class Member:
    """Joins on a connection of its own, in any version, without what it is told being noted."""

    def __init__(self, conversation: Conversation, group_id: str, **fields: Any) -> None:
        self.client: RawClient = conversation.another()
        self.group_id = group_id
        self.id = ""
        self.generation = -1
        self._protocol = ""
        self._fields = fields

    def start_joining(self, version: int) -> None:
        """Send JoinGroup; with an id, after one was given."""
        if not self.id and version >= 4:
            first = self.client.ask(
                JOIN_GROUP, version, **join_fields(self.group_id, self.id, **self._fields)
            )
            if first.error_code == MEMBER_ID_REQUIRED:
                self.id = first.member_id
        self.client.send(JOIN_GROUP, version, **join_fields(self.group_id, self.id, **self._fields))

    def joined(self, version: int) -> Any:
        reply = self.client.receive(JOIN_GROUP, version)
        self.id, self.generation = reply.member_id, reply.generation_id
        self._protocol = reply.protocol_name
        return reply

    def join(self, version: int) -> Any:
        self.start_joining(version)
        return self.joined(version)

    def sync(self, version: int = 5, **assignments: bytes) -> Any:
        fields = sync_fields(self.group_id, self.id, self.generation, assignments=assignments)
        fields |= {"protocol_type": self._fields.get("protocol_type", TYPE), "protocol_name": self._protocol}
        return self.client.ask(SYNC_GROUP, version, **fields)

    def heartbeat(self) -> int:
        fields = heartbeat_fields(self.group_id, self.id, self.generation)
        return int(self.client.ask(HEARTBEAT, 4, **fields).error_code)

    def wait_for_rebalance(self) -> None:
        wait_until(lambda: self.heartbeat() == REBALANCE_IN_PROGRESS)


def stable_member(
    conversation: Conversation, group_id: str, assigned: bytes = b"all", **fields: Any
) -> Member:
    """The only member of a group, with an assignment."""
    member = Member(conversation, group_id, **fields)
    assert member.join(9).error_code == 0
    assert member.sync(**{member.id: assigned}).error_code == 0
    return member


@scenario(range(10))
def join_group(conversation: Conversation, version: int) -> None:
    group_id = conversation.group()

    def ask(label: str, *arguments: str, **fields: Any) -> Any:
        return conversation.ask(JOIN_GROUP, version, label, **join_fields(*arguments, **fields))

    ask("empty group id", "")
    ask("session too short", group_id, session_timeout=5_999)
    ask("session too long", group_id, session_timeout=1_800_001)
    ask("somebody unknown", group_id, "nobody")
    ask("no protocols", group_id, protocols=())
    ask("no type", group_id, protocol_type="")
    first = ask("first", group_id)
    if version >= 4:
        first = ask("first, with its id", group_id, first.member_id)
    elif version < 4:
        conversation.note("leads", first.leader == first.member_id)
    ask("the same again", group_id, first.member_id)
    ask("somebody else", group_id, "nobody")
    ask("another type", group_id, first.member_id, protocol_type="other")
    ask("other protocols", group_id, first.member_id, protocols=(("third", b"three"),))
    ask("somebody new of another type", group_id, protocol_type="other")
    ask("somebody new with other protocols", group_id, protocols=(("third", b"three"),))
    if version >= 5:
        ask("instance without a name", conversation.group(), group_instance_id="")


@scenario(range(6))
def sync_group(conversation: Conversation, version: int) -> None:
    member = Member(conversation, conversation.group())
    member.join(9)

    def ask(label: str, generation: int | None = None, **fields: Any) -> Any:
        group_id = fields.pop("group_id", member.group_id)
        member_id = fields.pop("member_id", member.id)
        generation = member.generation if generation is None else generation
        asked = sync_fields(group_id, member_id, generation, **fields)
        return conversation.ask(SYNC_GROUP, version, label, **asked)

    ask("empty group id", group_id="")
    ask("unknown group", group_id=conversation.group())
    ask("unknown member", member_id="nobody")
    ask("an older generation", 0)
    ask("a generation to come", 9)
    if version >= 3:
        ask("unknown instance", group_instance_id="nobody")
    if version >= 5:
        ask("another type", protocol_type="other")
        ask("another protocol", protocol_name="second")
        ask("no type", protocol_type=None)
        ask("no protocol", protocol_name=None)
    ask("assignments", assignments={member.id: b"all", "nobody": b"none"})
    ask("again", assignments={member.id: b"other"})
    member.join(9)
    ask("an earlier generation", 1)
    ask("assigns nothing")


@scenario(range(5))
def heartbeat(conversation: Conversation, version: int) -> None:
    member = Member(conversation, conversation.group())

    def ask(label: str, group_id: str, member_id: str, generation: int, **fields: Any) -> None:
        asked = heartbeat_fields(group_id, member_id, generation, **fields)
        conversation.ask(HEARTBEAT, version, label, **asked)

    ask("empty group id", "", "nobody", 1)
    ask("unknown group", conversation.group(), "nobody", 1)
    member.join(9)
    ask("while the leader assigns", member.group_id, member.id, 1)
    member.sync(**{member.id: b"all"})
    ask("all is well", member.group_id, member.id, 1)
    ask("unknown member", member.group_id, "nobody", 1)
    ask("another generation", member.group_id, member.id, 2)
    if version >= 3:
        ask("unknown instance", member.group_id, member.id, 1, group_instance_id="nobody")
    other = Member(conversation, member.group_id)
    other.start_joining(9)
    member.wait_for_rebalance()
    ask("in a rebalance", member.group_id, member.id, 1)


@scenario(range(10))
def rebalance(conversation: Conversation, version: int) -> None:
    """Two members: the second waits for the first to come again, the follower waits for the leader."""
    group_id = conversation.group()
    first = Member(conversation, group_id, protocols=(("first", b"a1"), ("second", b"a2")))
    second = Member(conversation, group_id, protocols=(("second", b"b2"), ("first", b"b1")))

    def describe(label: str) -> None:
        conversation.ask(DESCRIBE_GROUPS, 6, label, groups=[group_id])

    conversation.note_reply("first joins", first.join(version))
    describe("one has joined")
    conversation.note_reply("first has all", first.sync(**{first.id: b"all"}))
    describe("stable")
    second.start_joining(version)
    first.wait_for_rebalance()
    describe("the second waits")
    conversation.note_reply("first again", first.join(version))
    conversation.note_reply("second joins", second.joined(version))
    describe("both have joined")
    sync = sync_fields(group_id, second.id, second.generation)
    second.client.send(SYNC_GROUP, 5, **sync)
    describe("the follower waits")
    conversation.note_reply("leader", first.sync(**{first.id: b"half", second.id: b"rest"}))
    conversation.note_reply("follower", second.client.receive(SYNC_GROUP, 5))
    describe("both have their part")
    leaving = {"group_id": group_id, "member_id": second.id, "members": [{"member_id": second.id}]}
    conversation.ask(LEAVE_GROUP, min(version, 5), "second leaves", **leaving)
    first.wait_for_rebalance()
    describe("the second has left")
    conversation.note_reply("first alone", first.join(version))
    leaving = {"group_id": group_id, "member_id": first.id, "members": [{"member_id": first.id}]}
    conversation.ask(LEAVE_GROUP, min(version, 5), "first leaves", **leaving)
    describe("nobody is left")


@scenario(range(5, 10))
def static_members(conversation: Conversation, version: int) -> None:
    """KIP-345: who comes back under its name gets its assignment back, and its former self is fenced."""
    group_id = conversation.group()
    first = Member(conversation, group_id, group_instance_id="one")
    conversation.note_reply("joins", first.join(version))
    conversation.note_reply("assigns", first.sync(**{first.id: b"all"}))
    again = Member(conversation, group_id, group_instance_id="one")
    conversation.note_reply("comes back", again.join(version))
    former = {"group_instance_id": "one"}
    asked = heartbeat_fields(group_id, first.id, first.generation, **former)
    conversation.ask(HEARTBEAT, 4, "its former self", **asked)
    asked = sync_fields(group_id, first.id, first.generation, **former)
    conversation.ask(SYNC_GROUP, 5, "its former self syncs", **asked)
    asked = join_fields(group_id, first.id, **former)
    conversation.ask(JOIN_GROUP, version, "its former self joins", **asked)
    conversation.note_reply("what it has", again.sync())
    conversation.ask(DESCRIBE_GROUPS, 6, "described", groups=[group_id])
    other = {"protocols": (("first", b"other"),), **former}
    asked = join_fields(group_id, again.id, **other)
    conversation.ask(JOIN_GROUP, version, "with another subscription", **asked)


@scenario(range(6))
def leave_group(conversation: Conversation, version: int) -> None:
    def ask(label: str, group_id: str, *members: dict[str, Any]) -> None:
        single = members[0].get("member_id", "") if members else ""
        fields = {"group_id": group_id, "member_id": single, "members": list(members)}
        conversation.ask(LEAVE_GROUP, version, label, **fields)

    nobody = {"member_id": "nobody"}
    ask("empty group id", "", nobody)
    ask("unknown group", conversation.group(), nobody)
    member = stable_member(conversation, conversation.group())
    ask("unknown member", member.group_id, nobody)
    if version >= 3:
        static = Member(conversation, conversation.group(), group_instance_id="one")
        static.join(9)
        ask("nobody at all", static.group_id)
        ask("no id", static.group_id, {"member_id": ""})
        ask("unknown instance", static.group_id, {"member_id": "", "group_instance_id": "two"})
        ask("fenced", static.group_id, {"member_id": "other", "group_instance_id": "one"})
        both = ({"member_id": "", "group_instance_id": "one"}, nobody)
        ask("by instance, and somebody unknown", static.group_id, *both)
    pending = conversation.client.ask(JOIN_GROUP, 9, **join_fields(conversation.group()))
    conversation.note_reply("given an id", pending)
    ask("leaves", member.group_id, {"member_id": member.id})
    ask("leaves again", member.group_id, {"member_id": member.id})


@scenario(range(7))
def describe_groups(conversation: Conversation, version: int) -> None:
    member = stable_member(conversation, conversation.group())
    alone = conversation.group()
    commit(conversation, alone)

    def ask(label: str, *group_ids: str, **fields: Any) -> None:
        conversation.ask(DESCRIBE_GROUPS, version, label, groups=group_ids, **fields)

    ask("nothing")
    ask("a stable one", member.group_id)
    ask("nothing but offsets", alone)
    ask("unknown", conversation.group())
    ask("empty id", "")
    ask("several", alone, member.group_id, conversation.group())
    if version >= 3:
        ask("operations", member.group_id, include_authorized_operations=True)
        ask("operations of nobody", conversation.group(), include_authorized_operations=True)
    consumers = conversation.group()
    consumer_group(conversation, consumers)
    ask("of the newer protocol", consumers)


@scenario(range(6))
def list_groups(conversation: Conversation, version: int) -> None:
    stable_member(conversation, conversation.group())
    commit(conversation, conversation.group())
    consumer_group(conversation, conversation.group())

    def ask(label: str, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> None:
        conversation.ask(LIST_GROUPS, version, label, states_filter=states, types_filter=types)

    ask("all")
    if version >= 4:
        for states in (("Stable",), ("sTABLE", "Dead"), ("Empty",), ("no such state",), ("",)):
            ask(f"states {states}", states)
    if version >= 5:
        for types in (("classic",), ("CONSUMER",), ("classic", "consumer"), ("no such type",), ("share",)):
            ask(f"types {types}", types=types)
        ask("both", ("Empty",), ("classic",))


@scenario(range(3))
def delete_groups(conversation: Conversation, version: int) -> None:
    def ask(label: str, *group_ids: str) -> None:
        conversation.ask(DELETE_GROUPS, version, label, groups_names=group_ids)

    member = stable_member(conversation, conversation.group())
    alone, other = conversation.group(), conversation.group()
    commit(conversation, alone)
    commit(conversation, other)
    ask("nothing")
    ask("with members", member.group_id)
    ask("unknown", conversation.group())
    ask("several", alone, member.group_id, conversation.group())
    ask("again", alone)
    ask("twice in one request", other, other)
    conversation.ask(DESCRIBE_GROUPS, 6, "gone", groups=[alone])
    consumers = conversation.group()
    consumer_group(conversation, consumers)
    ask("of the newer protocol, with members", consumers)


def known_topic(conversation: Conversation, partitions: int = 1) -> Topic:
    """A topic that the group coordinator knows of: Apache Kafka's hears of it a little later than others."""
    topic = conversation.topic(partitions=partitions)

    def assigned() -> bool:
        reply = conversation.client.ask(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=uuid.uuid4().hex,
            member_id="one",
            member_epoch=0,
            rebalance_timeout=30_000,
            subscribed_topic_names=[topic.name],
            topic_partitions=[],
        )
        return bool(reply.assignment.topic_partitions)

    wait_until(assigned)
    return topic


def commit(conversation: Conversation, group_id: str) -> None:
    """Makes a group that is nothing but an offset."""
    topic = conversation.topic()
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    reply = conversation.client.ask(
        OFFSET_COMMIT,
        9,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic.name, "partitions": [partition]}],
    )
    assert reply.topics[0].partitions[0].error_code == 0, reply


def consumer_group(conversation: Conversation, group_id: str) -> None:
    """A group of the consumer protocol with one member."""
    reply = conversation.client.ask(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id="member",
        member_epoch=0,
        rebalance_timeout=30_000,
        subscribed_topic_names=["no-such-topic"],
        topic_partitions=[],
    )
    assert reply.error_code == 0, reply
