"""Offsets and producers.

ListOffsets (2), FindCoordinator (10), DeleteRecords (21), InitProducerId (22), OffsetForLeaderEpoch (23),
DescribeProducers (61).
"""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    DELETE_RECORDS,
    DESCRIBE_PRODUCERS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    Conversation,
    scenario,
)
from tests.conformance.record_batches import BASE_TIMESTAMP, Record, batch

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
# KIP-405 and KIP-1005: of tiered storage, and two that nobody knows.
OTHERS = (-4, -5, -6, -7, -100)


def list_fields(name: str, timestamp: int, partition: int = 0, epoch: int = -1) -> dict[str, Any]:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    return {"replica_id": -1, "timeout": 5_000, "topics": [{"name": name, "partitions": [asked]}]}


@scenario(range(1, 12))
def list_offsets(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    for special in (EARLIEST, LATEST, MAX_TIMESTAMP, BASE_TIMESTAMP):
        conversation.ask(LIST_OFFSETS, version, f"empty, {special}", **list_fields(topic.name, special))
    times = (0, 100, 50, 300, 300, 200)
    conversation.produce(
        topic,
        batch([Record(timestamp_delta=each) for each in times]),
        batch(base_timestamp=BASE_TIMESTAMP + 250),
    )
    conversation.produce(topic, batch([Record(timestamp_delta=each) for each in times], codec="gzip"))
    for special in (EARLIEST, LATEST, MAX_TIMESTAMP, *OTHERS):
        conversation.ask(LIST_OFFSETS, version, f"special {special}", **list_fields(topic.name, special))
    for delta in (-1, 0, 1, 50, 60, 100, 101, 250, 299, 300, 301):
        fields = list_fields(topic.name, BASE_TIMESTAMP + delta)
        conversation.ask(LIST_OFFSETS, version, f"time {delta}", **fields)
    conversation.ask(LIST_OFFSETS, version, "time 0", **list_fields(topic.name, 0))
    for level in (0, 1, 2):
        fields = list_fields(topic.name, LATEST) | {"isolation_level": level}
        conversation.ask(LIST_OFFSETS, version, f"isolation {level}", **fields)
    conversation.ask(LIST_OFFSETS, version, "unknown topic", **list_fields("no-such-topic", LATEST))
    conversation.ask(LIST_OFFSETS, version, "unknown partition", **list_fields(topic.name, LATEST, 5))
    conversation.ask(LIST_OFFSETS, version, "epoch 0", **list_fields(topic.name, LATEST, epoch=0))
    conversation.ask(LIST_OFFSETS, version, "epoch to come", **list_fields(topic.name, LATEST, epoch=9))
    twice = list_fields(topic.name, LATEST)
    twice["topics"][0]["partitions"] *= 2
    conversation.ask(LIST_OFFSETS, version, "the same partition twice", **twice)
    follower = list_fields(topic.name, LATEST) | {"replica_id": 5}
    conversation.ask(LIST_OFFSETS, version, "as a follower", **follower)
    debugger = list_fields(topic.name, LATEST) | {"replica_id": -2}
    conversation.ask(LIST_OFFSETS, version, "as a debugger", **debugger)
    conversation.ask(LIST_OFFSETS, version, "nothing", **twice | {"topics": []})


def delete_fields(name: str, *offsets: tuple[int, int]) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "offset": offset} for partition, offset in offsets]
    return {"topics": [{"name": name, "partitions": partitions}], "timeout": 10_000}


