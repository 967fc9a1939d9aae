"""Records that expired before a stateful query read them, or before it read them again. Starts no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.runs.commit_log import CommitLog
from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.stateful.stateful_run import StatefulRun
from headrace.pipeline.spark.stateless_run import RunContext
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource
from headrace.testing import EmbeddedBroker


class Counting:
    """A count of a topic with ten records."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, name: str) -> None:
        self.cluster = Cluster(broker.bootstrap)
        self.topic = f"{name}_in"
        self.commits = CommitLog(self.cluster)
        source, query = parse(
            f"CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='{self.topic}', VALUE_FORMAT='JSON');"
            f"CREATE TABLE o WITH (KAFKA_TOPIC='{name}_out') AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
        )
        assert isinstance(source.statement, CreateSource)
        assert isinstance(query.statement, CreateAs)
        made = plan_source(source.statement, Catalogue(), text=source.text)
        plan = plan_query(query.statement, Catalogue(sources={made.name: made}), text=query.text)
        self.query = PlannedQuery(name=f"Q{name}", plan=plan, settings=Settings(data_dir=folder))
        names = (*self.query.source_topics, *self.query.written_topics)
        for each in names:
            self.cluster.create_topic(each, partitions=1)
        for _ in range(10):
            self.cluster.produce(self.topic, b"1", b"{}")
        self.topics = self.cluster.lookup(names)

    @property
    def topic_id(self) -> str:
        return self.topics[self.topic].topic_id

    def expire_before(self, offset: int) -> None:
        place = TopicPartition(self.topic, 0, offset)
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        admin.delete_records([place])[place].result(30)

    def start(self, positions: dict[int, int], *, on_gap: str = "continue") -> list[tuple[int, int]]:
        context = RunContext(
            query=self.query.name,
            cluster=self.cluster,
            commits=self.commits,
            start=Commit(at=0, positions={self.topic_id: positions}, sinks_from={}, sinks_to={}),
            on_gap=on_gap,
            settle_seconds=0.0,
        )
        run = StatefulRun(self.query, context, self.topics, is_sound=lambda _generation, _batch: True)
        return [(gap.first, gap.end) for gap in run.gaps]


@pytest.fixture
def counting(broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Iterator[Counting]:
    made = Counting(broker, tmp_path, topic_name)
    yield made
    made.commits.forget(made.query.name)
    made.commits.close()
    made.cluster.close()


def test_records_that_expired_before_the_first_start_are_a_gap(counting: Counting) -> None:
    counting.expire_before(8)
    for _ in range(2):
        with pytest.raises(HeadraceError, match="has not read offsets 5 to 7 of partition 0"):
            counting.start({0: 5}, on_gap="stop")
    assert counting.start({0: 5}) == [(5, 8)]
    assert counting.start({0: 5}, on_gap="stop") == [(5, 8)], "it went on, and no more has expired"


def test_records_that_a_rebuilt_state_lacks_are_a_gap(counting: Counting) -> None:
    assert counting.start({}) == []
    positions, sinks = (
        {counting.topic_id: {0: 10}},
        {counting.topics[counting.query.plan.sink.topic].topic_id: {0: 0}},
    )
    counting.commits.add(
        counting.query.name,
        Commit(at=1, positions=positions, sinks_from=sinks, sinks_to=sinks, batch=3, checkpoint="c"),
    )
    counting.expire_before(8)
    shutil.rmtree(counting.query.folder)
    for _ in range(2):
        with pytest.raises(HeadraceError, match="has not read offsets 0 to 7 of partition 0"):
            counting.start({}, on_gap="stop")
    assert counting.start({}) == [(0, 8)]


def test_what_expired_before_the_query_was_made_is_no_gap(counting: Counting) -> None:
    counting.expire_before(8)
    assert counting.start({}) == []
    shutil.rmtree(counting.query.folder)
    assert counting.start({}, on_gap="stop") == []
