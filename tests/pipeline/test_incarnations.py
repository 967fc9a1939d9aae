"""A topic made again under a running query: what was taken under the former id is found, and nothing else."""

from __future__ import annotations

from confluent_kafka import Producer

from headrace.client.cluster import Cluster
from headrace.lake.coordinates import SourceCoordinates
from headrace.pipeline.spark.incarnations import taken_under_former_ids
from headrace.testing import EmbeddedBroker
from tests.running_platform import wait_for

POSTED = 1_773_489_600_000


class Log:
    """A source and a derived topic, and records in both."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        cluster = Cluster(bootstrap)
        cluster.create_topic(name, partitions=2)
        cluster.create_topic(f"{name}_avro", partitions=1)
        names = [name, f"{name}_avro"]
        wait_for(lambda: len(cluster.lookup(names)) == len(names), "both topics are known")
        topics = cluster.lookup(names)
        self.source, self.derived = topics[name], topics[f"{name}_avro"]
        self._producer = Producer({"bootstrap.servers": bootstrap})

    def event(self, partition: int, key: str, *, posted_at: int) -> None:
        self._producer.produce(self.source.name, "{}", key, partition=partition, timestamp=posted_at)

    def passed_on(
        self, topic_id: str, partition: int, offset: int, key: str, *, posted_at: int, query: str = "q"
    ) -> None:
        source = SourceCoordinates(
            query=query, topic_id=topic_id, partition=partition, offset=offset, ordinal=0
        )
        headers = [("headrace-source", source.as_header()), ("headrace-posted-at", str(posted_at).encode())]
        self._producer.produce(self.derived.name, b"avro", key, headers=headers)

    def taken(self, committed: dict[str, dict[int, int]] | None = None) -> set[tuple[int, int, int]]:
        self._producer.flush()
        found = taken_under_former_ids(
            self.bootstrap, query="q", source=self.source, derived=[self.derived], committed=committed or {}
        )
        return {(row.partition, row.offset, row.ordinal) for row in found}


def test_records_taken_under_a_former_id_are_found(broker: EmbeddedBroker, topic_name: str) -> None:
    log = Log(broker.bootstrap, topic_name)
    for offset in range(10):
        log.event(1, f"new-{offset}", posted_at=POSTED + 1000 + offset)
    # The former incarnation had come to offset 4; then the consumer read on in the new one.
    for offset in range(4):
        log.passed_on("former", 1, offset, f"old-{offset}", posted_at=POSTED + offset)
    for offset in range(4, 8):
        log.passed_on("former", 1, offset, f"new-{offset}", posted_at=POSTED + 1000 + offset)
    assert log.taken() == {(1, offset, 0) for offset in range(4, 8)}


def test_records_of_the_former_incarnation_alone_are_no_reason_to_leave_anything_out(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    log = Log(broker.bootstrap, topic_name)
    for offset in range(3):
        log.event(0, f"user-{offset}", posted_at=POSTED + 1000 + offset)
        # The same people, at the same offsets, at another time; and the same time with another key.
        log.passed_on("former", 0, offset, f"user-{offset}", posted_at=POSTED + offset)
        log.passed_on("older", 0, offset, f"other-{offset}", posted_at=POSTED + 1000 + offset)
    assert log.taken() == set()


def test_what_this_incarnation_or_another_query_passed_on_does_not_count(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    log = Log(broker.bootstrap, topic_name)
    log.event(0, "a", posted_at=POSTED)
    log.passed_on(log.source.topic_id, 0, 0, "a", posted_at=POSTED)
    log.passed_on("former", 0, 0, "a", posted_at=POSTED, query="another")
    log.passed_on("former", 7, 0, "a", posted_at=POSTED)
    assert log.taken() == set()


def test_nothing_there_is_nothing_taken(broker: EmbeddedBroker, topic_name: str) -> None:
    assert Log(broker.bootstrap, topic_name).taken() == set()


def test_a_topic_that_was_loaded_again_is_another_source(broker: EmbeddedBroker, topic_name: str) -> None:
    log = Log(broker.bootstrap, topic_name)
    for offset in range(10):
        log.passed_on("former", 0, offset, "k", posted_at=POSTED + offset)
        # Chance matches at both ends, and others between them.
        log.event(0, "k", posted_at=POSTED + (offset if offset in (0, 9) else 500))
        # The same keys and times throughout, with values that were put right.
        log.passed_on("long ago", 1, offset, "k", posted_at=POSTED + offset)
        log.event(1, "k", posted_at=POSTED + offset)
    assert log.taken({"long ago": {1: 10}}) == {(0, 9, 0)}
    assert log.taken({"long ago": {1: 10}, "former": {0: 10}}) == set()
    assert log.taken({"long ago": {1: 8}, "former": {0: 10}}) == {(1, 8, 0), (1, 9, 0)}


def test_a_longer_former_incarnation_was_not_read_on(broker: EmbeddedBroker, topic_name: str) -> None:
    log = Log(broker.bootstrap, topic_name)
    for offset in range(4):
        log.passed_on("former", 0, offset, "k", posted_at=POSTED + offset)
    for offset in range(3):
        log.event(0, "k", posted_at=POSTED + offset)
    assert log.taken() == set()


def test_rows_that_the_query_dropped_are_not_left_out(broker: EmbeddedBroker, topic_name: str) -> None:
    """What was not derived is derived now, if it gives a row: nothing but what is there counts."""
    log = Log(broker.bootstrap, topic_name)
    for offset in range(6):
        log.event(0, f"new-{offset}", posted_at=POSTED + offset)
    for offset in (2, 5):
        log.passed_on("former", 0, offset, f"new-{offset}", posted_at=POSTED + offset)
    assert log.taken() == {(0, 2, 0), (0, 5, 0)}
