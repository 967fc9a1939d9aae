"""Produce, Fetch and ListOffsets in transactions: what is taken, what readers of committed records see."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    Conversation,
    Topic,
    fetch_fields,
    produce_fields,
    scenario,
)
from tests.conformance.answers.transactional_producer import (
    PRODUCE_ADDS_FROM,
    TRANSACTIONAL,
    TransactionalProducer,
)
from tests.conformance.record_batches import BASE_TIMESTAMP, Record, batch


@scenario(range(3, 14))
def produce_in_transaction(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    adds = version >= PRODUCE_ADDS_FROM
    producer = TransactionalProducer(conversation, bumps=adds)

    def send(label: str, records: bytes, partition: int = 0, **fields: Any) -> None:
        asked = {"transactional_id": producer.transactional_id} | fields
        conversation.ask(PRODUCE, version, label, **produce_fields(topic, records, partition, **asked))

    def records(**changed: Any) -> bytes:
        own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": 0}
        return batch([Record()], **(own | {"attributes": TRANSACTIONAL} | changed))

    send("without a transactional id", records(), transactional_id=None)
    send("empty transactional id", records(), transactional_id="")
    send("unknown transactional id", records(), transactional_id=conversation.name())
    send("another's producer id", records(producer_id=producer.producer_id + 77_777))
    send("epoch to come", records(producer_epoch=producer.epoch + 1))
    if not adds:
        send("not added", records())
        producer.add((topic.name, 0), (topic.name, 1))
    send("first", records())
    send("again", records())
    send("next", records(base_sequence=1))
    send("gap", records(base_sequence=9))
    send("not transactional", records(attributes=0, base_sequence=2))
    send(
        "not transactional, no transactional id",
        records(attributes=0, base_sequence=2),
        transactional_id=None,
    )
    send("in the open one, no transactional id", records(base_sequence=2), transactional_id=None)
    send("other partition, sequence not 0", records(base_sequence=5), 1)
    send("other partition, at last", records(), 1)
    send("old epoch", records(producer_epoch=producer.epoch - 1))
    several = [
        {"index": 0, "records": records(base_sequence=2)},
        {"index": 1, "records": records(producer_id=producer.producer_id + 77_777)},
    ]
    data = [{"name": topic.name, "topic_id": topic.id, "partition_data": several}]
    named = {"transactional_id": producer.transactional_id, "acks": -1, "timeout": 1000}
    conversation.ask(PRODUCE, version, "two producers", topic_data=data, **named)
    old = producer.fields
    producer.end(committed=True)
    send("after the end", records(producer_epoch=old["producer_epoch"], base_sequence=2))
    send("idempotent, without a transaction", records(attributes=0, base_sequence=0 if adds else 2), 2)
    for partition in range(3):
        fields = fetch_fields(topic, 0, partition, isolation_level=1)
        conversation.ask(FETCH, 17, f"partition {partition}", **fields)


@scenario((3, 8, 12))
def produce_to_internal_topic(conversation: Conversation, version: int) -> None:
    internal = Topic(name="__transaction_state", id=conversation.topic().id)
    conversation.ask(PRODUCE, version, **produce_fields(internal, batch([Record(key=b"k")])))


def several_transactions(conversation: Conversation) -> tuple[Topic, TransactionalProducer]:
    """Committed, aborted, not transactional, and one that is open; two producers at a time."""
    topic = conversation.topic(segment_bytes="1048576")
    first, second = TransactionalProducer(conversation), TransactionalProducer(conversation)
    first.send(topic, count=2)
    first.end(committed=True)
    first.send(topic)
    second.send(topic, count=3)
    conversation.produce(topic, batch([Record(timestamp_delta=50)]))
    first.end(committed=False)
    second.send(topic)
    second.end(committed=False)
    first.send(topic)
    second.send(topic, count=2)
    second.end(committed=True)
    conversation.produce(topic, batch([Record(timestamp_delta=100)]))
    return topic, first


@scenario((4, 5, 7, 9, 11, 12, 13, 18))
def fetch_committed(conversation: Conversation, version: int) -> None:
    topic, open_producer = several_transactions(conversation)

    def fetch(label: str, offset: int, **fields: Any) -> None:
        conversation.ask(FETCH, version, label, **fetch_fields(topic, offset, **fields))

    for offset in (0, 2, 4, 7, 9, 10, 12, 13, 16, 17, 50):
        fetch(f"committed from {offset}", offset, isolation_level=1)
    fetch("all", 0, isolation_level=0)
    for limit in (1, 100, 300, 500):
        fetch(f"{limit} bytes", 0, isolation_level=1, partition_max_bytes=limit)
        fetch(f"{limit} bytes of aborted", 3, isolation_level=1, partition_max_bytes=limit)
    open_producer.end(committed=True)
    fetch("when all are decided", 0, isolation_level=1)
    fetch("when all are decided, from the last", 10, isolation_level=1)


@scenario((2, 4, 7, 11))
def list_committed_offsets(conversation: Conversation, version: int) -> None:
    topic, open_producer = several_transactions(conversation)

    times = {"latest": -1, "earliest": -2, "first": BASE_TIMESTAMP, "last": BASE_TIMESTAMP + 100}
    if version >= 7:
        times["newest"] = -3

    def listed(label: str) -> None:
        for level in (0, 1):
            for name, timestamp in times.items():
                partitions = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
                topics = [{"name": topic.name, "partitions": partitions}]
                asked = {"replica_id": -1, "isolation_level": level, "topics": topics}
                conversation.ask(LIST_OFFSETS, version, f"{label}, level {level}, {name}", **asked)

    listed("open")
    open_producer.end(committed=False)
    listed("decided")
