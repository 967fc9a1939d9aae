"""Fetch, API key 1: offsets, limits, waiting, and incremental sessions (KIP-227)."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.answers.conversation import (
    DELETE_RECORDS,
    FETCH,
    Conversation,
    Topic,
    fetch_fields,
    scenario,
)
from tests.conformance.record_batches import CODECS, Record, batch, read_batches

VERSIONS = range(4, 19)
# The oldest and those that changed something, for what asks often and does not look at the version.
SOME_VERSIONS = (4, 7, 11, 12, 13, 18)
SESSIONS = range(7, 19)
NO_TOPIC = Topic(name="no-such-topic", id=uuid.UUID("00000000-0000-0000-0000-00000000dead"))


@scenario(VERSIONS)
def fetch_offsets(conversation: Conversation, version: int) -> None:
    """An offset inside a batch gives the whole batch."""
    topic = conversation.topic()
    conversation.ask(FETCH, version, "empty log", **fetch_fields(topic))
    for codec in CODECS:
        if codec != "zstd" or version >= 10:
            conversation.produce(topic, batch([Record(value=b"v" * 20)] * 4, codec=codec))
    for offset in (0, 1, 3, 4, 6, 15, 16, 17, -1, 1000):
        conversation.ask(FETCH, version, f"offset {offset}", **fetch_fields(topic, offset))


@scenario(range(4, 11))
def fetch_zstd_too_early(conversation: Conversation, version: int) -> None:
    """KIP-110: zstd batches go to version 10 and above."""
    topic = conversation.topic()
    conversation.produce(topic, batch(codec="zstd"))
    conversation.ask(FETCH, version, **fetch_fields(topic))
    mixed = conversation.topic()
    conversation.produce(mixed, batch(), batch(codec="zstd"))
    conversation.ask(FETCH, version, "mixed", **fetch_fields(mixed))
    told = conversation.topic(compression_type="zstd")
    conversation.produce(told, batch())
    conversation.ask(FETCH, version, "by the topic's setting", **fetch_fields(told))


@scenario(VERSIONS)
def fetch_from_nowhere(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    conversation.produce(topic)
    conversation.ask(FETCH, version, "unknown topic", **fetch_fields(NO_TOPIC))
    conversation.ask(FETCH, version, "unknown partition", **fetch_fields(topic, 0, 1))
    conversation.ask(FETCH, version, "negative partition", **fetch_fields(topic, 0, -1))
    conversation.ask(FETCH, version, "nothing", **fetch_fields(topic) | {"topics": []})
    if version >= 9:
        conversation.ask(FETCH, version, "epoch of now", **fetch_fields(topic, current_leader_epoch=0))
        conversation.ask(FETCH, version, "epoch to come", **fetch_fields(topic, current_leader_epoch=5))
    if version >= 12:
        last = fetch_fields(topic, 1, last_fetched_epoch=0)
        conversation.ask(FETCH, version, "last fetched epoch", **last)
        diverging = fetch_fields(topic, 1, last_fetched_epoch=3)
        conversation.ask(FETCH, version, "last fetched epoch to come", **diverging)
    conversation.delete(topic)
    conversation.ask(FETCH, version, "deleted topic", **fetch_fields(topic))


@scenario(SOME_VERSIONS)
def fetch_limits(conversation: Conversation, version: int) -> None:
    """KIP-74: the first batch is whole whatever the limits, later ones only as far as they fit."""
    topic = conversation.topic(partitions=2)
    fives = batch([Record(value=b"x" * 100)] * 5)
    for partition in range(2):
        conversation.produce(topic, *[fives] * 4, partition=partition)
    size = len(fives)
    for limit in (1, size - 1, size, 2 * size, 3 * size + 5, 100 * size):
        fields = fetch_fields(topic, partition_max_bytes=limit)
        note_sizes(conversation, version, f"partition limit {limit}", fields)
        fields = fetch_fields(topic, max_bytes=limit)
        note_sizes(conversation, version, f"limit {limit}", fields)
        partitions = [
            {"partition": each, "fetch_offset": 7, "partition_max_bytes": limit, "current_leader_epoch": -1}
            for each in range(2)
        ]
        both = [{"topic": topic.name, "topic_id": topic.id, "partitions": partitions}]
        note_sizes(conversation, version, f"both {limit}", fields | {"topics": both})
    note_sizes(conversation, version, "limit 0", fetch_fields(topic, max_bytes=0))
    note_sizes(conversation, version, "partition limit 0", fetch_fields(topic, partition_max_bytes=0))
    note_sizes(conversation, version, "beyond", fetch_fields(topic, max_bytes=0x7FFFFFFF, min_bytes=0))


def note_sizes(conversation: Conversation, version: int, label: str, fields: dict[str, Any]) -> None:
    """The numbers of bytes say how a batch is cut."""
    reply = conversation.client.ask(FETCH, version, **fields)
    sizes = {
        each.partition_index: len(each.records or b"")
        for topic in reply.responses
        for each in topic.partitions
    }
    conversation.note(f"{label}, sizes", sizes)
    conversation.ask(FETCH, version, label, **fields)


@scenario(VERSIONS)
def fetch_minimum_bytes(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    conversation.produce(topic)
    conversation.ask(FETCH, version, "enough", **fetch_fields(topic, max_wait=30_000, min_bytes=1))
    conversation.ask(FETCH, version, "too few", **fetch_fields(topic, max_wait=30, min_bytes=10_000))
    conversation.ask(FETCH, version, "at the end", **fetch_fields(topic, 1, max_wait=30, min_bytes=1))
    conversation.ask(FETCH, version, "none asked for", **fetch_fields(topic, 1, max_wait=30_000, min_bytes=0))
    out = fetch_fields(topic, 9, max_wait=30_000, min_bytes=1)
    conversation.ask(FETCH, version, "an error does not wait", **out)


@scenario(VERSIONS)
def fetch_woken_by_append(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    with conversation.engine.connect() as waiting:
        waiting.send(FETCH, version, **fetch_fields(topic, max_wait=30_000, min_bytes=100))
        conversation.produce(topic, batch([Record(value=b"x")]))
        conversation.produce(topic, batch([Record(value=b"y" * 100)]))
        reply = waiting.receive(FETCH, version)
    partition = reply.responses[0].partitions[0]
    conversation.note("woken", [partition.error_code.name, len(partition.records), partition.high_watermark])


@scenario(VERSIONS)
def fetch_woken_by_deletion(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    with conversation.engine.connect() as waiting:
        waiting.send(FETCH, version, **fetch_fields(topic, max_wait=3_000, min_bytes=100))
        conversation.delete(topic)
        conversation.note("woken", waiting.receive(FETCH, version).responses[0].partitions[0].error_code.name)


@scenario(VERSIONS)
def fetch_before_the_start(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    conversation.produce(topic, batch([Record()] * 5), batch([Record()] * 5))
    conversation.ask_quietly(
        DELETE_RECORDS,
        2,
        topics=[{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 7}]}],
        timeout=30_000,
    )
    for offset in (0, 6, 7, 9, 10, 11):
        conversation.ask(FETCH, version, f"offset {offset}", **fetch_fields(topic, offset))


@scenario(VERSIONS)
def fetch_isolation(conversation: Conversation, version: int) -> None:
    """Without transactions read_committed sees all; the list of aborted transactions is empty, not null."""
    topic = conversation.topic()
    conversation.produce(topic)
    conversation.ask(FETCH, version, "committed", **fetch_fields(topic, isolation_level=1))
    conversation.ask(FETCH, version, "committed, at the end", **fetch_fields(topic, 1, isolation_level=1))
    conversation.ask(FETCH, version, "uncommitted", **fetch_fields(topic, isolation_level=0))


@scenario(SESSIONS)
def fetch_session(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    other = conversation.topic()
    conversation.produce(topic, batch())

    def partition(index: int, offset: int) -> dict[str, Any]:
        return {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": -1,
        }

    def topics(name: Topic, *partitions: dict[str, Any]) -> dict[str, Any]:
        return {"topic": name.name, "topic_id": name.id, "partitions": partitions}

    base: dict[str, Any] = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    asked = [topics(topic, *(partition(each, 0) for each in range(3))), topics(other, partition(0, 0))]
    reply = conversation.ask(FETCH, version, "full", **base, session_id=0, session_epoch=0, topics=asked)
    session = reply.session_id

    def incremental(label: str, epoch: int, changed: list[Any] | None = None, **fields: Any) -> None:
        fields.setdefault("session_id", session)
        conversation.ask(FETCH, version, label, **base, session_epoch=epoch, topics=changed or [], **fields)

    incremental("nothing new: what was not fetched yet comes again", 1)
    incremental("moved on", 2, [topics(topic, partition(0, 1))])
    incremental("nothing", 3)
    conversation.produce(topic, batch(), partition=1)
    conversation.produce(other, batch())
    incremental("two have data", 4)
    forgotten = [{"topic": topic.name, "topic_id": topic.id, "partitions": [1]}]
    incremental("one forgotten", 5, forgotten_topics_data=forgotten)
    conversation.produce(topic, batch(), partition=1)
    incremental("forgotten stays so", 6, [topics(other, partition(0, 1))])
    incremental("added again", 7, [topics(topic, partition(1, 0))])
    incremental("out of range", 8, [topics(topic, partition(2, 99))])
    incremental("still out of range", 9)
    incremental("unknown partition", 10, [topics(topic, partition(77, 0))])
    incremental("wrong epoch", 5)
    incremental("after the wrong epoch", 11)
    incremental("unknown session", 1, session_id=0x7FFFFFF0)
    incremental("session id without an epoch", 0, session_id=session)
    incremental("gone after it was closed", 12)
    incremental("no session", -1, [topics(topic, partition(0, 0))], session_id=0)
    incremental("epoch but no session", 3, [topics(topic, partition(0, 0))], session_id=0)


@scenario(SESSIONS)
def fetch_session_ended(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    conversation.produce(topic)
    fields = fetch_fields(topic, session_id=0, session_epoch=0, min_bytes=0)
    session = conversation.ask(FETCH, version, "made", **fields).session_id
    closing = fetch_fields(topic, session_id=session, session_epoch=-1)
    conversation.ask(FETCH, version, "closed by the client", **closing)
    gone = fetch_fields(topic, session_id=session, session_epoch=1)
    conversation.ask(FETCH, version, "gone", **gone)


@scenario(SESSIONS)
def fetch_session_with_unknown_topic(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    conversation.produce(topic)
    fields = fetch_fields(topic, session_id=0, session_epoch=0, min_bytes=0)
    fields["topics"] += fetch_fields(NO_TOPIC)["topics"]
    session = conversation.ask(FETCH, version, "made", **fields).session_id
    again = fields | {"topics": [], "session_id": session, "session_epoch": 1}
    conversation.ask(FETCH, version, "again", **again)
    conversation.delete(topic)
    conversation.ask(FETCH, version, "the other one deleted", **again | {"session_epoch": 2})


@scenario(VERSIONS)
def fetch_pipelined(conversation: Conversation, version: int) -> None:
    """Two requests on a connection, the first of which waits: the answers keep their order."""
    topic = conversation.topic()
    conversation.produce(topic)
    with conversation.engine.connect() as waiting:
        waiting.send(FETCH, version, **fetch_fields(topic, 1, max_wait=30_000, min_bytes=1))
        waiting.send(FETCH, version, **fetch_fields(topic, 0))
        conversation.produce(topic, batch([Record(value=b"new")]))
        first, second = waiting.receive(FETCH, version), waiting.receive(FETCH, version)
    for label, reply in (("first", first), ("second", second)):
        (found, *_) = read_batches(reply.responses[0].partitions[0].records)
        conversation.note(f"where the {label} begins", found.base_offset)


@scenario(VERSIONS)
def fetch_as_follower(conversation: Conversation, version: int) -> None:
    """A replica that is none: this broker is the only one."""
    topic = conversation.topic()
    conversation.produce(topic)
    fields = fetch_fields(topic, replica_id=7, replica_state={"replica_id": 7, "replica_epoch": 1})
    conversation.ask(FETCH, version, **fields)
