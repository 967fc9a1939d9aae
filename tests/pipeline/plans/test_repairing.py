"""Repairs: exactly the given records are read again, by the query's own plan, once."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.reading import Record, records_between
from headrace.lake.coordinates import SOURCE_HEADER, SourceCoordinates
from headrace.lake.dead_letter_headers import QUERY_HEADER
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Progress, Reached
from headrace.lake.resuming import history
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery, QueryKind
from headrace.pipeline.catalogue.repairs import Repair
from headrace.pipeline.rules.planning import plan_source
from headrace.pipeline.runs.commits import Commit, History
from headrace.pipeline.spark.lake.table_query import TableQuery
from headrace.pipeline.spark.lake.topic_values import TopicValues
from headrace.pipeline.spark.repairing import Repairs
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateSource
from tests.example_plans import avro_plan, lake_sink
from tests.pipeline.plans.harness import Plans

QUERY = "CSAS_EVENTS_AVRO_1"
COUNT = "CTAS_N_2"


def example(events: str) -> Catalogue:
    """The catalogue after the example's statements, and a count."""
    texts = parse(marketplace.statements(events))
    (made,) = (each for each in texts if isinstance(each.statement, CreateSource))
    assert isinstance(made.statement, CreateSource)
    source = plan_source(made.statement, Catalogue(), text=made.text)
    sink = avro_plan(events).sink
    query = PersistentQuery(
        id=QUERY,
        kind=QueryKind.CREATE_STREAM,
        sink=sink.name,
        sources=(source.name,),
        statement=texts[-1].text.replace("${events_topic}", events),
    )
    count = PersistentQuery(
        id=COUNT,
        kind=QueryKind.CREATE_TABLE,
        sink="N",
        sources=(source.name,),
        statement=f"CREATE TABLE N AS SELECT user_id, COUNT(*) AS n FROM {source.name} GROUP BY user_id;",
    )
    sources = {source.name: source, sink.name: sink}
    return Catalogue(sources=sources, queries={QUERY: query, COUNT: count})


