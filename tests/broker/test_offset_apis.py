"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch over a socket, answered as Apache Kafka 4.3.1 does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.broker.served_broker import ServedBroker, served
from tests.conformance.record_batches import BASE_TIMESTAMP, Record

LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 2, 21, 23
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NOTHING = (-1, -1, -1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def listed(
    broker: ServedBroker, name: str, timestamp: int, *, version: int = 11, epoch: int = -1, **fields: int
) -> tuple[str, tuple[int, int, int]]:
    """The error, and timestamp, offset and leader epoch."""
    asked = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": name, "partitions": [asked]}]
    reply = broker.ask(
        LIST_OFFSETS, version, **{"replica_id": -1, "timeout": 5_000, "topics": topics} | fields
    )
    (answer,) = reply["topics"][0]["partitions"]
    return answer["error_code"], (answer["timestamp"], answer["offset"], answer.get("leader_epoch", -1))


@pytest.fixture(scope="module")
def filled(broker: ServedBroker) -> str:
    """Offsets 0 to 4, whose timestamps do not rise; the newest stands at offset 1."""
    broker.create("filled")
    broker.produce("filled", *(Record(timestamp_delta=delta) for delta in (0, 100, 50)))
    broker.produce("filled", *(Record(timestamp_delta=delta) for delta in (60, 70)), codec="gzip")
    return "filled"


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (LATEST, (-1, 5, 0)),
        (EARLIEST, (-1, 0, 0)),
        (MAX_TIMESTAMP, (BASE_TIMESTAMP + 100, 1, 0)),
        (EARLIEST_LOCAL, (-1, 0, 0)),
        (LATEST_TIERED, NOTHING),
        (PENDING_UPLOAD, NOTHING),
        (0, (BASE_TIMESTAMP, 0, 0)),
        (BASE_TIMESTAMP, (BASE_TIMESTAMP, 0, 0)),
        (BASE_TIMESTAMP + 1, (BASE_TIMESTAMP + 100, 1, 0)),
        (BASE_TIMESTAMP + 100, (BASE_TIMESTAMP + 100, 1, 0)),
        (BASE_TIMESTAMP + 101, NOTHING),
    ],
    # The times are those of the run; processes that share the tests must agree on names.
    ids=lambda value: str(value - BASE_TIMESTAMP) if isinstance(value, int) and value > 0 else None,
)
def test_offsets_by_time(
    broker: ServedBroker, filled: str, timestamp: int, answer: tuple[int, int, int]
) -> None:
    assert listed(broker, filled, timestamp) == ("none", answer)
    assert listed(broker, filled, timestamp, isolation_level=1) == ("none", answer)


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [(LATEST, (-1, 0, 0)), (EARLIEST, (-1, 0, 0)), (MAX_TIMESTAMP, NOTHING), (0, NOTHING)],
)
def test_an_empty_partition(broker: ServedBroker, timestamp: int, answer: tuple[int, int, int]) -> None:
    name = f"empty{timestamp}"
    broker.create(name)
    assert listed(broker, name, timestamp) == ("none", answer)


@pytest.mark.parametrize(
    ("timestamp", "lowest"),
    [
        (LATEST, 1),
        (EARLIEST, 1),
        (MAX_TIMESTAMP, 7),
        (EARLIEST_LOCAL, 8),
        (LATEST_TIERED, 9),
        (PENDING_UPLOAD, 11),
        (-7, 12),
        (-100, 12),
    ],
)
def test_special_times_have_a_lowest_version(
    broker: ServedBroker, filled: str, timestamp: int, lowest: int
) -> None:
    for version in range(1, 12):
        error, _ = listed(broker, filled, timestamp, version=version)
        assert error == ("none" if version >= lowest else "unsupported_version"), version


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, "none"), (0, "none"), (1, "unknown_leader_epoch"), (-5, "fenced_leader_epoch")],
)
def test_the_clients_view_of_the_leader_is_checked(
    broker: ServedBroker, filled: str, epoch: int, error: str
) -> None:
    assert listed(broker, filled, LATEST, epoch=epoch)[0] == error


