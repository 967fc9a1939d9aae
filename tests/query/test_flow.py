"""The flow watcher against a real log and a real Delta table."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.core.histogram import Percentiles
from headrace.engines.apache_kafka import ApacheKafka
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.query.flow import FlowWatcher
from headrace.query.record_counting import COUNTS_TOPIC
from headrace.query.record_counts import decode, encode
from headrace.testing import EmbeddedBroker
from tests.ports import free_port
from tests.query.delta_tables import events, write_events
from tests.query.records import (
    add_partitions,
    create_topic,
    delete_topic,
    group_names,
    produce,
    topic_names,
    wait_until,
)

Watch = Callable[[], FlowWatcher]


@pytest.fixture
def watch(broker: EmbeddedBroker, topic_name: str) -> Iterator[Watch]:
    """Starts watchers of this test's own topics, and stops them in the end."""
    started: list[FlowWatcher] = []

    def start() -> FlowWatcher:
        watcher = FlowWatcher(
            broker.bootstrap,
            topic_name,
            status_topic=f"{topic_name}_status",
            survey_seconds=0.1,
        )
        watcher.start()
        started.append(watcher)
        return watcher

    yield start
    for watcher in started:
        watcher.stop()


def derived(offsets: list[int], *, topic_id: str = "first", age_ms: int = 0) -> list[dict[str, object]]:
    """Records as the pipeline writes them, of events that were posted so long ago."""
    posted = str(round(time.time() * 1000) - age_ms)
    return [
        {
            "value": b"x",
            "partition": 0,
            "headers": [(SOURCE_HEADER, f"q/{topic_id}/0/{offset}/0"), (POSTED_AT_HEADER, posted)],
        }
        for offset in offsets
    ]


def status(query: str = "events-to-lake", **more: object) -> bytes:
    return msgspec.json.encode(
        {
            "query": query,
            "state": "RUNNING",
            "mode": "micro-batch",
            "message": "",
            "at": 1_700_000_000_000,
            **more,
        }
    )


def fills_table(broker: EmbeddedBroker, events: str, table: Path) -> None:
    """A query says that it carries the Avro records to this table."""
    create_topic(broker.bootstrap, f"{events}_status")
    said = status(source=f"{events}_avro", table=str(table))
    produce(broker.bootstrap, f"{events}_status", [{"key": "events-to-lake", "value": said}])


def topic_id(broker: EmbeddedBroker, name: str) -> str:
    return Cluster(broker.bootstrap).lookup([name])[name].topic_id


