"""Repairs: exactly the given records are read again, by the query's own plan, once."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from headrace.client.reading import records_between
from headrace.lake.coordinates import SOURCE_HEADER, SourceCoordinates
from headrace.pipeline import marketplace
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery, QueryKind
from headrace.pipeline.catalogue.repairs import Repair, RepairLog
from headrace.pipeline.rules.planning import plan_source
from headrace.pipeline.spark.repairing import Repairs
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateSource
from tests.pipeline.plans.harness import Plans

QUERY = "CSAS_EVENTS_AVRO_1"


def example(events: str) -> Catalogue:
    """The catalogue after the example's statements."""
    texts = parse(marketplace.statements(events))
    (made,) = (each for each in texts if isinstance(each.statement, CreateSource))
    assert isinstance(made.statement, CreateSource)
    source = plan_source(made.statement, Catalogue(), text=made.text)
    sink = marketplace.avro_plan(events).sink
    query = PersistentQuery(
        id=QUERY,
        kind=QueryKind.CREATE_STREAM,
        sink=sink.name,
        sources=(source.name,),
        statement=texts[-1].text.replace("${events_topic}", events),
    )
    return Catalogue(sources={source.name: source, sink.name: sink}, queries={QUERY: query})


class Way:
    """Events, the topics and the table behind them, and nothing that runs."""

    def __init__(self, plans: Plans) -> None:
        self.plans = plans
        self.events = plans.topic("events", partitions=2)
        self.avro, self.letters = f"{self.events}_avro", f"{self.events}_dlq"
        for name in (self.avro, self.letters, f"{self.avro}_dlq"):
            plans.cluster.create_topic(name, partitions=1)
        self.settings = dataclasses.replace(plans.settings, events_topic=self.events)
        self.lake = marketplace.lake_plan(self.settings)
        self.paused = 0
        catalogue = example(self.events)
        self.repairs = Repairs(
            plans.spark,
            self.settings,
            cluster=plans.cluster,
            commits=plans.commits,
            registry=plans.registry,
            catalogue=lambda: catalogue,
            lake=self.lake,
            pause_lake=self._pause,
        )

    def _pause(self) -> None:
        self.paused += 1

    def id(self, topic: str) -> str:
        return self.plans.cluster.lookup([topic])[topic].topic_id

    def missing(self, *stretches: tuple[int, int, int]) -> Repair:
        ends = {self.id(name): self.plans.cluster.end_offsets(name) for name in (self.avro, self.letters)}
        return Repair(
            id="1", query=QUERY, topic_id=self.id(self.events), stretches=stretches, sinks_from=ends
        )

    def sources(self, topic: str) -> Counter[str]:
        """Partition and offset of the events that a derived topic has records of."""
        ends = self.plans.cluster.end_offsets(topic)
        whole = {partition: (0, end) for partition, end in ends.items()}
        found = records_between(self.plans.bootstrap, topic, whole)
        headers = (dict(record.headers() or ())[SOURCE_HEADER] or b"" for record in found)
        return Counter("/".join(bytes(each).decode().split("/")[2:]) for each in headers)


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
    return way


def test_missing_records_are_derived_once_and_rows_written_once(way: Way) -> None:
    asked = way.missing((0, 2, 4), (1, 3, 3), (1, 9, 9))
    done = way.repairs.carry_out(asked)
    assert (done.state, done.message, done.changed) == ("DONE", "", 5)
    assert way.sources(way.avro) == {"0/2/0": 1, "0/3/0": 1, "0/4/0": 1, "1/9/0": 1}
    # The event with number 7, which is no JSON.
    assert way.sources(way.letters) == {"1/3/0": 1}
    again = way.repairs.carry_out(asked)
    assert (again.state, again.changed) == ("DONE", 0), "what the first attempt wrote is there"
    more = dataclasses.replace(asked, stretches=((0, 0, 4),))
    assert way.repairs.carry_out(more).changed == 2
    assert way.sources(way.avro).total() == 6
    assert set(way.sources(way.avro).values()) == {1}

    into_lake = Repair(
        id="2", query=way.lake.query_id or "", topic_id=way.id(way.avro), stretches=((0, 1, 3),)
    )
    for changed in (3, 0):
        written = way.repairs.carry_out(into_lake)
        assert (written.state, written.message, written.changed) == ("DONE", "", changed)
    assert way.paused == 2
    assert rows_of(way) == {1: 1, 2: 1, 3: 1}

    assert way.lake.lake_table is not None
    path = str(way.lake.lake_table.path)
    table = way.plans.spark.read.format("delta").load(path)
    table.filter("_TOPIC_OFFSET = 2").write.format("delta").mode("append").save(path)
    assert rows_of(way) == {1: 1, 2: 2, 3: 1}
    row = table.filter("_TOPIC_OFFSET = 2").collect()[0]
    double = SourceCoordinates(
        query=row["_QUERY"],
        topic_id=row["_SOURCE_TOPIC_ID"],
        partition=row["_SOURCE_PARTITION"],
        offset=row["_SOURCE_OFFSET"],
        ordinal=row["_SOURCE_ORDINAL"],
    )
    remove = Repair(
        id="3",
        query=way.lake.query_id or "",
        topic_id=way.id(way.avro),
        doubles=(double.as_header().decode(),),
    )
    assert way.repairs.carry_out(remove).changed == 1
    assert rows_of(way) == {1: 1, 2: 1, 3: 1}
    assert way.repairs.carry_out(remove).changed == 0


def rows_of(way: Way) -> Counter[int]:
    """The rows of the table by their offset in its topic."""
    assert way.lake.lake_table is not None
    rows = way.plans.spark.read.format("delta").load(str(way.lake.lake_table.path))
    return Counter(row["_TOPIC_OFFSET"] for row in rows.select("_TOPIC_OFFSET").collect())


def test_what_cannot_be_repaired_is_said(way: Way) -> None:
    asked = way.missing((0, 0, 1))
    for wrong, reason in (
        (dataclasses.replace(asked, query="CSAS_GONE_9"), "no query CSAS_GONE_9"),
        (dataclasses.replace(asked, topic_id="other"), "recreated"),
    ):
        answer = way.repairs.carry_out(wrong)
        assert answer.state == "FAILED"
        assert reason in answer.message
    assert way.sources(way.avro) == {}


def test_wishes_are_answered_through_the_log(plans: Plans) -> None:
    asking, doing = RepairLog(plans.cluster), RepairLog(plans.cluster)
    wish = Repair(id=plans.new_name("wish"), query="q", topic_id="t", stretches=((0, 1, 2),))
    asking.write(wish)
    while wish not in (found := doing.asked()):
        pass
    assert [each for each in found if each.id == wish.id] == [wish]
    doing.write(dataclasses.replace(wish, state="DONE", changed=2))
    (answer,) = asking.wait_for([wish], 30)
    assert answer.changed == 2
    # A process that starts later does not take an answered wish for one that is not.
    later = RepairLog(plans.cluster)
    assert wish.id not in [each.id for each in later.asked()]
    asking.forget([answer])
    for log in (asking, doing, later):
        log.close()