class Way:
    """Events, the topics and the table behind them, and nothing that runs.

    The query has passed all 20 events, and written nothing.
    """

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.events = plans.topic("events", partitions=2)
        self.avro, self.letters = f"{self.events}_avro", f"{self.events}_dlq"
        self.lake_letters = f"{self.avro}_dlq"
        for name in (self.avro, self.letters, self.lake_letters):
            plans.cluster.create_topic(name, partitions=1)
        self.settings = dataclasses.replace(plans.settings, events_topic=self.events)
        sink = lake_sink(self.settings)
        self.lake = TableQuery(
            plans.spark,
            sink,
            self.avro,
            self.settings,
            commits=plans.commits,
            turns=Turns(1),
            values=TopicValues(sink, self.avro, cluster=plans.cluster, registry_at=lambda _: plans.registry),
        )
        self.paused = 0
        catalogue = example(self.events)
        self.repairs = Repairs(
            plans.spark,
            self.settings,
            cluster=plans.cluster,
            commits=plans.commits,
            registry=plans.registry,
            catalogue=lambda: catalogue,
            stopped_table=self._stopped,
        )

    def _stopped(self, query: str) -> TableQuery | None:
        if query != self.lake.name:
            return None
        self.paused += 1
        return self.lake

    def id(self, topic: str) -> str:
        return self.plans.cluster.lookup([topic])[topic].topic_id

    def passed(self, positions: dict[int, int], statement: str = "") -> None:
        """The query has committed that it has read its source up to there."""
        commit = Commit(
            at=1,
            positions={self.id(self.events): positions},
            sinks_from={},
            sinks_to={self.id(self.avro): {0: 0}},
        )
        self.plans.commits.replace(QUERY, History(commits=(commit,), statement=statement))

    def table_passed(self, position: int) -> None:
        """The table says that it has read the Avro topic up to there."""
        # Which makes the table.
        self.lake.repair(self.plans.cluster.lookup([self.avro, self.lake_letters]))
        log = DeltaLog(self.lake.location)
        progress = Progress(positions=Reached(topic_id=self.id(self.avro), offsets={0: position}))
        info = {"operation": "WRITE", "operationParameters": {"mode": "Append"}}
        log.add_commit(log.newest_version() + 1, {**info, "userMetadata": progress.as_metadata()}, [])

    def table_position(self) -> int:
        return next(history(DeltaLog(self.lake.location))).progress.positions.offsets[0]

    def missing(self, *stretches: tuple[int, int, int]) -> Repair:
        """A wish for records that the query is to derive."""
        topics = (self.avro, self.letters)
        return Repair(
            id="1",
            query=QUERY,
            topic_id=self.id(self.events),
            stretches=stretches,
            sinks_from={self.id(name): self.plans.cluster.end_offsets(name) for name in topics},
        )

    def missing_rows(self, *stretches: tuple[int, int, int]) -> Repair:
        """A wish for rows of the table."""
        return Repair(
            id="2",
            query=self.lake.name,
            topic_id=self.id(self.avro),
            stretches=stretches,
            sinks_from={self.id(self.lake_letters): self.plans.cluster.end_offsets(self.lake_letters)},
        )

    def records(self, topic: str) -> list[Record]:
        ends = self.plans.cluster.end_offsets(topic)
        whole = {partition: (0, end) for partition, end in ends.items()}
        return list(records_between(self.plans.bootstrap, topic, whole))

    def identities(self, topic: str) -> Counter[str]:
        return Counter(header_of(record, SOURCE_HEADER) for record in self.records(topic))

    def of_events(self, *places: str) -> dict[str, int]:
        """The identities of what the query derives from these events, once each."""
        return {f"{QUERY}/{self.id(self.events)}/{place}/0": 1 for place in places}

    def rows(self) -> Counter[int]:
        """The rows of the table by their offset in its topic."""
        rows = self.plans.spark.read.format("delta").load(self.lake.location.uri)
        return Counter(row["_TOPIC_OFFSET"] for row in rows.select("_TOPIC_OFFSET").collect())


def header_of(record: Record, name: str) -> str:
    return bytes(dict(record.headers() or ())[name] or b"").decode()


@pytest.fixture
def way(plans: Plans) -> Way:
    way = Way(plans)
    for number in range(20):
        event = {
            "Event_Type": "Search",
            "Event_Version": "1",
            "User_ID": f"u{number}",
            "Listing_ID": "l",
            "Server_Time": "2026-03-14T09:26:53Z",
            "Device_Type": "web",
        }
        plans.produce(way.events, (f"u{number}", b"no json" if number == 7 else event), partition=number % 2)
    way.passed({0: 10, 1: 10})
    return way


def test_missing_records_are_derived_once_with_the_identity_of_their_query(way: Way) -> None:
    asked = way.missing((0, 2, 4), (1, 3, 3), (1, 9, 9))
    done = way.repairs.carry_out(asked)
    assert (done.state, done.message, done.changed) == ("DONE", "", 5)
    assert way.identities(way.avro) == way.of_events("0/2", "0/3", "0/4", "1/9")
    # The event with number 7, which is no JSON.
    assert way.identities(way.letters) == way.of_events("1/3")
    (letter,) = way.records(way.letters)
    assert header_of(letter, QUERY_HEADER) == QUERY
    again = way.repairs.carry_out(asked)
    assert (again.state, again.changed, again.message) == ("DONE", 0, "5 there by now")
    more = dataclasses.replace(asked, stretches=((0, 0, 4),))
    assert way.repairs.carry_out(more).changed == 2
    assert way.identities(way.avro) == way.of_events("0/0", "0/1", "0/2", "0/3", "0/4", "1/9")


def test_what_the_query_has_yet_to_pass_is_left_to_it(way: Way) -> None:
    # As after a start from an older commit than the one that reconciling saw.
    way.passed({0: 3})
    done = way.repairs.carry_out(way.missing((0, 1, 4), (1, 0, 1)))
    assert (done.state, done.changed, done.message) == ("DONE", 2, "4 to be read by the query itself")
    assert way.identities(way.avro) == way.of_events("0/1", "0/2")
    # The id of a query can be used again.
    way.passed({0: 10, 1: 10}, statement="a former one")
    assert way.repairs.carry_out(way.missing((1, 0, 1))).message == "2 to be read by the query itself"


