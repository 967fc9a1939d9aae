"""A platform in small: a topic, a query that derives another topic from it, and the table of a connector,
over a real log and real files. Tests play the query and the connector, and write what these would write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates
from headrace.lake.types import Struct
from headrace.pipeline.runs.commits import Commit
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.settling import IsDone, now
from headrace.query.receipts.traces import Trace
from headrace.query.receipts.watching import Receipts
from headrace.query.receipts.ways import QueryWay, TableWay, Way, Yield
from headrace.query.snapshots import LakeTables
from headrace.query.tail.chunk_files import WORTHWHILE, Worthwhile
from headrace.query.tail.tails import Tails
from headrace.testing import EmbeddedBroker
from tests.query.records import create_topic, produce
from tests.query.tail.written_table import FeedsOfTests, Produced, WrittenTable

QUERY = "CSAS_7"
CONNECTOR = "lake"


class MadeWays:
    """`ways` and `histories` are what a test says. `away` stands for a log that does not answer."""

    def __init__(self) -> None:
        self.ways: list[Way] = []
        self.histories: dict[str, list[Commit]] = {}
        self.of_letters: dict[str, list[list[Commit]]] = {}
        self.away = False

    def of(self, topic: str) -> Sequence[Way]:
        if self.away:
            raise HeadraceError("log_unavailable", "The log does not answer.")
        return [way for way in self.ways if way.source == topic]

    def writing(self, topic: str) -> Sequence[QueryWay]:
        if self.away:
            raise HeadraceError("log_unavailable", "The log does not answer.")
        return [way for way in self.ways if isinstance(way, QueryWay) and way.sink == topic]

    def commits(self, way: QueryWay) -> Sequence[Commit]:
        return self.histories.get(way.query, [])

    def commits_of_letters(self, way: QueryWay) -> Sequence[Sequence[Commit]]:
        return self.of_letters.get(way.query, [])


class DerivedTable(WrittenTable):
    """Its records name a real topic as their source; the number of a record is its offset there."""

    def __init__(self, upstream: str, *args: Any, **options: Any) -> None:
        self.upstream = upstream
        super().__init__(*args, is_derived=True, **options)

    def headers(self, number: int, now: int) -> list[tuple[str, bytes]]:
        source = SourceCoordinates(query=QUERY, topic_id=self.upstream, partition=0, offset=number, ordinal=0)
        return [("headrace-source", source.as_header()), ("headrace-posted-at", str(now).encode())]

    def rows_of(self, batch: Iterable[Produced], columns: Struct | None = None) -> list[dict[str, Any]]:
        return [
            row | {layout.QUERY: QUERY, layout.SOURCE_TOPIC_ID: self.upstream}
            for row in super().rows_of(batch, columns)
        ]


class MadePlatform:
    """Close it."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        name: str,
        folder: Path,
        feeds: FeedsOfTests,
        *,
        gives: Yield = Yield.ONE,
        worthwhile: Worthwhile = WORTHWHILE,
        **of_table: Any,
    ) -> None:
        self.bootstrap = broker.bootstrap
        self.source, self.sink, self.letters = name, f"{name}_avro", f"{name}_dlq"
        self.cluster: Cluster = feeds.cluster
        self.feeds = feeds
        create_topic(self.bootstrap, self.source)
        create_topic(self.bootstrap, self.letters)
        self.source_id, self.letters_id = self._id(self.source), self._id(self.letters)
        self.table = DerivedTable(
            self.source_id, broker, self.sink, folder / "lake", feeds, partitions=1, **of_table
        )
        self.sink_id = self.table.topic.topic_id
        self.ways = MadeWays()
        self.ways.ways = [self.query_way(gives=gives), self.table_way()]
        self.tails = Tails(
            self.bootstrap, feeds, folder / "tails", most_bytes=64 * 1024 * 1024, worthwhile=worthwhile
        )
        self.snapshots = LakeTables(folder / "lake").current
        self.receipts = Receipts(self.cluster, self.ways, self.snapshots, self.tails)
        self._posted = 0

    def close(self) -> None:
        self.receipts.close()
        self.tails.close()

    def query_way(self, **changes: Any) -> QueryWay:
        given: dict[str, Any] = {
            "query": QUERY,
            "source": self.source,
            "sink": self.sink,
            "letters": self.letters,
            "gives": Yield.ONE,
        }
        return QueryWay(**{**given, **changes})

    def table_way(self, **changes: Any) -> TableWay:
        given: dict[str, Any] = {
            "connector": CONNECTOR,
            "query": f"{CONNECTOR}.{self.sink}",
            "source": self.sink,
            "table": self.sink,
            "location": self.table.location,
            "letters": self.table.feed.letters,
        }
        return TableWay(**{**given, **changes})

    # What the platform does.

    def post(self, count: int = 1) -> list[Receipt]:
        produce(self.bootstrap, self.source, [{"value": b"{}"} for _ in range(count)])
        found = [self.receipt(self._posted + number) for number in range(count)]
        self._posted += count
        return found

    def receipt(self, offset: int) -> Receipt:
        return Receipt(topic=self.source, partition=0, offset=offset)

    def derive(self, receipts: Iterable[Receipt]) -> None:
        """The query writes the records of these events."""
        self.table.produce_numbers([each.offset for each in receipts], partition=0)

    def reject(self, receipt: Receipt, reason: str) -> None:
        """The query writes a dead letter."""
        self.letter(self.letters, QUERY, (self.source_id, receipt.partition, receipt.offset), reason)

    def letter(self, topic: str, query: str, place: tuple[str, int, int], reason: str) -> None:
        """`place` is the record that it is about: topic id, partition and offset."""
        topic_id, partition, offset = place
        source = SourceCoordinates(
            query=query, topic_id=topic_id, partition=partition, offset=offset, ordinal=0
        )
        headers = [("headrace-source", source.as_header()), ("headrace-error", reason.encode())]
        produce(self.bootstrap, topic, [{"value": b"{}", "headers": headers}])

    def commit_query(self, position: int | None = None) -> None:
        """The query records that it has read up to here, and where its sinks end."""
        before = self.ways.histories.setdefault(QUERY, [])
        ends = {
            topic_id: {0: self.cluster.end_offsets(name)[0]}
            for name, topic_id in ((self.sink, self.sink_id), (self.letters, self.letters_id))
        }
        begun = before[-1].sinks_to if before else {self.sink_id: {0: 0}, self.letters_id: {0: 0}}
        self.ways.histories[QUERY] = [
            *before,
            Commit(
                at=len(before),
                positions={self.source_id: {0: self._posted if position is None else position}},
                sinks_from=begun,
                sinks_to=ends,
            ),
        ]

    # Asking.

    def look(self, receipt: Receipt, *, tables: frozenset[str] | None = None) -> Trace:
        (found,) = self.ask([receipt], now, tables=tables, seconds=20)
        return found

    def wait(self, receipt: Receipt, is_done: IsDone, *, seconds: float = 20.0) -> Trace:
        (found,) = self.ask([receipt], is_done, seconds=seconds)
        return found

    def ask(
        self,
        receipts: Sequence[Receipt],
        is_done: IsDone,
        *,
        seconds: float,
        tables: frozenset[str] | None = None,
    ) -> Sequence[Trace]:
        return asyncio.run(self.receipts.traces(receipts, is_done, seconds=seconds, tables=tables))

    def _id(self, name: str) -> str:
        found = self.cluster.topic(name)
        assert found is not None
        return found.topic_id


def waiting(platform: MadePlatform, done: Future[Any]) -> bool:
    """Whether somebody waits, who has no answer yet."""
    return platform.receipts.waited_for > 0 and not done.done()
