"""Metadata (3), CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DescribeTopicPartitions (75)."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.answers.conversation import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
    Conversation,
    scenario,
)
from tests.conformance.raw_client import plain

NO_ID = uuid.UUID("00000000-0000-0000-0000-00000000dead")
BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a,b", "a:b", 'a"b', "a\nb")


@scenario(range(14))
def metadata(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)

    def ask(label: str, names: list[str] | None, **fields: Any) -> None:
        topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
        fields.setdefault("allow_auto_topic_creation", False)
        conversation.ask(METADATA, version, label, topics=topics, **fields)

    ask("one topic", [topic.name])
    ask("one topic twice", [topic.name, topic.name])
    if version >= 1:
        ask("all topics", None)
    ask("none, or all in version 0", [])
    if version >= 4:
        ask("unknown", ["no-such-topic"])
        for name in BAD_NAMES:
            ask(f"bad name {name[:9]!r}", [name])
        for name in BAD_NAMES:
            ask(f"bad name {name[:9]!r}, to be made", [name], allow_auto_topic_creation=True)
    if version >= 8:
        operations = {
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        }
        ask("operations", [topic.name], **operations)
    if version >= 12:
        by_id = [{"name": None, "topic_id": topic.id}]
        conversation.ask(METADATA, version, "by id", topics=by_id, allow_auto_topic_creation=False)
        unknown = [{"name": None, "topic_id": NO_ID}]
        conversation.ask(METADATA, version, "unknown id", topics=unknown)
        nothing = [{"name": None, "topic_id": None}]
        conversation.ask(METADATA, version, "neither name nor id", topics=nothing)
    if version in {10, 11}:
        by_id = [{"name": None, "topic_id": topic.id}]
        conversation.ask(METADATA, version, "by id, too early", topics=by_id)
        both = [{"name": topic.name, "topic_id": topic.id}]
        conversation.ask(METADATA, version, "name and id, too early", topics=both)


@scenario(range(14))
def metadata_creates(conversation: Conversation, version: int) -> None:
    """Auto-create happens on Metadata; the topic comes with a later answer."""
    name = conversation.name()
    fields: dict[str, Any] = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    conversation.ask(METADATA, version, "first", **fields)
    conversation.wait_for_leaders(name, 1)
    known = conversation.ask_quietly(METADATA, 12, **fields)
    conversation.know(known.topics[0].topic_id, name)
    conversation.ask(METADATA, version, "then", **fields)


def creation(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas} | fields


@scenario(range(2, 8))
def create_topics(conversation: Conversation, version: int) -> None:
    def create(label: str, *topics: dict[str, Any], **fields: Any) -> None:
        fields = {"topics": topics, "timeout": 30_000} | fields
        reply = conversation.client.ask(CREATE_TOPICS, version, **fields)
        for each in reply.topics:
            topic_id = getattr(each, "topic_id", None)
            if topic_id is not None and each.name in conversation.names:
                conversation.know(topic_id, each.name)
        conversation.note_reply(label, reply)

    name = conversation.name()
    create("made", creation(name, 3))
    create("made again", creation(name, 3))
    create("checked only", creation(conversation.name(), 2), validate_only=True)
    create("checked only, but there", creation(name, 2), validate_only=True)
    create("partitions 0", creation(conversation.name(), 0))
    create("partitions -2", creation(conversation.name(), -2))
    create("replicas 0", creation(conversation.name(), 1, 0))
    create("replicas -2", creation(conversation.name(), 1, -2))
    create("replicas 2", creation(conversation.name(), 1, 2))
    if version >= 4:
        create("defaults", creation(conversation.name(), -1, -1))
    one, two = {"partition_index": 0, "broker_ids": [1]}, {"partition_index": 1, "broker_ids": [1]}
    create("assigned", creation(conversation.name(), -1, -1, assignments=[one, two]))
    create("assigned and counted", creation(conversation.name(), 2, 1, assignments=[one, two]))
    create("assigned with a hole", creation(conversation.name(), -1, -1, assignments=[two]))
    other = {"partition_index": 0, "broker_ids": [9]}
    create("assigned to nobody", creation(conversation.name(), -1, -1, assignments=[other]))
    double = {"partition_index": 0, "broker_ids": [1, 1]}
    create("assigned twice to one", creation(conversation.name(), -1, -1, assignments=[double]))
    empty = {"partition_index": 0, "broker_ids": []}
    create("assigned to none", creation(conversation.name(), -1, -1, assignments=[empty]))
    create("one partition twice", creation(conversation.name(), -1, -1, assignments=[one, one]))
    for bad in BAD_NAMES:
        create(f"bad name {bad[:9]!r}", creation(bad))
    create("internal name", creation("__consumer_offsets_of_nobody", 0))
    dotted = conversation.name()
    create("with an underscore", creation(f"{dotted}_a", 1), validate_only=True)
    twin = conversation.name()
    create("twice in a request", creation(twin), creation(twin))
    good, bad_one = conversation.name(), conversation.name()
    create("good and bad", creation(good), creation(bad_one, 0))
    create("none")
    for setting, value in (
        ("retention.ms", "1000"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("retention.ms", "-2"),
        ("no.such.setting", "1"),
        ("cleanup.policy", "shred"),
        ("compression.type", "brotli"),
        ("max.message.bytes", "-1"),
        ("segment.bytes", "1"),
        ("min.insync.replicas", "0"),
        ("remote.storage.enable", "true"),
        ("", "x"),
    ):
        configs = [{"name": setting, "value": value}]
        create(f"{setting}={value}", creation(conversation.name(), configs=configs))
    doubled = [{"name": "retention.ms", "value": value} for value in ("1000", "2000")]
    create("a setting twice", creation(conversation.name(), configs=doubled))


@scenario(range(2, 8))
def create_topics_that_collide(conversation: Conversation, version: int) -> None:
    """A dot and an underscore are one in the names of metrics."""
    name = conversation.name()
    for label, each in (("dot", f"{name}.a"), ("underscore", f"{name}_a")):
        topics = [creation(each)]
        reply = conversation.client.ask(CREATE_TOPICS, version, topics=topics, timeout=30_000)
        made = reply.topics[0]
        conversation.note(label, [made.error_code.name, getattr(made, "error_message", None)])


@scenario(range(1, 7))
def delete_topics(conversation: Conversation, version: int) -> None:
    def delete(label: str, *names: str, ids: tuple[uuid.UUID, ...] = ()) -> None:
        topics = [{"name": name, "topic_id": None} for name in names]
        topics += [{"name": None, "topic_id": topic_id} for topic_id in ids]
        fields = {"topics": topics, "topic_names": list(names), "timeout": 30_000}
        reply = conversation.client.ask(DELETE_TOPICS, version, **fields)
        # In the order of a hash table.
        results = sorted(plain(reply)["responses"], key=lambda each: (str(each["name"]), repr(each)))
        conversation.note(label, results)

    topic, other = conversation.topic(), conversation.topic(partitions=2)
    delete("one", topic.name)
    delete("again", topic.name)
    delete("unknown", "no-such-topic")
    delete("bad name", "no such topic")
    delete("two, one of them unknown", other.name, "no-such-topic")
    delete("none")
    if version >= 6:
        by_id, twice = conversation.topic(), conversation.topic()
        delete("by id", ids=(by_id.id,))
        delete("by id again", ids=(by_id.id,))
        delete("unknown id", ids=(NO_ID,))
        delete("zero id", ids=(uuid.UUID(int=0),))
        delete("by name and by id", twice.name, ids=(twice.id,))
        delete("by id twice", ids=(twice.id, twice.id))
        both = [{"name": twice.name, "topic_id": twice.id}]
        conversation.ask(DELETE_TOPICS, version, "name with id", topics=both, timeout=30_000)
    else:
        twice = conversation.topic()
        delete("twice in a request", twice.name, twice.name)


@scenario(range(1, 7))
def delete_and_make_again(conversation: Conversation, version: int) -> None:
    """A topic made again is another one: another id, and offsets from 0."""
    first = conversation.topic(partitions=2)
    conversation.produce(first)
    conversation.ask(
        DELETE_TOPICS,
        version,
        topics=[{"name": first.name}],
        topic_names=[first.name],
        timeout=30_000,
    )
    reply = conversation.client.ask(CREATE_TOPICS, 7, topics=[creation(first.name)], timeout=30_000)
    conversation.know(reply.topics[0].topic_id, first.name)
    conversation.note_reply("made again", reply)
    conversation.note("another id", reply.topics[0].topic_id != first.id)
    conversation.wait_for_leaders(first.name, 1)
    topics = [{"name": first.name, "topic_id": None}]
    conversation.ask(METADATA, 12, "metadata", topics=topics, allow_auto_topic_creation=False)
    conversation.ask(METADATA, 12, "the old id", topics=[{"name": None, "topic_id": first.id}])


@scenario(range(4))
def create_partitions(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)

    def add(label: str, *topics: dict[str, Any], **fields: Any) -> None:
        fields = {"topics": topics, "timeout": 30_000, "validate_only": False} | fields
        conversation.ask(CREATE_PARTITIONS, version, label, **fields)

    def wish(count: int, name: str = topic.name, assignments: list[Any] | None = None) -> dict[str, Any]:
        return {"name": name, "count": count, "assignments": assignments}

    add("as many as there are", wish(2))
    add("fewer", wish(1))
    add("none", wish(0))
    add("negative", wish(-1))
    add("checked only", wish(3), validate_only=True)
    add("one more", wish(3))
    add("unknown topic", wish(2, "no-such-topic"))
    add("bad name", wish(2, "no such topic"))
    add("twice in a request", wish(4), wish(5))
    add("assigned", wish(4, assignments=[{"broker_ids": [1]}]))
    add("assigned, too few", wish(6, assignments=[{"broker_ids": [1]}]))
    add("assigned to nobody", wish(5, assignments=[{"broker_ids": [8]}]))
    add("assigned to two", wish(5, assignments=[{"broker_ids": [1, 2]}]))
    add("nothing")
    conversation.wait_for_leaders(topic.name, 4)
    asked = [{"name": topic.name, "topic_id": None}]
    conversation.ask(METADATA, 12, "metadata", topics=asked, allow_auto_topic_creation=False)


@scenario(range(1))
def describe_topic_partitions(conversation: Conversation, version: int) -> None:
    """KIP-966: pages of partitions, over topics in the order of their names."""
    topics = [conversation.topic(partitions=count) for count in (2, 3)]
    wanted = [{"name": each.name} for each in topics]

    def ask(label: str, names: list[dict[str, str]], limit: int = 2000, cursor: Any = None) -> None:
        reply = conversation.client.ask(
            DESCRIBE_TOPIC_PARTITIONS, version, topics=names, response_partition_limit=limit, cursor=cursor
        )
        found = {each.name: [part.partition_index for part in each.partitions] for each in reply.topics}
        order = [topics.index(each) for each in topics if each.name in found]
        conversation.note(f"{label}, order", order)
        cursor = reply.next_cursor
        at = cursor and [cursor.topic_name == topics[1].name, cursor.partition_index]
        conversation.note(f"{label}, next", at)

    all_of = {"response_partition_limit": 2000}
    conversation.ask(DESCRIBE_TOPIC_PARTITIONS, version, "one", topics=wanted[:1], **all_of)
    ask("both", wanted)
    ask("both, turned round", wanted[::-1])
    second = {"topic_name": topics[1].name, "partition_index": 1}
    ask("from a cursor", wanted, cursor=second)
    ask("limit 0", wanted, limit=0)
    ask("limit -1", wanted, limit=-1)
    conversation.ask(DESCRIBE_TOPIC_PARTITIONS, version, "unknown", topics=[{"name": "no-such-topic"}])
    conversation.ask(DESCRIBE_TOPIC_PARTITIONS, version, "bad name", topics=[{"name": "no such topic"}])
    gone = {"topic_name": topics[0].name, "partition_index": 99}
    ask("from beyond", wanted, cursor=gone)
    negative = {"topic_name": topics[0].name, "partition_index": -1}
    conversation.ask(
        DESCRIBE_TOPIC_PARTITIONS,
        version,
        "negative cursor",
        topics=wanted,
        response_partition_limit=10,
        cursor=negative,
    )