def test_a_watcher_of_nothing_counts_nothing_and_creates_nothing(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    watcher = watch()
    other = FlowWatcher(broker.bootstrap, topic_name)
    for snapshot in (watcher.snapshot(), other.snapshot()):
        assert (snapshot.accepted, snapshot.avro, snapshot.dead_letters, snapshot.lake) == (0, 0, 0, 0)
        assert snapshot.latency == Percentiles(p50=None, p90=None, p99=None, count=0)
        assert snapshot.queries == ()
    assert watcher.names.avro == f"{topic_name}_avro"
    assert watcher.names.dead_letters == f"{topic_name}_dlq"
    watcher.stop()
    assert not any(name.startswith(topic_name) for name in topic_names(broker.bootstrap))


def test_topics_that_come_later_are_counted(
    broker: EmbeddedBroker, watch: Watch, topic_name: str, tmp_path: Path
) -> None:
    watcher = watch()
    create_topic(broker.bootstrap, topic_name, partitions=3)
    produce(broker.bootstrap, topic_name, [{"value": b"{}", "partition": number % 3} for number in range(10)])
    create_topic(broker.bootstrap, f"{topic_name}_avro", partitions=2)
    source = topic_id(broker, topic_name)
    # A look-up shuffles rows: the order of source offsets says nothing about what was counted before.
    produce(broker.bootstrap, f"{topic_name}_avro", derived([3, 0, 2, 1], topic_id=source))
    create_topic(broker.bootstrap, f"{topic_name}_dlq")
    produce(broker.bootstrap, f"{topic_name}_dlq", [{"value": b"bad"}, {"value": b"bad"}])
    write_events(tmp_path / "lake", [("Search", "2026-01-01", str(number)) for number in range(4)])
    fills_table(broker, topic_name, tmp_path / "lake" / "events")

    def counted() -> bool:
        snapshot = watcher.snapshot()
        counts = (snapshot.accepted, snapshot.avro, snapshot.dead_letters, snapshot.lake)
        return counts == (10, 4, 2, 4) and snapshot.problem == ""

    wait_until(counted, "all counts are there")


def test_watching_leaves_no_group_behind(kafka: ApacheKafka, topic_name: str) -> None:
    create_topic(kafka.bootstrap, f"{topic_name}_avro")
    produce(kafka.bootstrap, f"{topic_name}_avro", derived([0, 1]))
    watcher = FlowWatcher(kafka.bootstrap, topic_name, survey_seconds=0.1)
    watcher.start()
    try:
        wait_until(lambda: watcher.snapshot().avro == 2, "the records are counted")
        assert not any("headrace" in group for group in group_names(kafka.bootstrap))
    finally:
        watcher.stop()


def test_partitions_added_later_are_read(broker: EmbeddedBroker, watch: Watch, topic_name: str) -> None:
    create_topic(broker.bootstrap, f"{topic_name}_avro")
    produce(broker.bootstrap, f"{topic_name}_avro", derived([0, 1]))
    watcher = watch()
    wait_until(lambda: watcher.snapshot().avro == 2, "the first partition is counted")
    add_partitions(broker.bootstrap, f"{topic_name}_avro", total=3)

    def produced() -> bool:
        produce(broker.bootstrap, f"{topic_name}_avro", [{"value": b"x", "partition": 2}])
        return True

    wait_until(produced, "the new partition takes a record")
    wait_until(lambda: watcher.snapshot().avro == 3, "the new partition is counted")


def test_a_derived_topic_made_again_starts_anew(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    for suffix in ("_avro", "_dlq"):
        create_topic(broker.bootstrap, topic_name + suffix)
    produce(broker.bootstrap, f"{topic_name}_avro", derived(list(range(20))))
    produce(broker.bootstrap, f"{topic_name}_dlq", derived([20]))
    watcher = watch()
    wait_until(lambda: watcher.snapshot().avro == 20, "the first incarnation is counted")
    delete_topic(broker.bootstrap, f"{topic_name}_avro")
    create_topic(broker.bootstrap, f"{topic_name}_avro", partitions=2)
    # More records than before, and of the same coordinates: old offsets must not hide them.
    produce(broker.bootstrap, f"{topic_name}_avro", derived(list(range(30))))
    wait_until(lambda: watcher.snapshot().avro == 30, "the second incarnation is counted")
    delete_topic(broker.bootstrap, f"{topic_name}_avro")
    wait_until(lambda: watcher.snapshot().avro == 0, "a topic that is gone counts nothing")
    assert watcher.snapshot().dead_letters == 1


def test_accepted_equals_what_came_through_when_the_events_topic_was_made_again(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name)
    for suffix in ("_avro", "_dlq"):
        create_topic(broker.bootstrap, topic_name + suffix)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 3)
    first = topic_id(broker, topic_name)
    produce(broker.bootstrap, f"{topic_name}_avro", derived([0, 2], topic_id=first))
    produce(broker.bootstrap, f"{topic_name}_dlq", derived([1], topic_id=first))
    watcher = watch()

    def counts() -> tuple[int, int, int]:
        snapshot = watcher.snapshot()
        return snapshot.accepted, snapshot.avro, snapshot.dead_letters

    wait_until(lambda: counts() == (3, 2, 1), "the first incarnation is counted")
    delete_topic(broker.bootstrap, topic_name)
    create_topic(broker.bootstrap, topic_name)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 5)
    second = topic_id(broker, topic_name)
    assert second != first
    wait_until(lambda: counts() == (8, 2, 1), "the second incarnation is counted beside the first")
    produce(broker.bootstrap, f"{topic_name}_avro", derived([0, 1, 2, 3, 4], topic_id=second))
    wait_until(lambda: counts() == (8, 7, 1), "what was accepted has come through")


def test_markers_of_transactions_are_not_events(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic_name})
    producer.init_transactions(30)
    watcher = watch()
    for commit in (True, False, True):
        producer.begin_transaction()
        producer.produce(topic_name, b"{}")
        producer.flush(120)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}])
    # Two markers, an aborted record and its marker take offsets, too.
    assert Cluster(broker.bootstrap).end_offsets(topic_name) == {0: 9}
    wait_until(lambda: watcher.snapshot().accepted == 5, "the records are counted, not the offsets")


def test_a_restart_goes_on_from_the_counts_that_any_watcher_has_left(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name)
    create_topic(broker.bootstrap, f"{topic_name}_avro")
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 20)
    produce(broker.bootstrap, f"{topic_name}_avro", derived(list(range(20))))
    first = watch()
    wait_until(lambda: (first.snapshot().accepted, first.snapshot().avro) == (20, 20), "all are counted")
    first.stop()
    cluster = Cluster(broker.bootstrap)
    end = cluster.end_offset(COUNTS_TOPIC, 10)
    written = [
        record.value()
        for record in records_between(broker.bootstrap, COUNTS_TOPIC, {0: (0, end)})
        if record.key() == topic_name.encode()
    ]
    left = decode(written[-1] or b"")
    assert {name: each.records for name, each in left.items()} == {topic_name: 20, f"{topic_name}_avro": 20}
    # A count that no watcher could have got by reading: the next one must have it from here.
    (checkpoint,) = left[topic_name].partitions[0]
    more = dataclasses.replace(checkpoint, records=1_000_020)
    left[topic_name].partitions[0] = (more,)
    produce(broker.bootstrap, COUNTS_TOPIC, [{"key": topic_name, "value": encode(left)}])
    # Other gateways, with other events topics, write there too.
    produce(broker.bootstrap, COUNTS_TOPIC, [{"key": "other", "value": encode({})}] * 40)
    produce(broker.bootstrap, topic_name, [{"value": b"{}"}] * 3)
    second = watch()
    wait_until(lambda: second.snapshot().accepted == 1_000_023, "the count went on")
    assert second.snapshot().avro == 20