def test_what_has_expired_is_said_and_the_rest_repaired(way: Way) -> None:
    admin = AdminClient({"bootstrap.servers": way.plans.bootstrap})
    for future in admin.delete_records([TopicPartition(way.events, 0, 2)]).values():
        future.result(30)
    done = way.repairs.carry_out(way.missing((0, 0, 3)))
    assert (done.state, done.changed, done.message) == ("DONE", 2, "2 expired in the source")
    assert way.identities(way.avro) == way.of_events("0/2", "0/3")


@pytest.mark.long
def test_rows_are_written_once_and_the_table_stays_where_it_is(way: Way) -> None:
    way.repairs.carry_out(way.missing((0, 0, 5)))
    (copied,) = (record for record in way.records(way.avro) if record.offset() == 4)
    # A record that the topic has twice, one that is no Avro, and one that the table has yet to read.
    source = {SOURCE_HEADER: header_of(copied, SOURCE_HEADER).encode()}
    way.plans.produce(way.avro, (copied.key(), copied.value()), headers=source)
    way.plans.produce(way.avro, ("k", b"junk"), (copied.key(), copied.value()))
    way.table_passed(8)
    asked = way.missing_rows((0, 1, 1), (0, 4, 4), (0, 6, 8))
    done = way.repairs.carry_out(asked)
    assert (done.state, done.message, done.changed) == ("DONE", "1 to be read by the query itself", 3)
    rows = way.rows()
    assert rows[4] + rows[6] == 1, "the same record"
    assert (rows[1], rows.total()) == (1, 2)
    letter = f"{way.lake.name}/{way.id(way.avro)}/0/7/0"
    assert way.identities(way.lake_letters) == {letter: 1}
    assert way.table_position() == 8
    # As after a crash between the dead letter and the commit, or the commit and the answer.
    assert way.repairs.carry_out(asked).changed == 0
    assert (way.rows(), way.identities(way.lake_letters)) == (rows, {letter: 1})
    assert way.paused == 2

    path = way.lake.location.uri
    table = way.plans.spark.read.format("delta").load(path)
    table.filter("_TOPIC_OFFSET = 1").write.format("delta").mode("append").save(path)
    row = table.filter("_TOPIC_OFFSET = 1").collect()[0]
    double = SourceCoordinates(
        query=row["_QUERY"],
        topic_id=row["_SOURCE_TOPIC_ID"],
        partition=row["_SOURCE_PARTITION"],
        offset=row["_SOURCE_OFFSET"],
        ordinal=row["_SOURCE_ORDINAL"],
    )
    remove = dataclasses.replace(asked, stretches=(), doubles=(double.as_header().decode(),))
    done = way.repairs.carry_out(remove)
    assert (done.state, done.message, done.changed) == ("DONE", "", 1)
    assert way.rows() == rows
    assert way.table_position() == 8
    assert way.repairs.carry_out(remove).changed == 0


def test_what_cannot_be_repaired_is_said_with_the_remedy(way: Way) -> None:
    asked = way.missing((0, 0, 1))
    for wrong, *reasons in (
        (dataclasses.replace(asked, query="CSAS_GONE_9"), "no query CSAS_GONE_9", "reconcile` again"),
        (dataclasses.replace(asked, topic_id="other"), "was recreated", "reconcile` again"),
        (dataclasses.replace(asked, query=COUNT), "keeps state", "delete topic N"),
    ):
        answer = way.repairs.carry_out(wrong)
        assert answer.state == "FAILED"
        for reason in reasons:
            assert reason in answer.message
    way.plans.delete(way.letters)
    answer = way.repairs.carry_out(asked)
    assert answer.state == "FAILED"
    assert f"Topic {way.letters}" in answer.message
    assert way.identities(way.avro) == {}