@scenario(range(3))
def delete_records(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    conversation.produce(topic, batch([Record()] * 5), batch([Record(timestamp_delta=9)] * 5))
    for offset in (0, 3, 2, 7, 11, -2, -1):
        conversation.ask(
            DELETE_RECORDS, version, f"before {offset}", **delete_fields(topic.name, (0, offset))
        )
        conversation.ask(LIST_OFFSETS, 5, "earliest", **list_fields(topic.name, EARLIEST))
        conversation.ask(LIST_OFFSETS, 5, "by time", **list_fields(topic.name, BASE_TIMESTAMP))
        conversation.ask(LIST_OFFSETS, 7, "max timestamp", **list_fields(topic.name, MAX_TIMESTAMP))
    conversation.ask(DELETE_RECORDS, version, "empty log", **delete_fields(topic.name, (1, -1)))
    conversation.ask(DELETE_RECORDS, version, "unknown partition", **delete_fields(topic.name, (2, 0)))
    conversation.ask(DELETE_RECORDS, version, "unknown topic", **delete_fields("no-such-topic", (0, 0)))
    conversation.ask(DELETE_RECORDS, version, "nothing", topics=[], timeout=1000)
    compacted = conversation.topic(cleanup_policy="compact")
    conversation.produce(compacted, batch([Record(key=b"k")] * 3))
    conversation.ask(DELETE_RECORDS, version, "compacted", **delete_fields(compacted.name, (0, 1)))
    both = conversation.topic(cleanup_policy="compact,delete")
    conversation.produce(both, batch([Record(key=b"k")] * 3))
    conversation.ask(DELETE_RECORDS, version, "compacted and deleted", **delete_fields(both.name, (0, 1)))


@scenario(range(2, 5))
def offset_for_leader_epoch(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()

    def ask(label: str, epoch: int, *, current: int = -1, name: str = topic.name, partition: int = 0) -> None:
        asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        fields = {"replica_id": -1, "topics": [{"topic": name, "partitions": [asked]}]}
        conversation.ask(OFFSET_FOR_LEADER_EPOCH, version, label, **fields)

    ask("empty log", 0)
    conversation.produce(topic, batch([Record()] * 3))
    for epoch in (-1, 0, 1, 7):
        ask(f"epoch {epoch}", epoch)
    ask("the current one", 0, current=0)
    ask("a current one to come", 0, current=4)
    ask("unknown partition", 0, partition=3)
    ask("unknown topic", 0, name="no-such-topic")


@scenario(range(6))
def init_producer_id(conversation: Conversation, version: int) -> None:
    nothing = {"transactional_id": None, "transaction_timeout": 60_000}
    first = conversation.ask(INIT_PRODUCER_ID, version, "first", **nothing)
    second = conversation.ask(INIT_PRODUCER_ID, version, "second", **nothing)
    conversation.note("they differ", first.producer_id != second.producer_id)
    conversation.ask(INIT_PRODUCER_ID, version, "no timeout", transactional_id=None, transaction_timeout=0)
    conversation.ask(INIT_PRODUCER_ID, version, "empty id", transactional_id="", transaction_timeout=60_000)
    if version >= 3:
        known = nothing | {"producer_id": first.producer_id, "producer_epoch": 0}
        conversation.ask(INIT_PRODUCER_ID, version, "with an id", **known)
        half = nothing | {"producer_id": first.producer_id, "producer_epoch": -1}
        conversation.ask(INIT_PRODUCER_ID, version, "with an id, without an epoch", **half)
        other = nothing | {"producer_id": -1, "producer_epoch": 3}
        conversation.ask(INIT_PRODUCER_ID, version, "with an epoch, without an id", **other)


@scenario(range(1))
def describe_producers(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    producer = conversation.ask_quietly(
        INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000
    ).producer_id

    def ask(label: str, name: str, *partitions: int) -> None:
        asked = [{"name": name, "partition_indexes": partitions}]
        conversation.ask(DESCRIBE_PRODUCERS, version, label, topics=asked)

    ask("nobody", topic.name, 0, 1)
    conversation.produce(topic)
    ask("nobody with an id", topic.name, 0)
    for sequence in (0, 2):
        records = [Record(), Record(timestamp_delta=sequence)]
        conversation.produce(
            topic, batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        )
    ask("one", topic.name, 0, 1)
    ask("unknown partition", topic.name, 7)
    ask("unknown topic", "no-such-topic", 0)
    ask("bad name", "no such topic", 0)
    conversation.ask(DESCRIBE_PRODUCERS, version, "nothing", topics=[])


@scenario(range(7))
def find_coordinator(conversation: Conversation, version: int) -> None:
    for kind in (0, 1, 2, 9):
        if version >= 1 or kind == 0:
            fields = {"key": "a-group", "key_type": kind, "coordinator_keys": ["a-group", "another"]}
            conversation.ask(FIND_COORDINATOR, version, f"type {kind}", **fields)
    if version >= 4:
        conversation.ask(FIND_COORDINATOR, version, "none", key_type=0, coordinator_keys=[])
