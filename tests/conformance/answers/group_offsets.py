"""Offsets of groups: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47)."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from tests.conformance.answers.conversation import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Conversation,
    Topic,
    scenario,
)
from tests.conformance.answers.groups import known_topic, stable_member

NOBODY = Topic(name="no-such-topic", id=uuid.UUID("0f9ae7b0-3b43-4a5e-9c5f-3d6b5c9cbb10"))
NO_ID = Topic(name="", id=uuid.UUID(int=0))


def offset(partition: int = 0, number: int = 5, **fields: Any) -> dict[str, Any]:
    return {"partition_index": partition, "committed_offset": number, "committed_metadata": "note"} | fields


def commit_fields(group_id: str, *topics: tuple[Topic, tuple[dict[str, Any], ...]], **fields: Any) -> Any:
    named = [
        {"name": topic.name, "topic_id": topic.id, "partitions": list(partitions)}
        for topic, partitions in topics
    ]
    return {"group_id": group_id, "topics": named, "retention_time": -1} | fields


def fetch_fields(
    group_id: str, topics: tuple[tuple[Topic, tuple[int, ...]], ...] | None, **fields: Any
) -> dict[str, Any]:
    named = None
    if topics is not None:
        named = [
            {"name": topic.name, "topic_id": topic.id, "partition_indexes": partitions}
            for topic, partitions in topics
        ]
    group = {"group_id": group_id, "topics": named} | fields
    return group | {"groups": [group]}


def fetch_all(conversation: Conversation, label: str, group_id: str, version: int = 7) -> None:
    """All offsets of a group, by topic and partition: Apache Kafka gives them in any order."""
    reply = conversation.client.ask(OFFSET_FETCH, version, **fetch_fields(group_id, None))
    topics = reply.groups[0].topics if version >= 8 else reply.topics
    found = {
        f"{topic.topic_id if version >= 10 else topic.name}-{each.partition_index}": each
        for topic in topics
        for each in topic.partitions
    }
    conversation.note(label, len(found))
    for name in sorted(found):
        topic, _, partition = name.rpartition("-")
        number = [each.id if version >= 10 else each.name for each in conversation.topics].index(
            uuid.UUID(topic) if version >= 10 else topic
        )
        conversation.note_reply(f"{label}, topic {number}, partition {partition}", found[name])


@scenario(range(2, 11))
def offset_commit(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    other = conversation.topic()
    group_id = conversation.group()

    def ask(label: str, *topics: tuple[Topic, tuple[dict[str, Any], ...]], **fields: Any) -> None:
        asked_group = fields.pop("group_id", group_id)
        conversation.ask(OFFSET_COMMIT, version, label, **commit_fields(asked_group, *topics, **fields))

    ask("nothing")
    ask("a topic without partitions", (topic, ()))
    ask("one", (topic, (offset(),)))
    ask("several", (topic, (offset(0, 7), offset(2, 9))), (other, (offset(0, 3),)))
    ask("unknown partition", (topic, (offset(1, 1), offset(3), offset(-1))))
    ask("unknown topic", (NOBODY, (offset(),)), (topic, (offset(0, 8),)))
    ask("only unknown", (NOBODY, (offset(), offset(1))))
    ask("no topic at all", (NO_ID, (offset(),)))
    ask("a topic twice", (topic, (offset(0, 11),)), (topic, (offset(0, 12),)))
    ask("a topic twice, and an unknown one", (topic, (offset(0, 11),)), (topic, (offset(5, 1),)))
    ask("a partition twice", (topic, (offset(0, 13), offset(0, 14))))
    ask("leader epoch", (topic, (offset(1, 2, committed_leader_epoch=4),)))
    ask("no metadata", (topic, (offset(1, 3, committed_metadata=None),)))
    ask("long metadata", (topic, (offset(1, 4, committed_metadata="m" * 4096),)))
    ask("metadata too long", (topic, (offset(1, 5, committed_metadata="m" * 4097), offset(2, 21))))
    ask("wide metadata", (topic, (offset(1, 4, committed_metadata="ü" * 4096),)))
    ask("negative", (topic, (offset(2, -1),)))
    ask("far away", (topic, (offset(2, 2**63 - 1),)))
    ask("kept for a while", (topic, (offset(2, 22),)), retention_time=1000)
    ask("empty group id", (topic, (offset(),)), group_id="")
    ask("a generation of no group", (topic, (offset(),)), group_id=conversation.group(), **by("", 3))
    ask("a member of no group", (topic, (offset(),)), group_id=conversation.group(), **by("nobody", -1))
    ask("a generation of an empty group", (topic, (offset(),)), **by("nobody", 3))
    fetch_all(conversation, "afterwards", group_id)
    conversation.client.ask(DELETE_GROUPS, 2, groups_names=[""])


def by(member_id: str, generation: int, instance_id: str | None = None) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "generation_id_or_member_epoch": generation,
        "group_instance_id": instance_id,
    }


@scenario(range(2, 11))
def offset_commit_of_members(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    member = stable_member(conversation, conversation.group(), group_instance_id="one")

    def ask(label: str, who: dict[str, Any]) -> None:
        fields = commit_fields(member.group_id, (topic, (offset(),)), **who)
        conversation.ask(OFFSET_COMMIT, version, label, **fields)

    ask("a member", by(member.id, 1))
    ask("an older generation", by(member.id, 0))
    ask("a generation to come", by(member.id, 2))
    ask("without a generation", by(member.id, -1))
    ask("somebody else", by("nobody", 1))
    ask("nobody", by("", -1))
    if version >= 7:
        ask("by instance", by(member.id, 1, "one"))
        ask("fenced", by("nobody", 1, "one"))
        ask("unknown instance", by(member.id, 1, "two"))
    member.join(9)
    ask("while the leader assigns, with the last generation", by(member.id, 1))
    ask("while the leader assigns", by(member.id, member.generation))


@scenario(range(2, 11))
def offset_commit_of_consumers(conversation: Conversation, version: int) -> None:
    """In a group of the newer protocol (KIP-848)."""
    topic = known_topic(conversation)
    group_id = conversation.group()
    joined = conversation.client.ask(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id="member",
        member_epoch=0,
        rebalance_timeout=30_000,
        subscribed_topic_names=[topic.name],
        topic_partitions=[],
    )
    conversation.note_reply("joins", joined)

    def ask(label: str, who: dict[str, Any]) -> None:
        fields = commit_fields(group_id, (topic, (offset(),)), **who)
        conversation.ask(OFFSET_COMMIT, version, label, **fields)

    ask("a member", by("member", 2))
    ask("an older epoch", by("member", 1))
    ask("an epoch to come", by("member", 3))
    ask("without an epoch", by("member", -1))
    ask("somebody else", by("nobody", 1))
    ask("nobody", by("", -1))


@scenario(range(1, 11))
def offset_fetch(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    other = conversation.topic()
    group_id = conversation.group()
    committed = (topic, (offset(0, 7, committed_leader_epoch=2), offset(2, 9, committed_metadata="")))
    conversation.client.ask(OFFSET_COMMIT, 10, **commit_fields(group_id, committed, (other, (offset(),))))

    def ask(label: str, *topics: tuple[Topic, tuple[int, ...]], **fields: Any) -> None:
        asked_group = fields.pop("group_id", group_id)
        conversation.ask(OFFSET_FETCH, version, label, **fetch_fields(asked_group, topics, **fields))

    ask("nothing")
    ask("one", (topic, (0,)))
    ask("several", (other, (0,)), (topic, (2, 1, 0)))
    ask("a partition twice", (topic, (0, 0)))
    ask("a topic twice", (topic, (0,)), (topic, (2,)))
    ask("unknown partition", (topic, (7,)))
    ask("unknown topic", (NOBODY, (0,)), (topic, (0,)))
    ask("no topic at all", (NO_ID, (0,)))
    ask("unknown group", (topic, (0,)), group_id=conversation.group())
    if version >= 2:
        fetch_all(conversation, "all", group_id, version)
        fetch_all(conversation, "all of nobody", conversation.group(), version)
    if version >= 7:
        ask("stable ones", (topic, (0, 1)), require_stable=True)
    if version >= 8:
        groups = [
            fetch_fields(group_id, ((topic, (0,)),)),
            fetch_fields(conversation.group(), ((topic, (0,)),)),
            fetch_fields(group_id, ((other, (0,)),)),
        ]
        conversation.ask(OFFSET_FETCH, version, "several groups", groups=groups)
        conversation.ask(OFFSET_FETCH, version, "no groups", groups=[])
    if version >= 9:
        ask("a member of nothing", (topic, (0,)), member_id="nobody", member_epoch=3)


@scenario(range(9, 11))
def offset_fetch_of_consumers(conversation: Conversation, version: int) -> None:
    topic = known_topic(conversation)
    group_id = conversation.group()
    joined = {"member_id": "member", "member_epoch": 0, "rebalance_timeout": 30_000, "topic_partitions": []}
    subscribed = {"subscribed_topic_names": [topic.name]}
    conversation.client.ask(CONSUMER_GROUP_HEARTBEAT, 1, group_id=group_id, **joined, **subscribed)
    conversation.client.ask(
        OFFSET_COMMIT, 9, **commit_fields(group_id, (topic, (offset(),)), **by("member", 2))
    )
    for label, member_id, epoch in (
        ("a member", "member", 2),
        ("an older epoch", "member", 1),
        ("an epoch to come", "member", 3),
        ("without an epoch", "member", -1),
        ("somebody else", "nobody", 1),
        ("nobody", None, -1),
        ("nobody with an epoch", None, 1),
        ("an empty id", "", -1),
    ):
        who = {"member_id": member_id, "member_epoch": epoch}
        conversation.ask(OFFSET_FETCH, version, label, **fetch_fields(group_id, ((topic, (0,)),), **who))


@scenario(range(10, 11))
def offsets_of_a_topic_made_again(conversation: Conversation, version: int) -> None:
    """An offset belongs to the topic that it was committed for, not to the name."""
    topic = conversation.topic()
    group_id = conversation.group()
    conversation.client.ask(OFFSET_COMMIT, version, **commit_fields(group_id, (topic, (offset(),))))
    again = conversation.make_again(topic)
    for label, asked in (("the new one", again), ("the old one", topic)):
        fields = fetch_fields(group_id, ((asked, (0,)),))
        conversation.ask(OFFSET_FETCH, version, label, **fields)
        fields = commit_fields(group_id, (asked, (offset(),)))
        conversation.ask(OFFSET_COMMIT, version, f"commit to {label}", **fields)


@scenario(range(1))
def offset_delete(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    other = conversation.topic()
    group_id = conversation.group()
    both = ((topic, (offset(0), offset(1))), (other, (offset(),)))
    conversation.client.ask(OFFSET_COMMIT, 9, **commit_fields(group_id, *both))

    def ask(label: str, asked_group: str, *topics: tuple[Topic, tuple[int, ...]]) -> None:
        named = [
            {"name": topic.name, "partitions": [{"partition_index": each} for each in partitions]}
            for topic, partitions in topics
        ]
        conversation.ask(OFFSET_DELETE, version, label, group_id=asked_group, topics=named)

    ask("nothing", group_id)
    ask("empty group id", "", (topic, (0,)))
    ask("unknown group", conversation.group(), (topic, (0,)))
    ask("unknown partition", group_id, (topic, (0, 5)))
    ask("unknown topic", group_id, (NOBODY, (0,)))
    ask("again", group_id, (topic, (0,)))
    fetch_all(conversation, "what is left", group_id)
    offers = (("range", subscription(topic.name)),)
    member = stable_member(conversation, conversation.group(), protocol_type="consumer", protocols=offers)
    fields = commit_fields(member.group_id, *both, **by(member.id, 1))
    conversation.client.ask(OFFSET_COMMIT, 9, **fields)
    ask("subscribed and not", member.group_id, (topic, (0,)), (other, (0,)))
    ask("subscribed, and unknown partition", member.group_id, (topic, (0, 9)))
    others = stable_member(conversation, conversation.group())
    fields = commit_fields(others.group_id, *both, **by(others.id, 1))
    conversation.client.ask(OFFSET_COMMIT, 9, **fields)
    ask("of members that are not consumers", others.group_id, (topic, (0,)))


def assignment(topic: str, *partitions: int) -> bytes:
    """What a leader gives a consumer, in version 0 of the format."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + name + numbers + struct.pack(">i", -1)


def subscription(*topics: str) -> bytes:
    """What a consumer offers, in version 0 of the format."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)