def test_an_old_leader_epoch_is_fenced(broker: ServedBroker) -> None:
    broker.create("third-epoch")

    def third(inner: Any) -> None:
        (log,) = inner.logs.topics["third-epoch"].partitions
        log.parts.epochs.current = 3
        log.parts.epochs.assign(3, log.end_offset)

    broker.do(third)
    assert listed(broker, "third-epoch", LATEST, epoch=2)[0] == "fenced_leader_epoch"
    assert listed(broker, "third-epoch", LATEST, epoch=3) == ("none", (-1, 0, 3))
    assert ended(broker, "third-epoch", 0, current=2) == ("fenced_leader_epoch", -1, -1)


def test_unknown_topics_partitions_and_isolation_levels(broker: ServedBroker, filled: str) -> None:
    assert listed(broker, "nowhere", LATEST) == ("unknown_topic_or_partition", NOTHING)
    assert listed(broker, filled, LATEST, isolation_level=2) == ("unknown_server_error", NOTHING)
    asked = [{"partition_index": index, "timestamp": LATEST} for index in (7, -1)]
    reply = broker.ask(LIST_OFFSETS, 11, replica_id=-1, topics=[{"name": filled, "partitions": asked}])
    answers = reply["topics"][0]["partitions"]
    assert [answer["error_code"] for answer in answers] == ["unknown_topic_or_partition"] * 2


def test_a_partition_named_twice_is_refused_once(broker: ServedBroker, filled: str) -> None:
    twice = [{"partition_index": 0, "timestamp": LATEST}, {"partition_index": 0, "timestamp": EARLIEST}]
    other = [{"partition_index": 4, "timestamp": LATEST}]
    topics = [{"name": filled, "partitions": twice}, {"name": filled, "partitions": other}]
    (topic,) = broker.ask(LIST_OFFSETS, 11, replica_id=-1, topics=topics)["topics"]
    answers = {answer["partition_index"]: answer["error_code"] for answer in topic["partitions"]}
    assert answers == {0: "invalid_request", 4: "unknown_topic_or_partition"}


def test_consumers_see_what_is_on_the_disk_with_fsync_always(tmp_path: Path) -> None:
    with served(tmp_path / "data", fsync="always") as broker:
        broker.create("durable")
        broker.produce("durable", Record(), Record())

        def unsynced(inner: Any) -> None:
            (log,) = inner.logs.topics["durable"].partitions
            log.parts.flush.flushed_offset = 1

        broker.do(unsynced)
        assert listed(broker, "durable", LATEST) == ("none", (-1, 1, 0))
        assert listed(broker, "durable", LATEST, replica_id=5) == ("none", (-1, 2, 0))


