"""Produce, API key 0: what is taken, what is refused, and what the log holds afterwards."""

from __future__ import annotations

import time
import uuid

from tests.conformance.answers.conversation import (
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    Conversation,
    Topic,
    fetch_fields,
    produce_fields,
    scenario,
    wait_until,
)
from tests.conformance.record_batches import BASE_TIMESTAMP, CODECS, Record, batch, old_message
from tests.conformance.topics import end_offsets

VERSIONS = range(3, 14)
# The oldest and those that changed something, for what makes many topics and does not look at the version.
SOME_VERSIONS = (3, 5, 8, 12, 13)
DAY_MS = 86_400_000
NO_TOPIC = Topic(name="no-such-topic", id=uuid.UUID("00000000-0000-0000-0000-00000000dead"))


def note_log(conversation: Conversation, topic: Topic, partition: int = 0, offset: int = 0) -> None:
    """What a consumer reads from the partition."""
    conversation.ask(FETCH, 17, "log", **fetch_fields(topic, offset, partition))


@scenario(VERSIONS)
def produce_batches(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=3)
    for acks in (1, -1):
        conversation.ask(PRODUCE, version, f"acks {acks}", **produce_fields(topic, batch(), acks=acks))
    three = [
        Record(key=b"k", value=None, timestamp_delta=5, headers=(("h", b"1"), ("h", None), ("", b""))),
        Record(key=b"", value=b"", timestamp_delta=-3),
        Record(value=b"x" * 300),
    ]
    conversation.ask(PRODUCE, version, "three records", **produce_fields(topic, batch(three), 2))
    for codec in CODECS:
        if codec != "zstd" or version >= 7:
            records = batch(three, codec=codec)
            conversation.ask(PRODUCE, version, codec, **produce_fields(topic, records, 2))
    for partition in range(3):
        note_log(conversation, topic, partition)


@scenario(range(3, 7))
def produce_zstd_too_early(conversation: Conversation, version: int) -> None:
    """KIP-110: zstd came with version 7."""
    topic = conversation.topic()
    conversation.ask(PRODUCE, version, **produce_fields(topic, batch(codec="zstd")))
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_without_answer(conversation: Conversation, version: int) -> None:
    """Acks 0: the next answer on the connection is that of the next request; an error ends the connection."""
    topic = conversation.topic()
    conversation.client.send(PRODUCE, version, **produce_fields(topic, batch(), acks=0))
    conversation.client.send(PRODUCE, version, **produce_fields(topic, batch(), acks=0))
    conversation.ask(METADATA, 12, "after", topics=[{"name": topic.name}])
    # The embedded broker reserves offsets first.
    wait_until(lambda: end_offsets(conversation.client, topic.name) == [2])
    note_log(conversation, topic)
    conversation.client.send(PRODUCE, version, **produce_fields(topic, batch(crc=1), acks=0))
    conversation.note("closed after an error", conversation.client.is_closed_by_broker())


