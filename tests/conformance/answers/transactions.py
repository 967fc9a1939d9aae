"""Transactions, API keys 22 to 28, 65 and 66: ids, epochs, partitions, ends, offsets, and what tools see."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.conversation import (
    DESCRIBE_PRODUCERS,
    FETCH,
    INIT_PRODUCER_ID,
    Conversation,
    Topic,
    fetch_fields,
    scenario,
    wait_until,
)
from tests.conformance.answers.transactional_producer import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    END_TXN_BUMPS_FROM,
    LIST_TRANSACTIONS,
    TIMEOUT_MS,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    TransactionalProducer,
)

OFFSET_FETCH, OFFSET_COMMIT = 9, 8
OFFSETS_TOPIC = "__consumer_offsets"


def describe(conversation: Conversation, producer: TransactionalProducer, label: str) -> None:
    ids = [producer.transactional_id]
    conversation.ask(DESCRIBE_TRANSACTIONS, 0, f"{label}: transaction", transactional_ids=ids)


def note_logs(conversation: Conversation, topic: Topic, label: str, partition: int = 0) -> None:
    """What readers of both kinds get."""
    for level, kind in enumerate(("all", "committed")):
        fields = fetch_fields(topic, 0, partition, isolation_level=level)
        conversation.ask(FETCH, 17, f"{label}: {kind}", **fields)


@scenario(range(6))
def init_transactional_producer(conversation: Conversation, version: int) -> None:
    producer = TransactionalProducer(conversation)

    def init(label: str, **fields: Any) -> None:
        asked = {
            "transactional_id": producer.transactional_id,
            "transaction_timeout": TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        conversation.ask(INIT_PRODUCER_ID, version, label, **(asked | fields))

    init("again")
    init("and again")
    init("empty id", transactional_id="")
    for timeout in (0, -1, 900_000, 900_001):
        init(f"timeout {timeout}", transaction_timeout=timeout)
    if version < 3:
        return
    init("id without epoch", producer_id=producer.producer_id)
    init("epoch without id", producer_epoch=1)
    producer.begin()
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    init("goes on", **own)
    init("goes on, repeated", **own)
    init("followed by another")
    init("goes on too late", **own)
    init("goes on with an epoch to come", **(own | {"producer_epoch": producer.epoch + 9}))
    init("goes on as another", producer_id=producer.producer_id + 77_777, producer_epoch=0)
    new = TransactionalProducer(conversation)
    init(
        "a new id with a past",
        transactional_id=conversation.name(),
        producer_id=new.producer_id,
        producer_epoch=3,
    )


@scenario(range(4))
def add_partitions(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    producer = TransactionalProducer(conversation, bumps=False)

    def add(label: str, *places: tuple[str, int], **changed: Any) -> None:
        fields = producer.add_fields(*(places or ((topic.name, 0),)), **changed)
        conversation.ask(ADD_PARTITIONS_TO_TXN, version, label, **fields)

    add("unknown id", transactional_id=conversation.name())
    add("empty id", transactional_id="")
    add("another's producer id", producer_id=producer.producer_id + 77_777)
    add("old epoch", producer_epoch=producer.epoch - 1)
    add("epoch to come", producer_epoch=producer.epoch + 1)
    add("unknown topic", ("no-such-topic", 0), (topic.name, 0))
    add("unknown partition", (topic.name, 3), (topic.name, 0))
    add("internal topic", (OFFSETS_TOPIC, 0), (topic.name, 0))
    describe(conversation, producer, "nothing added")
    add("first")
    add("first again")
    add("more", (topic.name, 1), (topic.name, 2))
    describe(conversation, producer, "all added")
    producer.end(committed=True)
    describe(conversation, producer, "ended")
    add("next", (topic.name, 2))
    describe(conversation, producer, "next")


@scenario((4, 5))
def add_partitions_as_a_broker(conversation: Conversation, version: int) -> None:
    """KIP-890: from version 4 on only brokers ask."""
    topic = conversation.topic(partitions=2)
    producer = TransactionalProducer(conversation)

    def add(label: str, *places: tuple[str, int], **changed: Any) -> None:
        fields = producer.add_fields(*(places or ((topic.name, 0),)), **changed)
        conversation.ask(ADD_PARTITIONS_TO_TXN, version, label, **fields)

    add("not there", verify_only=True)
    add("unknown id", transactional_id=conversation.name(), verify_only=True)
    add("another's producer id", producer_id=producer.producer_id + 77_777, verify_only=True)
    add("old epoch", producer_epoch=producer.epoch - 1, verify_only=True)
    add("unknown topic", ("no-such-topic", 0), (topic.name, 0), verify_only=True)
    add("added")
    add("one of two", (topic.name, 0), (topic.name, 1), verify_only=True)
    add("old epoch, added", producer_epoch=producer.epoch - 1)
    describe(conversation, producer, "added")
    several = [
        producer.fields | {"topics": [{"name": topic.name, "partitions": [1]}], "verify_only": False},
        producer.fields
        | {
            "transactional_id": conversation.name(),
            "topics": [{"name": topic.name, "partitions": [0]}],
            "verify_only": True,
        },
    ]
    conversation.ask(ADD_PARTITIONS_TO_TXN, version, "two transactions", transactions=several)
    describe(conversation, producer, "both added")


@scenario(range(5))
def add_offsets(conversation: Conversation, version: int) -> None:
    producer = TransactionalProducer(conversation, bumps=False)

    def add(label: str, **changed: Any) -> None:
        fields = producer.fields | {"group_id": "one-group"} | changed
        conversation.ask(ADD_OFFSETS_TO_TXN, version, label, **fields)

    add("unknown id", transactional_id=conversation.name())
    add("empty id", transactional_id="")
    add("another's producer id", producer_id=producer.producer_id + 77_777)
    add("old epoch", producer_epoch=producer.epoch - 1)
    add("added")
    add("added again")
    add("no group", group_id="")
    describe(conversation, producer, "added")


@scenario(range(6))
def end_transactions(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    bumps = version >= END_TXN_BUMPS_FROM
    producer = TransactionalProducer(conversation, bumps=bumps)

    def end(label: str, *, committed: bool, fields: dict[str, Any] | None = None, **changed: Any) -> None:
        asked = (producer.fields if fields is None else fields) | {"committed": committed} | changed
        reply = conversation.ask(END_TXN, version, label, **asked)
        producer.ended(reply if reply is not None and reply.error_code == 0 else None)

    end("unknown id", committed=True, transactional_id=conversation.name())
    end("empty id", committed=True, transactional_id="")
    end("another's producer id", committed=True, producer_id=producer.producer_id + 77_777)
    end("commit of nothing", committed=True)
    end("abort of nothing", committed=False)
    producer.send(topic)
    end("epoch to come", committed=True, producer_epoch=producer.epoch + 5)
    end("old epoch", committed=True, producer_epoch=producer.epoch - 1)
    describe(conversation, producer, "open")
    first = producer.fields
    end("commit", committed=True)
    describe(conversation, producer, "committed")
    note_logs(conversation, topic, "committed")
    end("commit again", committed=True, fields=first)
    end("abort after commit", committed=False, fields=first)
    end("commit of nothing, later", committed=True)
    producer.send(topic, count=2)
    second = producer.fields
    end("late commit of the first", committed=True, fields=first)
    end("abort", committed=False)
    describe(conversation, producer, "aborted")
    end("abort again", committed=False, fields=second)
    end("commit after abort", committed=True, fields=second)
    note_logs(conversation, topic, "both")


@scenario(range(6))
def end_fenced_transaction(conversation: Conversation, version: int) -> None:
    """Another producer of the same id comes while the transaction is open."""
    topic = conversation.topic()
    producer = TransactionalProducer(conversation, bumps=version >= END_TXN_BUMPS_FROM)
    producer.send(topic)
    fenced = producer.fields
    producer.begin()
    conversation.note("the next epoch", producer.epoch - fenced["producer_epoch"])
    conversation.ask(END_TXN, version, "commit", committed=True, **fenced)
    conversation.ask(END_TXN, version, "abort", committed=False, **fenced)
    describe(conversation, producer, "followed")
    note_logs(conversation, topic, "aborted")


def offset_fields(topic: Topic, producer: TransactionalProducer, **fields: Any) -> dict[str, Any]:
    partitions = fields.pop("partitions", (0,))
    name = fields.pop("name", topic.name)
    return (
        producer.fields
        | {
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": each,
                            "committed_offset": 40 + each,
                            "committed_leader_epoch": 0,
                            "committed_metadata": "a note",
                        }
                        for each in partitions
                    ],
                }
            ],
        }
        | fields
    )


def note_offsets(conversation: Conversation, group: str, topic: Topic, label: str, *, stable: bool) -> None:
    asked = [{"name": topic.name, "partition_indexes": [0, 1]}]
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": asked}]
    conversation.ask(OFFSET_FETCH, 8, label, groups=groups, require_stable=stable)


def wait_for_group_coordinator(conversation: Conversation, group: str, topic: Topic) -> None:
    """Until a commit is taken: Apache Kafka makes and loads the topic of the offsets first."""
    partitions = [{"partition_index": 1, "committed_offset": 7, "committed_leader_epoch": -1}]
    topics = [{"name": topic.name, "partitions": [each | {"committed_metadata": ""} for each in partitions]}]

    def taken() -> bool:
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        reply = conversation.ask_quietly(OFFSET_COMMIT, 8, **fields)
        return bool(reply.topics[0].partitions[0].error_code == 0)

    wait_until(taken)


@scenario(range(6))
def txn_offset_commit(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    group = f"group-of-transactions-{version}"
    wait_for_group_coordinator(conversation, group, topic)
    adds = version >= 5
    producer = TransactionalProducer(conversation, bumps=adds)

    def commit(label: str, **fields: Any) -> None:
        asked = offset_fields(topic, producer, **({"group_id": group} | fields))
        conversation.ask(TXN_OFFSET_COMMIT, version, label, **asked)

    commit("unknown topic", name="no-such-topic")
    commit("unknown partition", partitions=(5, 0) if adds else (5,))
    if not adds:
        commit("not added")
        added = conversation.ask_quietly(ADD_OFFSETS_TO_TXN, 3, group_id=group, **producer.fields)
        assert added.error_code == 0, added
    commit("no group", group_id="")
    commit("another's producer id", producer_id=producer.producer_id + 77_777)
    commit("old epoch", producer_epoch=producer.epoch - 1)
    commit("unknown id", transactional_id=conversation.name(), producer_id=producer.producer_id + 77_778)
    if version >= 3:
        commit("unknown member", member_id="nobody", generation_id=1)
        commit("generation without group", generation_id=3, group_id="no-such-group")
    commit("taken")
    note_offsets(conversation, group, topic, "open, stable only", stable=True)
    note_offsets(conversation, group, topic, "open", stable=False)
    describe(conversation, producer, "open")
    producer.end(committed=True)
    note_offsets(conversation, group, topic, "committed", stable=True)
    if not adds:
        conversation.ask_quietly(ADD_OFFSETS_TO_TXN, 3, group_id=group, **producer.fields)
    commit("in the next", partitions=(0, 1))
    producer.end(committed=False)
    note_offsets(conversation, group, topic, "aborted", stable=True)


@scenario((0,))
def describe_transactions(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    for bumps in (False, True):
        producer = TransactionalProducer(conversation, bumps=bumps)
        describe(conversation, producer, "empty")
        producer.send(topic)
        producer.send(topic, 1)
        asked = [producer.transactional_id, conversation.name(), ""]
        conversation.ask(DESCRIBE_TRANSACTIONS, version, "open", transactional_ids=asked)
        places = [{"name": topic.name, "partition_indexes": [0, 1]}]
        conversation.ask(DESCRIBE_PRODUCERS, 0, "producers, open", topics=places)
        producer.end(committed=bumps)
        describe(conversation, producer, "ended")
        conversation.ask(DESCRIBE_PRODUCERS, 0, "producers, ended", topics=places)
    conversation.ask(DESCRIBE_TRANSACTIONS, version, "nothing", transactional_ids=[])


@scenario(range(3))
def list_transactions(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    producers = [TransactionalProducer(conversation) for _ in range(3)]
    producers[0].send(topic)
    producers[1].send(topic)
    producers[1].end(committed=True)
    own = [each.producer_id for each in producers]

    def listed(label: str, **fields: Any) -> None:
        filters = {"state_filters": [], "producer_id_filters": own, "duration_filter": -1}
        conversation.ask(LIST_TRANSACTIONS, version, label, **(filters | fields))

    listed("own")
    listed("open", state_filters=["Ongoing"])
    listed("open or empty", state_filters=["Ongoing", "Empty"])
    listed("no such state", state_filters=["Ongoing", "Sleeping"])
    listed("nobody's", producer_id_filters=[1 << 60])
    if version >= 1:
        listed("open for long", duration_filter=3_600_000)
        listed("open for any time", duration_filter=0, state_filters=["CompleteCommit"])
    if version >= 2:
        name = producers[0].transactional_id
        listed("by name", transactional_id_pattern=name)
        listed("by its beginning alone", transactional_id_pattern=name[:-1])
        listed("by pattern", transactional_id_pattern=f"{name[:-3]}.*")
        listed("no pattern", transactional_id_pattern="(")


@scenario((1, 2))
def write_txn_markers(conversation: Conversation, version: int) -> None:
    """As administrators do with a transaction that nobody ends (KIP-664)."""
    topic = conversation.topic(partitions=2)
    producer = TransactionalProducer(conversation)
    producer.begin()

    def write(label: str, *partitions: int, name: str = topic.name, **fields: Any) -> None:
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            "transaction_version": 0,
            "topics": [{"name": name, "partition_indexes": partitions}],
        }
        conversation.ask(WRITE_TXN_MARKERS, version, label, markers=[marker | fields])

    write("unknown topic", 0, name="no-such-topic")
    write("unknown partition", 0, 7)
    producer.send(topic)
    producer.send(topic, 1)
    write("old epoch", 0, producer_epoch=producer.epoch - 1)
    if version >= 2:
        write("the epoch of the records", 0, transaction_version=2)
    write("abort", 0)
    write("abort again", 0)
    write("commit with the next epoch", 1, transaction_result=True, producer_epoch=producer.epoch + 1)
    write("older coordinator", 1, coordinator_epoch=-1, producer_epoch=producer.epoch + 1)
    conversation.ask(WRITE_TXN_MARKERS, version, "nothing", markers=[])
    for partition in range(2):
        note_logs(conversation, topic, f"partition {partition}", partition)
    places = [{"name": topic.name, "partition_indexes": [0, 1]}]
    conversation.ask(DESCRIBE_PRODUCERS, 0, "producers", topics=places)
