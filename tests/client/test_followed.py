"""Followed topics: folding from the beginning, waiting for an end, and records read back after an append."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.client.cluster import Cluster
from headrace.client.errors import NotAcknowledgedError
from headrace.client.followed import CompactedLog, FollowedTopic
from headrace.client.reading import TopicReader, records_between
from headrace.client.topics import COMPACTED
from headrace.client.writing import Headers, Outgoing, RecordWriter, Written
from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import PowerCutBroker


def test_a_topic_of_several_partitions_is_followed_from_its_beginning(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=3)
    seen: list[bytes] = []

    def fold(record: Any) -> None:
        seen.append(record.value())

    for number in range(20):
        cluster.produce(topic_name, b"%d" % number, b"%d" % number)
    followed = FollowedTopic(broker.bootstrap, topic_name, fold, partitions=3)
    followed.start()
    try:
        assert followed.wait_until_read(cluster.end_offsets(topic_name), 120)
        assert sorted(map(int, seen)) == list(range(20))
        cluster.produce(topic_name, b"k", b"20")
        assert followed.wait_for(lambda: b"20" in seen, 120)
        assert not followed.wait_until_read({0: 1000}, 0.05)
    finally:
        followed.stop()
    assert not followed.is_followed


def test_an_append_returns_once_its_record_was_folded(broker: EmbeddedBroker, topic_name: str) -> None:
    state: dict[bytes, bytes | None] = {}

    def fold(record: Any) -> None:
        state[record.key()] = record.value()

    log = CompactedLog(broker.bootstrap, topic_name, fold, holds="things", timeout=120)
    log.start()
    try:
        assert log.append(b"a", b"1")
        assert state == {b"a": b"1"}
        log.append_later(b"b", b"2")
        assert log.append(b"a", None)
        assert state[b"a"] is None
        log.read_to_end()
    finally:
        log.stop()
    with pytest.raises(HeadraceError, match="is not followed any more"):
        log.read_to_end()
    again: list[bytes] = []
    follower = CompactedLog(
        broker.bootstrap,
        topic_name,
        lambda record: again.append(record.key() or b""),
        holds="things",
        timeout=120,
    )
    follower.start()
    follower.stop()
    assert sorted(again) == [b"a", b"a", b"b"]


def test_a_record_without_an_acknowledgement_is_no_success(broker: EmbeddedBroker, topic_name: str) -> None:
    class Losing(CompactedLog):
        def write(self, key: bytes, value: bytes | None, headers: Headers = ()) -> int:
            super().write(key, value, headers)
            raise NotAcknowledgedError(KafkaError(KafkaError._MSG_TIMED_OUT))

    log = Losing(broker.bootstrap, topic_name, lambda _: None, holds="things", timeout=120)
    log.start()
    try:
        assert not log.append(b"a", b"1")
    finally:
        log.stop()


def test_each_record_of_a_batch_has_its_own_outcome(broker: EmbeddedBroker, topic_name: str) -> None:
    Cluster(broker.bootstrap).create_topic(topic_name, partitions=2)
    writer = RecordWriter(broker.bootstrap, timeout_seconds=120, largest_message=2_000)
    good = Outgoing(
        topic=topic_name, key=b"k", value=b"v", partition=1, headers=(("h", b"x"),), timestamp_ms=7
    )
    large = Outgoing(topic=topic_name, key=b"k", value=bytes(3_000))
    first, second, third = writer.write_all([good, large, good])
    assert (first, third) == (Written(partition=1, offset=0), Written(partition=1, offset=1))
    assert isinstance(second, KafkaError)
    assert second.code() == KafkaError.MSG_SIZE_TOO_LARGE
    with pytest.raises(NotAcknowledgedError):
        writer.write(large)
    assert writer.write(good) == 2, "the writer is as good as before"
    (record, *_rest) = records_between(broker.bootstrap, topic_name, {1: (0, 3)})
    assert (record.key(), record.headers(), record.timestamp()[1]) == (b"k", [("h", b"x")], 7)
    writer.close()


def test_a_writer_without_a_log_gives_up_and_starts_anew(topic_name: str) -> None:
    with EmbeddedBroker() as broker:
        Cluster(broker.bootstrap).create_topic(topic_name, partitions=1)
        writer = RecordWriter(broker.bootstrap, timeout_seconds=30)
        record = Outgoing(topic=topic_name, key=None, value=b"v")
        writer.write(record)
        former = writer.open()
        broker.stop()
        with pytest.raises(NotAcknowledgedError, match=r"no acknowledgement within 0\.2 s"):
            writer.write(record, timeout=0.2)
        assert writer.open() is not former
        writer.close(0.1)


def test_a_stretch_is_read_partition_by_partition(broker: EmbeddedBroker, topic_name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=2)
    writer = RecordWriter(broker.bootstrap, timeout_seconds=120)
    writer.write_all(
        [
            Outgoing(topic=topic_name, key=None, value=b"%d" % number, partition=number % 2)
            for number in range(10)
        ]
    )
    found = records_between(broker.bootstrap, topic_name, {1: (1, 3), 0: (3, 99), 7: (5, 5)})
    assert [record.value() for record in found] == [b"6", b"8", b"3", b"5"]
    reader = TopicReader(broker.bootstrap, topic_name)
    reader.read_from({0: 4})
    assert [record.value() for record in reader.until({0: 5})] == [b"8"]
    reader.close()
    cluster.delete_topic(topic_name)
    with pytest.raises(HeadraceError, match=f"could not read topic `{topic_name}`"):
        list(records_between(broker.bootstrap, topic_name, {0: (0, 1)}, 3.0))


@pytest.mark.parametrize("is_old", [False, True], ids=["new topic", "topic of an earlier version"])
def test_what_was_appended_survives_a_power_failure(tmp_path: Path, is_old: bool) -> None:
    """A statement that was answered, a schema that has an id: whatever the broker's `fsync` is."""
    broker = PowerCutBroker(tmp_path)
    broker.start()
    try:
        if is_old:
            Cluster(broker.bootstrap).create_topic("_things", partitions=1, config=COMPACTED)
        log = CompactedLog(broker.bootstrap, "_things", lambda _: None, holds="things", timeout=120)
        log.start()
        assert log.append(b"a", b"1")
        broker.cut_power()
        log.stop()
        broker.start()
        found = records_between(broker.bootstrap, "_things", {0: (0, 1)})
        assert [(record.key(), record.value()) for record in found] == [(b"a", b"1")]
    finally:
        broker.end()