@scenario(VERSIONS)
def produce_to_nowhere(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    conversation.ask(PRODUCE, version, "unknown topic", **produce_fields(NO_TOPIC, batch()))
    conversation.ask(PRODUCE, version, "unknown partition", **produce_fields(topic, batch(), 2))
    conversation.ask(PRODUCE, version, "negative partition", **produce_fields(topic, batch(), -1))
    conversation.ask(PRODUCE, version, "acks 2", **produce_fields(topic, batch(), acks=2))
    conversation.ask(PRODUCE, version, "acks -2", **produce_fields(topic, batch(), acks=-2))
    conversation.ask(PRODUCE, version, "nothing", acks=-1, timeout=1000, topic_data=[])
    no_id = Topic(name="", id=uuid.UUID(int=0))
    conversation.ask(PRODUCE, version, "no name and no id", **produce_fields(no_id, batch()))
    some = [
        {"index": 0, "records": batch()},
        {"index": 7, "records": batch()},
        {"index": 1, "records": batch(crc=0)},
    ]
    several = [{"name": topic.name, "topic_id": topic.id, "partition_data": some}]
    conversation.ask(PRODUCE, version, "good and bad", acks=-1, timeout=1000, topic_data=several)
    note_log(conversation, topic)
    note_log(conversation, topic, 1)


@scenario(VERSIONS)
def produce_bad_batches(conversation: Conversation, version: int) -> None:
    """What the header of a batch tells."""
    topic = conversation.topic()
    two = [Record(value=b"a"), Record(value=b"b")]
    good = batch(two)
    cases = {
        "bad checksum": batch(crc=12345),
        "magic 0": old_message(0),
        "magic 1": old_message(1),
        "magic 3": batch(magic=3),
        "magic -1": batch(magic=-1),
        "two batches": good + good,
        "a batch and a part of one": good + good[:-1],
        "cut off": good[:-1],
        "only a header's beginning": good[:20],
        "sixteen bytes": good[:16],
        "three bytes": good[:3],
        "length too small": batch(length=10),
        "length of a header without its end": batch(length=30),
        "length negative": batch(length=-1),
        "length too large": batch(length=10_000),
        "no records, count 0": batch([], last_offset_delta=0),
        "empty batch": batch([]),
        "count negative": batch(two, record_count=-1),
        "last offset too large": batch(two, last_offset_delta=5),
        "last offset too small": batch(two, last_offset_delta=0),
        "last offset negative": batch(two, last_offset_delta=-1),
        "base offset not 0": batch(two, base_offset=77),
        "control batch": batch(two, attributes=0x20),
        "log append time set by the producer": batch(two, attributes=8),
        "leader epoch set": batch(two, leader_epoch=9),
        "offsets with a hole": batch([Record(), Record(offset_delta=2)]),
        "no bytes": b"",
    }
    for label, records in cases.items():
        conversation.ask(PRODUCE, version, label, **produce_fields(topic, records))
    note_log(conversation, topic)


@scenario(SOME_VERSIONS)
def produce_bad_records(conversation: Conversation, version: int) -> None:
    """What only the records themselves tell; each case with a log of its own."""
    two = [Record(value=b"a"), Record(value=b"b")]
    cases = {
        "no records, count 1": batch([], record_count=1, last_offset_delta=0),
        "more records counted": batch(two, record_count=3, last_offset_delta=2),
        "fewer records counted": batch(two, record_count=1, last_offset_delta=0),
        "unknown codec": batch(two, attributes=5),
        "not gzip": batch(two, attributes=1),
        "not lz4": batch(two, attributes=3),
        "not snappy": batch(two, attributes=2),
        "bytes after the records": batch(two, payload=batch(two)[61:] + b"\x00\x00"),
        "compressed, count wrong": batch(two, codec="gzip", record_count=3, last_offset_delta=2),
    }
    for label, records in cases.items():
        topic = conversation.topic()
        conversation.ask(PRODUCE, version, label, **produce_fields(topic, records))


@scenario(VERSIONS)
def produce_too_large(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(max_message_bytes="1000", segment_bytes="1048576")
    conversation.ask(PRODUCE, version, "fits", **produce_fields(topic, batch([Record(value=b"x" * 900)])))
    conversation.ask(
        PRODUCE, version, "too large", **produce_fields(topic, batch([Record(value=b"x" * 1000)]))
    )
    exact = batch([Record(value=b"x" * (1000 - 61 - 10))])
    exact = batch([Record(value=b"x" * (1000 - 61 - 10 + 1000 - len(exact)))])
    assert len(exact) == 1000
    conversation.ask(PRODUCE, version, "exactly", **produce_fields(topic, exact))
    small = conversation.topic(segment_bytes="1048576", max_message_bytes="2000000")
    beyond = batch([Record(value=b"y" * 1_048_576)])
    conversation.ask(PRODUCE, version, "larger than a segment", **produce_fields(small, beyond))
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_with_timestamp_limits(conversation: Conversation, version: int) -> None:
    """KIP-937: limits before and after the broker's time, each record judged."""
    topic = conversation.topic(
        message_timestamp_before_max_ms=str(DAY_MS), message_timestamp_after_max_ms=str(DAY_MS)
    )
    now = time.time_ns() // 1_000_000
    late = [Record(timestamp_delta=0), Record(timestamp_delta=3 * DAY_MS), Record(timestamp_delta=1)]
    cases = {
        "good": batch(base_timestamp=now),
        "too old": batch(base_timestamp=now - 3 * DAY_MS),
        "too new": batch(base_timestamp=now + 3 * DAY_MS),
        "one of three too new": batch(late, base_timestamp=now),
        "compressed, too new": batch(late, base_timestamp=now, codec="lz4"),
        "one too old, maximum good": batch(
            [Record(timestamp_delta=-3 * DAY_MS), Record(), Record(timestamp_delta=1)], base_timestamp=now
        ),
        "no timestamp": batch(base_timestamp=-1),
        "maximum not that of the records": batch(base_timestamp=now, max_timestamp=now + 77),
    }
    for label, records in cases.items():
        reply = conversation.client.ask(PRODUCE, version, **produce_fields(topic, records))
        partition = reply.responses[0].partition_responses[0]
        # The message tells both times.
        conversation.note(label, [partition.error_code.name, partition.base_offset])
        errors = getattr(partition, "record_errors", ())
        conversation.note(f"{label}, records", [each.batch_index for each in errors])
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_with_log_append_time(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(message_timestamp_type="LogAppendTime")
    two = [Record(timestamp_delta=-5), Record(timestamp_delta=5)]
    for codec in ("none", "gzip", "lz4"):
        conversation.ask(PRODUCE, version, codec, **produce_fields(topic, batch(two, codec=codec)))
    far = batch(two, base_timestamp=BASE_TIMESTAMP + 10_000 * DAY_MS)
    conversation.ask(PRODUCE, version, "far future", **produce_fields(topic, far))
    note_log(conversation, topic)


@scenario(SOME_VERSIONS)
def produce_recompressed(conversation: Conversation, version: int) -> None:
    """A topic's own codec: a batch in another one is written anew."""
    two = [Record(key=b"k", value=b"a" * 40, headers=(("h", None),)), Record(value=None, timestamp_delta=9)]
    for wanted in ("uncompressed", "gzip", "lz4", "snappy", "zstd"):
        topic = conversation.topic(compression_type=wanted)
        for codec in ("none", "gzip", "snappy"):
            label = f"{codec} to {wanted}"
            conversation.ask(PRODUCE, version, label, **produce_fields(topic, batch(two, codec=codec)))
        other = "lz4" if wanted != "lz4" else "gzip"
        bad = batch(two, codec=other, record_count=3, last_offset_delta=2)
        conversation.ask(PRODUCE, version, f"bad to {wanted}", **produce_fields(topic, bad))
        note_log(conversation, topic)


@scenario(VERSIONS)
def produce_to_compacted_topic(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(cleanup_policy="compact")
    mixed = [Record(key=b"a"), Record(key=None), Record(key=b"b"), Record(key=None)]
    conversation.ask(PRODUCE, version, "keyed", **produce_fields(topic, batch([Record(key=b"a")])))
    conversation.ask(PRODUCE, version, "keyless", **produce_fields(topic, batch()))
    conversation.ask(PRODUCE, version, "mixed", **produce_fields(topic, batch(mixed)))
    conversation.ask(PRODUCE, version, "mixed, gzip", **produce_fields(topic, batch(mixed, codec="gzip")))
    conversation.ask(PRODUCE, version, "empty key", **produce_fields(topic, batch([Record(key=b"")])))
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_idempotently(conversation: Conversation, version: int) -> None:
    """KIP-98: sequence numbers and epochs; the last five batches are known again."""
    topic = conversation.topic()
    conversation.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000)
    known = conversation.ask_quietly(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000)
    producer = known.producer_id
    for number in (producer, *range(producer + 1000, producer + 1004)):
        conversation.know_producer(number)

    def send(
        label: str, sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = producer
    ) -> None:
        records = batch(
            [Record()] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        conversation.ask(PRODUCE, version, label, **produce_fields(topic, records))

    send("first", 0, count=3)
    send("again", 0, count=3)
    send("same start, other count", 0, count=2)
    send("next", 3)
    send("gap", 9)
    for sequence in range(4, 9):
        send("more", sequence)
    send("older than the last five", 3)
    send("one of the last five", 5)
    send("behind, never sent so", 6, count=2)
    send("new epoch, sequence not 0", 5, epoch=1)
    send("new epoch", 0, epoch=1)
    send("old epoch", 9, epoch=0)
    send("two epochs on", 0, epoch=3)
    send("gap in the new epoch", 2, epoch=3)
    send("unknown producer, sequence not 0", 7, producer_id=producer + 1000)
    send("unknown producer, the next", 8, producer_id=producer + 1000)
    send("unknown producer, again", 7, producer_id=producer + 1000)
    send("before the wrap", 2_147_483_646, producer_id=producer + 1001, count=2)
    send("wrapped", 0, producer_id=producer + 1001)
    send("across the wrap", 2_147_483_647, producer_id=producer + 1002, count=3)
    send("after it", 2, producer_id=producer + 1002)
    send("no sequence", -1)
    send("negative epoch", 0, epoch=-1, producer_id=producer + 1003)
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_same_partition_twice(conversation: Conversation, version: int) -> None:
    topic = conversation.topic()
    twice = [{"index": 0, "records": batch([Record(value=text)])} for text in (b"a", b"b")]
    data = [{"name": topic.name, "topic_id": topic.id, "partition_data": twice}]
    conversation.ask(PRODUCE, version, acks=-1, timeout=1000, topic_data=data)
    note_log(conversation, topic)


@scenario(VERSIONS)
def produce_pipelined(conversation: Conversation, version: int) -> None:
    """Answers come in the order of the requests."""
    topic = conversation.topic()
    client = conversation.client
    for count in range(1, 6):
        client.send(PRODUCE, version, **produce_fields(topic, batch([Record()] * count)))
        client.send(API_VERSIONS, 0)
    bases = []
    for _ in range(5):
        bases.append(client.receive(PRODUCE, version).responses[0].partition_responses[0].base_offset)
        client.receive(API_VERSIONS, 0)
    conversation.note("base offsets", bases)
    note_log(conversation, topic)
