"""Reconciles a platform, hop by hop, up to the points that its queries and tables have recorded.

The order matters on a platform that runs: first what was recorded, then what the topics and tables have. What
was recorded stays true while more is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.reconcile.findings import Basis, Finding
from headrace.reconcile.hops import LakeHop, QueryHop
from headrace.reconcile.lake_hops import LakeComparison
from headrace.reconcile.query_hops import QueryComparison, QueryTopics
from headrace.reconcile.recorded import Beginning, Offsets, Point, newest_within
from headrace.reconcile.tables import TableRows, snapshot_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was recorded: by query its points, newest last, and where it began; by query into the lake the
    positions of its table.
    """

    points: Mapping[str, Sequence[Point]]
    began: Mapping[str, Offsets]
    tables: Mapping[str, Offsets]


class Reconciler:
    """Compares hops. `recorded` must be older than this object."""

    def __init__(self, cluster: Cluster, recorded: Recorded) -> None:
        self._cluster = cluster
        self._recorded = recorded

    def run(
        self, queries: Sequence[QueryHop], tables: Sequence[LakeHop], *, is_full: bool
    ) -> Iterator[Finding]:
        """A finding for each hop, as it is known. Raises HeadraceError if something cannot be read."""
        names = {name for hop in queries for name in (hop.source, hop.sink, hop.dead_letters)}
        names |= {name for table in tables for name in (table.source, table.dead_letters)}
        topics = self._cluster.lookup(sorted(names))
        with ExitStack() as stack:
            rows: dict[str, TableRows] = {}
            for lake_hop in tables:
                snapshot = snapshot_of(lake_hop.folder)
                if snapshot is not None:
                    rows[lake_hop.query] = stack.enter_context(TableRows(lake_hop.folder.parent, snapshot))
            # A table that has all records of a topic says by its statistics what is in the topic.
            readers = {hop.source: hop for hop in tables if hop.query in rows and not hop.drops}
            for hop in queries:
                reader = readers.get(hop.sink)
                yield self._query(
                    hop,
                    topics,
                    None if reader is None else rows[reader.query],
                    None if reader is None else reader.query,
                    is_full=is_full,
                )
            for lake_hop in tables:
                yield self._lake(lake_hop, topics, rows.get(lake_hop.query), is_full=is_full)

    def _query(
        self,
        hop: QueryHop,
        topics: Mapping[str, TopicIdentity],
        rows: TableRows | None,
        table: str | None,
        *,
        is_full: bool,
    ) -> Finding:
        def unchecked(why: str) -> Finding:
            return Finding(
                query=hop.query, source=hop.source, sink=hop.sink, basis=Basis.NOTHING, unchecked=why
            )

        for name in (hop.source, hop.sink):
            if name not in topics:
                return unchecked(f"The topic {name} does not exist.")
        source, sink = topics[hop.source], topics[hop.sink]
        points = [
            point
            for point in self._recorded.points.get(hop.query, ())
            if source.topic_id in point.positions and sink.topic_id in point.sinks_to
        ]
        newest: Point = points[-1] if points else Beginning()
        point: Point | None = newest
        if rows is not None and table is not None:
            read = self._recorded.tables.get(table, {})
            point = newest_within(points, {sink.topic_id: read.get(sink.topic_id, {})})
            if point is None:
                # The table is far behind: compare with the topic alone.
                rows, point = None, newest
        assert point is not None
        return QueryComparison(
            self._cluster,
            hop,
            QueryTopics(source=source, sink=sink, dead_letters=topics.get(hop.dead_letters)),
            point,
            began=self._recorded.began.get(hop.query, {}).get(source.topic_id, {}),
            certain=newest.positions.get(source.topic_id, {}),
            rows=rows,
        ).run(is_full=is_full)

    def _lake(
        self,
        hop: LakeHop,
        topics: Mapping[str, TopicIdentity],
        rows: TableRows | None,
        *,
        is_full: bool,
    ) -> Finding:
        def unchecked(why: str) -> Finding:
            return Finding(
                query=hop.query, source=hop.source, sink=hop.table, basis=Basis.NOTHING, unchecked=why
            )

        topic = topics.get(hop.source)
        if topic is None:
            return unchecked(f"The topic {hop.source} does not exist.")
        positions = self._recorded.tables.get(hop.query, {}).get(topic.topic_id)
        if rows is None or positions is None:
            return unchecked(f"The table does not say how far it has read the topic {hop.source}.")
        return LakeComparison(
            self._cluster, hop, topic, topics.get(hop.dead_letters), positions=positions, rows=rows
        ).run(is_full=is_full)
