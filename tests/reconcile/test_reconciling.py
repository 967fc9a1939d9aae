"""Reconciling topics and tables that were made to lack records, or to have them twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from arro3.core import Array, DataType, Table
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import write_deltalake

from headrace.client.cluster import Cluster
from headrace.lake import layout
from headrace.lake.coordinates import SOURCE_HEADER
from headrace.lake.dead_letter_headers import QUERY_HEADER, READ_FROM_HEADER
from headrace.pipeline.runs.stretches import joined
from headrace.reconcile import fingerprints, lake_hops, query_hops, tables, topics
from headrace.reconcile.findings import Basis, Finding
from headrace.reconcile.hops import LakeHop, QueryHop, Relation
from headrace.reconcile.reconciling import Reconciler, Recorded
from headrace.testing import EmbeddedBroker
from tests.query.records import create_topic, produce

QUERY = "CSAS_X_1"
LAKE = "x-to-lake"


@dataclass
class Point:
    positions: dict[str, dict[int, int]]
    sinks_from: dict[str, dict[int, int]]
    sinks_to: dict[str, dict[int, int]]


@dataclass
class Way:
    """A source with two partitions, a sink, dead letters and a table, and what was recorded about them."""

    bootstrap: str
    source: str
    lake: Path
    relation: Relation = Relation.ONE
    rows: list[tuple[str, str, int, int, int, int, int]] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    began: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for suffix in ("", "_out"):
            create_topic(self.bootstrap, self.source + suffix, partitions=2)
        for suffix in ("_dlq", "_out_dlq"):
            create_topic(self.bootstrap, self.source + suffix)

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap)

    @property
    def sink(self) -> str:
        return f"{self.source}_out"

    def id(self, topic: str) -> str:
        return self.cluster.lookup([topic])[topic].topic_id

    def accept(self, partition: int, count: int) -> None:
        produce(self.bootstrap, self.source, [{"value": b"{}", "partition": partition}] * count)

    def derive(
        self, places: Iterable[tuple[int, int]], *, query: str = QUERY, into_lake: bool = True
    ) -> None:
        """A record of the sink for each of these source records, and a row for each."""
        source_id = self.id(self.source)
        ends = self.cluster.end_offsets(self.sink)
        records = []
        for number, (partition, offset) in enumerate(places):
            header = f"{query}/{source_id}/{partition}/{offset}/0"
            out = number % 2
            records.append({"value": b"x", "partition": out, "headers": [(SOURCE_HEADER, header)]})
            if into_lake:
                self.rows.append((query, source_id, partition, offset, 0, out, ends[out]))
            ends[out] += 1
        produce(self.bootstrap, self.sink, records)

    def reject(self, partition: int, offset: int, *, query: str = QUERY) -> None:
        header = f"{query}/{self.id(self.source)}/{partition}/{offset}/0"
        headers = [(SOURCE_HEADER, header), (QUERY_HEADER, query)]
        produce(self.bootstrap, f"{self.source}_dlq", [{"value": b"x", "headers": headers}])

    def reject_in_lake(self, partition: int, offset: int) -> None:
        """The lake could not read the record at this place of the sink."""
        headers = [
            (QUERY_HEADER, LAKE),
            (READ_FROM_HEADER, f"{self.sink}/{self.id(self.sink)}/{partition}/{offset}"),
        ]
        produce(self.bootstrap, f"{self.sink}_dlq", [{"value": b"x", "headers": headers}])
        self.rows = [row for row in self.rows if row[5:] != (partition, offset)]

    def commit(self) -> None:
        """As if the query had finished everything now."""
        ends = {self.id(self.sink): self.cluster.end_offsets(self.sink)}
        positions = {self.id(self.source): self.cluster.end_offsets(self.source)}
        self.points.append(Point(positions=positions, sinks_from=ends, sinks_to=ends))

    def reconcile(self, *, with_lake: bool = True, is_full: bool = False) -> dict[str, Finding]:
        if with_lake:
            self._write_table()
        recorded = Recorded(
            points={QUERY: self.points},
            began={QUERY: {self.id(self.source): self.began}},
            tables={LAKE: {self.id(self.sink): self.cluster.end_offsets(self.sink)}} if with_lake else {},
        )
        query = QueryHop(
            query=QUERY, source=self.source, sink=self.sink, relation=self.relation, reason="its WHERE drops"
        )
        lakes = [self.hop] if with_lake else []
        found = Reconciler(self.cluster, recorded).run([query], lakes, is_full=is_full)
        return {finding.query: finding for finding in found}

    @property
    def hop(self) -> LakeHop:
        return LakeHop(
            query=LAKE,
            source=self.sink,
            table="x",
            folder=self.lake / "x",
            dead_letters=f"{self.sink}_dlq",
        )

    def _write_table(self) -> None:
        names = [name for name, _ in layout.COORDINATE_COLUMNS if name != layout.POSTED_AT]
        kinds = {"STRING": DataType.utf8(), "INT": DataType.int32(), "BIGINT": DataType.int64()}
        types = [kinds[kind] for _, kind in layout.COORDINATE_COLUMNS[: len(names)]]
        columns = list(zip(*self.rows, strict=True)) or [() for _ in names]
        arrays = {
            name: Array(list(values), type=kind)
            for name, values, kind in zip(names, columns, types, strict=True)
        }
        write_deltalake(self.lake / "x", Table.from_pydict(arrays), mode="overwrite")


@pytest.fixture
def way(broker: EmbeddedBroker, topic_name: str, tmp_path: Path) -> Way:
    return Way(broker.bootstrap, topic_name, tmp_path / "lake")


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fingerprints, lake_hops, query_hops, tables):
        monkeypatch.setattr(module, "RANGE", 7)
    monkeypatch.setattr(query_hops, "_RANGES_AT_ONCE", 2)


def everything(way: Way) -> list[tuple[int, int]]:
    return [(p, offset) for p, end in way.cluster.end_offsets(way.source).items() for offset in range(end)]


@pytest.mark.parametrize("with_lake", [True, False])
def test_what_came_through_once_is_clean_and_costs_no_record(
    way: Way, monkeypatch: pytest.MonkeyPatch, with_lake: bool
) -> None:
    way.accept(0, 20)
    way.accept(1, 10)
    # Out of order, as behind a look-up.
    places = [place for place in reversed(everything(way)) if place != (0, 3)]
    way.derive(places)
    way.reject(0, 3)
    way.commit()
    # Since the commit: one has come through, the other four are on their way.
    way.accept(0, 5)
    way.derive([(0, 22)])
    read: Counter[str] = Counter()
    reading = topics.records_between

    def counting(bootstrap: str, topic: str, within: topics.Stretches, **more: bool) -> object:
        for record in reading(bootstrap, topic, within, **more):
            read[topic] += 1
            yield record

    monkeypatch.setattr(topics, "records_between", counting)
    found = way.reconcile(with_lake=with_lake)
    assert found[QUERY].is_clean
    assert (found[QUERY].accepted, found[QUERY].written, found[QUERY].dead_letters) == (35, 30, 1)
    assert found[QUERY].waiting == 4
    assert [(each.accepted, each.dead_letters) for each in found[QUERY].partitions] == [(25, 1), (10, 0)]
    assert found[QUERY].basis is (Basis.FINGERPRINTS if with_lake else Basis.COUNTS)
    assert read.keys() == {f"{way.source}_dlq", way.sink}
    assert read[way.sink] <= 2, "only what came since the commit is read"
    if with_lake:
        assert found[LAKE].is_clean
        assert (found[LAKE].accepted, found[LAKE].written) == (30, 30)
        assert found[LAKE].basis is Basis.FINGERPRINTS


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("with_lake", [True, False])
def test_what_is_missing_or_double_in_the_topic_is_named(way: Way, with_lake: bool) -> None:
    way.accept(0, 40)
    way.accept(1, 40)
    lost = {(0, 5), (0, 6), (1, 39)}
    # The numbers add up: three are missing, three are double.
    again = [(0, 5 + 7), (0, 6 + 21), (1, 0)]
    way.derive([place for place in everything(way) if place not in lost])
    way.derive(again, into_lake=False)
    way.rows += [(QUERY, way.id(way.source), *place, 0, 0, 1000) for place in again]
    way.commit()
    finding = way.reconcile(with_lake=with_lake, is_full=not with_lake)[QUERY]
    assert joined(finding.missing) == [(0, 5, 6), (1, 39, 39)]
    assert {double.id.split("/", 2)[2] for double in finding.doubles} == {"0/12/0", "0/27/0", "1/0/0"}
    assert all(double.times == len(double.places) == 2 for double in finding.doubles)
    assert finding.basis is Basis.IDENTITIES


@pytest.mark.usefixtures("small_ranges")
def test_numbers_that_differ_are_looked_at_one_by_one(way: Way) -> None:
    way.accept(0, 30)
    way.derive([place for place in everything(way) if place != (0, 11)])
    # Records of others in the sink must not make up for it.
    way.derive([(0, 0)], query="INSERTQUERY_2")
    produce(way.bootstrap, way.sink, [{"value": b"mine"}])
    way.commit()
    assert way.reconcile(with_lake=False)[QUERY].missing == ((0, 11),)


@pytest.mark.parametrize("made_up_for_by", ["a double", "somebody else's"])
def test_totals_that_agree_claim_nothing_more(way: Way, made_up_for_by: str) -> None:
    way.accept(0, 10)
    way.derive([place for place in everything(way) if place != (0, 3)])
    if made_up_for_by == "a double":
        way.derive([(0, 7)])
    else:
        produce(way.bootstrap, way.sink, [{"value": b"x", "partition": 0}])
    way.commit()
    counted = way.reconcile(with_lake=False)[QUERY]
    assert counted.basis is Basis.COUNTS
    assert "--full" in counted.unchecked
    assert way.reconcile(with_lake=False, is_full=True)[QUERY].missing == ((0, 3),)


@pytest.mark.parametrize("with_lake", [True, False])
def test_a_repaired_record_is_not_missing(way: Way, with_lake: bool) -> None:
    way.accept(0, 10)
    way.derive([place for place in everything(way) if place != (0, 4)])
    way.commit()
    assert way.reconcile(with_lake=with_lake)[QUERY].missing == ((0, 4),)
    # Nothing else comes, so the query commits nothing more; and the table has not read it yet.
    way.derive([(0, 4)], into_lake=False)
    assert way.reconcile(with_lake=with_lake)[QUERY].is_clean


@pytest.mark.parametrize("is_full", [True, False])
def test_an_open_transaction_of_another_producer_hides_nothing(way: Way, is_full: bool) -> None:
    way.accept(0, 10)
    way.derive([(0, offset) for offset in range(5)])
    other = Producer({"bootstrap.servers": way.bootstrap, "transactional.id": way.source})
    other.init_transactions(30)
    other.begin_transaction()
    for partition in (0, 1):
        other.produce(way.sink, b"x", partition=partition)
    other.flush(120)
    way.derive([(0, offset) for offset in range(5, 10)])
    sink = way.cluster.lookup([way.sink])
    ends = {number: end for (_, number), end in way.cluster.latest(sink.values()).items()}
    assert sum(ends.values()) == 12
    everywhere = {way.id(way.sink): ends}
    positions = {way.id(way.source): way.cluster.end_offsets(way.source)}
    way.points.append(Point(positions=positions, sinks_from=everywhere, sinks_to=everywhere))
    assert way.reconcile(with_lake=False, is_full=is_full)[QUERY].is_clean
    other.abort_transaction(30)


@pytest.mark.usefixtures("small_ranges")
def test_what_the_lake_lacks_or_has_twice_is_named(way: Way) -> None:
    way.accept(0, 60)
    way.derive(everything(way))
    # Also a record of another producer, without coordinates.
    produce(way.bootstrap, way.sink, [{"value": b"x", "partition": 0}])
    sink_id = way.id(way.sink)
    way.rows.append(("", sink_id, 0, 30, 0, 0, 30))
    way.commit()
    assert all(finding.is_clean for finding in way.reconcile().values())
    way.reject_in_lake(1, 4)
    assert all(finding.is_clean for finding in way.reconcile().values()), "a dead letter is not missing"
    (lost,) = [row for row in way.rows if row[5:] == (1, 20)]
    (double,) = [row for row in way.rows if row[5:] == (0, 3)]
    way.rows.remove(lost)
    way.rows.append(double)
    found = way.reconcile()
    assert found[LAKE].missing == ((1, 20),)
    (named,) = found[LAKE].doubles
    assert (named.id, named.times) == (f"{QUERY}/{way.id(way.source)}/0/{double[3]}/0", 2)
    assert found[QUERY].is_clean, "the topic has what the table lacks"
    way.rows.remove(double)
    way.rows.remove(("", sink_id, 0, 30, 0, 0, 30))
    way.rows.append(lost)
    assert way.reconcile()[LAKE].missing == ((0, 30),)


@pytest.mark.usefixtures("small_ranges")
def test_a_row_that_was_read_at_another_place_is_not_missing(way: Way) -> None:
    """The sink was recreated and filled again: the rows are those of its first life."""
    way.accept(0, 20)
    way.derive(everything(way))
    way.commit()
    way.rows = [(*row[:5], row[5], row[6] + 500) for row in way.rows]
    assert all(finding.is_clean for finding in way.reconcile().values())


def test_what_was_before_the_query_began_is_not_missing(way: Way) -> None:
    way.accept(0, 20)
    way.derive([(0, offset) for offset in range(12, 20)])
    way.began = {0: 12}
    way.commit()
    finding = way.reconcile()[QUERY]
    assert finding.is_clean
    assert finding.accepted == 8


def test_a_table_that_is_behind_is_compared_as_far_as_it_has_come(way: Way) -> None:
    way.accept(0, 10)
    way.derive(everything(way))
    way.commit()
    rows = list(way.rows)
    way.accept(0, 10)
    way.derive([(0, offset) for offset in range(10, 20)])
    way.commit()
    way.rows = rows
    way._write_table()
    first = way.points[0].sinks_to[way.id(way.sink)]
    recorded = Recorded(points={QUERY: way.points}, began={}, tables={LAKE: {way.id(way.sink): first}})
    hops = [QueryHop(query=QUERY, source=way.source, sink=way.sink, relation=Relation.ONE)]
    lakes = [way.hop]
    found = list(Reconciler(way.cluster, recorded).run(hops, lakes, is_full=False))
    assert all(each.is_clean for each in found)
    assert [(each.accepted, each.written, each.waiting) for each in found] == [(20, 20, 0), (10, 10, 10)]


def test_what_a_table_has_not_read_yet_is_compared_with_the_topic(way: Way) -> None:
    way.accept(0, 10)
    way.derive(everything(way))
    way.commit()
    way._write_table()
    first = way.points[0].sinks_to[way.id(way.sink)]
    way.accept(0, 10)
    way.derive([(0, offset) for offset in range(10, 20) if offset != 13])
    way.commit()
    way.accept(0, 4)
    recorded = Recorded(points={QUERY: way.points}, began={}, tables={LAKE: {way.id(way.sink): first}})
    hops = [QueryHop(query=QUERY, source=way.source, sink=way.sink, relation=Relation.ONE)]
    lakes = [way.hop]
    query, _ = Reconciler(way.cluster, recorded).run(hops, lakes, is_full=False)
    assert query.missing == ((0, 13),)
    assert query.waiting == 4


@pytest.mark.usefixtures("small_ranges")
def test_what_is_left_out_because_results_have_expired_is_said(way: Way) -> None:
    way.accept(0, 30)
    way.derive([place for place in everything(way) if place not in {(0, 12), (0, 20)}])
    way.commit()
    admin = AdminClient({"bootstrap.servers": way.bootstrap})
    for deleted in admin.delete_records([TopicPartition(way.sink, 0, 4)]).values():
        deleted.result(30)
    finding = way.reconcile(with_lake=False)[QUERY]
    assert finding.missing == ((0, 12), (0, 20))
    assert "partition 0 from offset 7 on" in finding.unchecked


def test_what_cannot_be_told_is_said(way: Way) -> None:
    way.accept(0, 10)
    way.derive([(0, 1), (0, 4), (0, 4)])
    nothing_committed = way.reconcile()[QUERY]
    assert nothing_committed.missing == (), "they may be on their way"
    assert nothing_committed.waiting == 8
    assert len(nothing_committed.doubles) == 1
    from_the_topic = way.reconcile(with_lake=False)[QUERY]
    assert (from_the_topic.basis, from_the_topic.unchecked) == (Basis.IDENTITIES, "")
    way.commit()
    way.relation = Relation.STATE
    assert "names no source record" in way.reconcile()[QUERY].unchecked
    way.relation = Relation.ANY
    finding = way.reconcile()[QUERY]
    assert "cannot be told" in finding.unchecked
    assert finding.basis is Basis.NOTHING
    (double,) = way.reconcile(is_full=True)[QUERY].doubles
    assert double.id.endswith("/0/4/0")


def test_dead_letters_that_are_double_are_named(way: Way) -> None:
    way.accept(0, 3)
    way.derive([(0, 0), (0, 1)])
    way.reject(0, 2)
    way.reject(0, 2)
    way.reject(0, 1, query="CSAS_OTHER_9")
    way.commit()
    finding = way.reconcile()[QUERY]
    assert finding.missing == ()
    (double,) = finding.doubles
    assert double.places == (f"{way.source}_dlq 0:0", f"{way.source}_dlq 0:1")