def deleted(broker: ServedBroker, name: str, offset: int, version: int = 2) -> tuple[str, int]:
    """The error and the first offset afterwards."""
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}]
    (topic,) = broker.ask(DELETE_RECORDS, version, topics=topics, timeout=10_000)["topics"]
    (answer,) = topic["partitions"]
    return answer["error_code"], answer["low_watermark"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deleting_records(broker: ServedBroker, version: int) -> None:
    name = f"shrinking{version}"
    broker.create(name)
    broker.produce(name, *(Record() for _ in range(5)))
    broker.produce(name, *(Record(timestamp_delta=9) for _ in range(5)))
    assert deleted(broker, name, 0, version) == ("none", 0)
    assert deleted(broker, name, 3, version) == ("none", 3)
    assert deleted(broker, name, 2, version) == ("none", 3)
    assert deleted(broker, name, 11, version) == ("offset_out_of_range", -1)
    assert deleted(broker, name, -2, version) == ("offset_out_of_range", -1)
    assert listed(broker, name, EARLIEST) == ("none", (-1, 3, 0))
    assert listed(broker, name, 0) == ("none", (BASE_TIMESTAMP, 3, 0))
    assert deleted(broker, name, -1, version) == ("none", 10)
    assert listed(broker, name, EARLIEST) == ("none", (-1, 10, 0))
    assert listed(broker, name, LATEST) == ("none", (-1, 10, 0))
    assert listed(broker, name, 0) == ("none", NOTHING)
    assert listed(broker, name, MAX_TIMESTAMP) == ("none", NOTHING)


@pytest.mark.parametrize(
    ("policy", "error"),
    [("compact", "policy_violation"), ("compact,delete", "none"), ("delete", "none"), ("", "none")],
)
def test_only_compacted_topics_keep_their_records(broker: ServedBroker, policy: str, error: str) -> None:
    name = f"policy-{policy.replace(',', '-')}"
    broker.create(name, cleanup_policy=policy)
    broker.produce(name, Record(key=b"k"), Record(key=b"k"))
    assert deleted(broker, name, 1) == (error, 1 if error == "none" else -1)


def test_the_brokers_own_topics_and_unknown_ones_are_refused(broker: ServedBroker) -> None:
    broker.create("__consumer_offsets")
    assert deleted(broker, "__consumer_offsets", 0) == ("invalid_topic_exception", -1)
    assert deleted(broker, "nowhere", 0) == ("unknown_topic_or_partition", -1)


def test_of_a_partition_named_twice_the_last_offset_counts(broker: ServedBroker) -> None:
    broker.create("twice")
    broker.produce("twice", Record(), Record(), Record())
    partitions = [{"partition_index": 0, "offset": 99}, {"partition_index": 0, "offset": 2}]
    topics = [{"name": "twice", "partitions": partitions}]
    (topic,) = broker.ask(DELETE_RECORDS, 2, topics=topics, timeout=10_000)["topics"]
    assert topic["partitions"] == [{"partition_index": 0, "low_watermark": 2, "error_code": "none"}]


def ended(
    broker: ServedBroker, name: str, epoch: int, *, current: int = -1, version: int = 4, partition: int = 0
) -> tuple[str, int, int]:
    """The error, the epoch found and where it ends."""
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = [{"topic": name, "partitions": [asked]}]
    (topic,) = broker.ask(OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)["topics"]
    (answer,) = topic["partitions"]
    return answer["error_code"], answer["leader_epoch"], answer["end_offset"]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_a_leader_epoch_ends(broker: ServedBroker, filled: str, version: int) -> None:
    assert ended(broker, filled, 0, version=version) == ("none", 0, 5)
    assert ended(broker, filled, 0, current=0, version=version) == ("none", 0, 5)
    assert ended(broker, filled, 0, current=1, version=version) == ("unknown_leader_epoch", -1, -1)
    assert ended(broker, filled, 1, version=version) == ("none", -1, -1)
    assert ended(broker, filled, -1, version=version) == ("none", -1, -1)
    assert ended(broker, filled, 0, partition=3, version=version) == ("unknown_topic_or_partition", -1, -1)
    assert ended(broker, "nowhere", 0, version=version) == ("unknown_topic_or_partition", -1, -1)


def test_librdkafka_finds_offsets_and_deletes_records(broker: ServedBroker) -> None:
    broker.create("client")
    broker.produce("client", *(Record(timestamp_delta=10 * index) for index in range(5)))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partition = TopicPartition("client", 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 5),
        (OffsetSpec.max_timestamp(), 4),
    ):
        assert admin.list_offsets({partition: spec})[partition].result(120).offset == offset
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        at = TopicPartition("client", 0, BASE_TIMESTAMP + 11)
        assert [found.offset for found in consumer.offsets_for_times([at], timeout=120)] == [2]
        kept = admin.delete_records([TopicPartition("client", 0, 3)])[partition].result(120)
        assert kept.low_watermark == 3
        assert consumer.get_watermark_offsets(partition, timeout=120) == (3, 5)
    finally:
        consumer.close()