def test_only_live_records_give_avro_latencies(broker: EmbeddedBroker, watch: Watch, topic_name: str) -> None:
    create_topic(broker.bootstrap, f"{topic_name}_avro")
    produce(broker.bootstrap, f"{topic_name}_avro", derived(list(range(5)), age_ms=3_600_000))
    watcher = watch()
    wait_until(lambda: watcher.snapshot().avro == 5, "the backlog is counted")
    assert watcher.snapshot().avro_latency.count == 0
    # The first live ones may come before the reader knows that it stood at the end; some soon are measured.
    offset = 5

    def measured() -> bool:
        nonlocal offset
        produce(broker.bootstrap, f"{topic_name}_avro", derived([offset]))
        offset += 1
        return watcher.snapshot().avro_latency.count >= 20

    wait_until(measured, "live records are measured")
    latency = watcher.snapshot().avro_latency
    assert latency.p99 is not None
    assert latency.p99 < 60_000, "the backlog, which was an hour old, is not among them"
    assert watcher.snapshot().overall_avro_latency == latency


def test_the_queries_and_their_latency_come_from_the_status_topic(
    broker: EmbeddedBroker, watch: Watch, topic_name: str
) -> None:
    topic = f"{topic_name}_status"
    create_topic(broker.bootstrap, topic, **{"cleanup.policy": "compact"})
    batch = {"batch": 1, "rows": 1000, "latency_quantiles_ms": [float(value) for value in range(100, 201)]}
    produce(
        broker.bootstrap,
        topic,
        [
            {"key": "events-to-lake", "value": status(**batch)},
            {"key": "events-to-avro", "value": status("events-to-avro", mode="real-time", state="WAITING")},
            {"key": "odd", "value": b"not a status"},
            {"key": "gone", "value": status("gone")},
            {"key": "gone", "value": None},
        ],
    )
    watcher = watch()
    wait_until(lambda: watcher.snapshot().latency.count == 1000, "the batch is counted")
    wait_until(lambda: len(watcher.snapshot().queries) == 2, "both queries are known")
    snapshot = watcher.snapshot()
    assert [query.query for query in snapshot.queries] == ["events-to-avro", "events-to-lake"]
    assert [query.state for query in snapshot.queries] == ["WAITING", "RUNNING"]
    assert snapshot.latency.p50 == pytest.approx(150, rel=0.02)
    assert snapshot.latency.p99 == pytest.approx(199, rel=0.02)
    later = {**batch, "batch": 2, "at": 1_700_000_300_000, "latency_quantiles_ms": [1000.0] * 101}
    produce(broker.bootstrap, topic, [{"key": "events-to-lake", "value": status(**later)}])
    wait_until(lambda: watcher.snapshot().overall_latency.count == 2000, "the second batch is counted")
    assert watcher.snapshot().latency == Percentiles(p50=1000.0, p90=1000.0, p99=1000.0, count=1000)


def test_the_lake_is_counted_at_its_newest_version(
    broker: EmbeddedBroker, watch: Watch, topic_name: str, tmp_path: Path
) -> None:
    watcher = watch()
    write_events(tmp_path / "lake", [("Search", "2026-01-01", "1"), ("Message", "2026-01-01", "2")])
    table = tmp_path / "lake" / "events"
    fills_table(broker, topic_name, table)
    wait_until(lambda: watcher.snapshot().lake == 2, "the first version is counted")
    for file in table.rglob("*.parquet"):
        file.unlink()
    rows = events([("Search", "2026-01-01", str(number)) for number in range(3)])
    write_deltalake(table, rows, mode="append")
    wait_until(lambda: watcher.snapshot().lake == 5, "the rows are counted by the log alone")
    write_deltalake(table, rows, mode="overwrite")
    wait_until(lambda: watcher.snapshot().lake == 3, "what was taken away is not counted")


def test_a_broker_that_restarts_is_found_again(tmp_path: Path, topic_name: str) -> None:
    engine = EmbeddedBroker(tmp_path / "log", port=free_port())
    watcher = FlowWatcher(engine.bootstrap, topic_name, survey_seconds=0.1)
    try:
        watcher.start()
        engine.start()
        create_topic(engine.bootstrap, f"{topic_name}_avro")
        produce(engine.bootstrap, f"{topic_name}_avro", derived([0, 1]))
        wait_until(lambda: watcher.snapshot().avro == 2, "the first records are counted")
        engine.stop()
        wait_until(lambda: "could not describe topic" in watcher.snapshot().problem, "the break is said")
        assert watcher.snapshot().avro == 2
        engine.start()
        produce(engine.bootstrap, f"{topic_name}_avro", derived([2, 3]))
        wait_until(lambda: watcher.snapshot().avro == 4, "it goes on where it stood")
        wait_until(lambda: watcher.snapshot().problem == "", "the break is over")
    finally:
        watcher.stop()
        engine.stop()
