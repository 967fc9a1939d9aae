"""Records counted by the headers of their batches, against what a consumer sees."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from headrace.client.batches import BatchReader, batches_between, count_records
from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.visible_batches import visible_batches
from headrace.core.errors import HeadraceError
from headrace.engines.apache_kafka import ApacheKafka
from headrace.testing import EmbeddedBroker
from headrace.wire.control_batches import EndMarker, build_end_marker
from headrace.wire.record_batch import read_header, write_header
from headrace.wire.records import Record, build_batch
from tests.ports import free_port
from tests.query.records import create_topic, delete_topic, produce


def produce_transactions(bootstrap: str, topic: str, endings: str) -> None:
    """Transactions of three records in partition 0, committed (c) or aborted (a), with records between."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(30)
    for ending in endings:
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, str(number), partition=0)
        producer.flush(120)
        produce(bootstrap, topic, [{"value": b"between", "partition": 0}])
        if ending == "c":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


@pytest.mark.parametrize("engine", ["broker", "kafka"])
def test_counts_are_those_of_a_consumer_wherever_one_starts_and_ends(
    engine: str, request: pytest.FixtureRequest, topic_name: str
) -> None:
    log: EmbeddedBroker | ApacheKafka = request.getfixturevalue(engine)
    create_topic(log.bootstrap, topic_name, partitions=2)
    produce(log.bootstrap, topic_name, [{"value": b"x", "partition": number % 2} for number in range(7)])
    produce_transactions(log.bootstrap, topic_name, "caac")
    cluster = Cluster(log.bootstrap)
    topic = cluster.lookup([topic_name])[topic_name]
    ends = cluster.end_offsets(topic_name)
    seen = {number: [] for number in ends}
    for record in records_between(
        log.bootstrap, topic_name, {number: (0, end) for number, end in ends.items()}
    ):
        seen[record.partition()].append(record.offset())
    assert len(seen[0]) == 4 + 4 + 6, "a marker or an aborted record is not a record"
    for first in range(ends[0]):
        for end in range(first, ends[0] + 2):
            expected = len([offset for offset in seen[0] if first <= offset < end])
            assert count_records(cluster, topic, {0: (first, end)}) == expected, (first, end)
    everything = {number: (0, end) for number, end in ends.items()}
    assert count_records(cluster, topic, everything) == len(seen[0]) + len(seen[1])


def test_an_open_transaction_is_not_counted(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    produce(broker.bootstrap, topic_name, [{"value": b"x"}] * 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_name}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"x")
    producer.flush(120)
    cluster = Cluster(broker.bootstrap)
    topic = cluster.lookup([topic_name])[topic_name]
    assert count_records(cluster, topic, {0: (0, 100)}) == 2
    producer.commit_transaction(30)
    assert count_records(cluster, topic, {0: (0, 100)}) == 3


def test_many_small_fetches_give_each_batch_once(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    for _ in range(12):
        produce(broker.bootstrap, topic_name, [{"value": b"x" * 900_000}])
    cluster = Cluster(broker.bootstrap)
    topic = cluster.lookup([topic_name])[topic_name]
    batches = [batch for _, batch in batches_between(cluster, topic, {0: (3, 11)})]
    assert [batch.first for batch in batches] == list(range(3, 11))


@pytest.mark.parametrize("engine", ["broker", "kafka"])
def test_a_position_that_the_log_does_not_have_is_said(
    engine: str, request: pytest.FixtureRequest, topic_name: str
) -> None:
    log: EmbeddedBroker | ApacheKafka = request.getfixturevalue(engine)
    create_topic(log.bootstrap, topic_name)
    produce(log.bootstrap, topic_name, [{"value": b"x"}] * 2)
    cluster = Cluster(log.bootstrap)
    topic = cluster.lookup([topic_name])[topic_name]
    reader = BatchReader(cluster)
    try:
        beyond = reader.fetch({topic: {0: 5}}, wait_ms=0)[topic.topic_id, 0]
        assert (beyond.is_out_of_range, beyond.batches, beyond.first, beyond.end) == (True, (), 0, 2)
        at_end = reader.fetch({topic: {0: 2}}, wait_ms=0)[topic.topic_id, 0]
        assert (at_end.is_out_of_range, at_end.position, at_end.end) == (False, 2, 2)
    finally:
        reader.close()


def test_another_incarnation_is_not_read(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    cluster = Cluster(broker.bootstrap)
    topic = cluster.lookup([topic_name])[topic_name]
    reader = BatchReader(cluster)
    try:
        assert (topic.topic_id, 0) in reader.fetch({topic: {0: 0}}, wait_ms=0)
        delete_topic(broker.bootstrap, topic_name)
        create_topic(broker.bootstrap, topic_name)
        produce(broker.bootstrap, topic_name, [{"value": b"x"}])
        assert reader.fetch({topic: {0: 0}}, wait_ms=0) == {}
    finally:
        reader.close()


def test_a_log_that_is_away_is_unavailable(broker: EmbeddedBroker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name)
    topic = Cluster(broker.bootstrap).lookup([topic_name])[topic_name]
    away = BatchReader(Cluster(f"127.0.0.1:{free_port()}", timeout_seconds=1))
    with pytest.raises(HeadraceError, match="could not"):
        away.fetch({topic: {0: 0}}, wait_ms=0)


def batch(first: int, deltas: list[int], *, last_delta: int | None = None) -> bytearray:
    """A batch with records at these places; a last offset beyond them is what compaction leaves."""
    built = build_batch([Record(delta, 0, b"k", b"v") for delta in deltas], base_offset=first)
    if last_delta is not None:
        header = read_header(built)._replace(last_offset_delta=last_delta, record_count=len(deltas))
        write_header(built, header)
    return built


def test_gaps_and_thinned_batches_count_what_they_hold() -> None:
    filler = batch(10, [], last_delta=89)
    buffer = batch(0, list(range(10))) + filler + batch(100, [0, 3, 4], last_delta=9) + batch(110, [0, 1])
    found, position = visible_batches(bytes(buffer), 0, [])
    assert [(each.first, each.end, each.records) for each in found] == [
        (0, 10, 10),
        (100, 110, 3),
        (110, 112, 2),
    ]
    assert position == 112
    inside, _ = visible_batches(bytes(buffer), 103, [], end=104)
    assert [(each.first, each.end, each.records) for each in inside] == [(103, 104, 1)]
    assert visible_batches(bytes(buffer), 105, [], end=110)[0] == []
    cut_off, position = visible_batches(bytes(buffer[:-1]), 0, [])
    assert (len(cut_off), position) == (2, 110)
    # A reader that starts inside the gap moves over it.
    assert visible_batches(bytes(filler), 50, []) == ([], 100)


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    def transactional(first: int, producer_id: int) -> bytearray:
        records = [Record(delta) for delta in range(2)]
        return build_batch(
            records, base_offset=first, producer_id=producer_id, producer_epoch=0, transactional=True
        )

    def marker(first: int, producer_id: int, *, committed: bool) -> bytearray:
        end = EndMarker(committed=committed, coordinator_epoch=0)
        return build_end_marker(
            end, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=first
        )

    buffer = (
        transactional(0, 7)
        + transactional(2, 8)
        + marker(4, 7, committed=False)
        + transactional(5, 7)
        + marker(7, 8, committed=True)
        + marker(8, 7, committed=True)
    )
    found, position = visible_batches(bytes(buffer), 0, [(0, 7)])
    assert [each.first for each in found] == [2, 5]
    assert position == 9
