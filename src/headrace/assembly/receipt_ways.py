"""The ways of events through a platform, for receipts: its statements and connectors, and what its queries
have recorded, followed in the background.

A query is planned once for each statement. What has no topic yet (no statement, no connector, no commit) is
looked for now and then: following a topic would create it. Imports no pyspark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.assembly.table_feeds import TableFeeds
from headrace.client.cluster import Cluster
from headrace.client.followed import FollowedTopic
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.lake.location import located
from headrace.lake.sink import LocalStorage, TableFormat
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery
from headrace.pipeline.catalogue.statement_log import TOPIC as STATEMENTS_TOPIC
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.plan import QueryPlan, TableLookup, reads_of, steps_of
from headrace.pipeline.rules.planning import plan_again
from headrace.pipeline.runs.commit_log import COMMITS_TOPIC, part_key
from headrace.pipeline.runs.commits import Commit, History, decode
from headrace.pipeline.sink_tables import drops_of, query_id, table_location, table_name
from headrace.query.receipts.ways import QueryWay, TableWay, Way, Yield
from headrace.query.tail.feeds import TableFeed
from headrace.reconcile.hops import Relation, hop_of

_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 5.0
_GIVES: Final = {Relation.ONE: Yield.ONE, Relation.ANY: Yield.ANY, Relation.STATE: Yield.STATE}
_BESIDE: Final = "it is read beside the records that become rows, and no row names it"


class ReceiptWays:
    """Of one platform. All methods may be called from any thread."""

    def __init__(self, settings: Settings, cluster: Cluster, feeds: TableFeeds) -> None:
        self._settings = settings
        self._cluster = cluster
        self._feeds = feeds
        self._lock = threading.Lock()
        self._looked: dict[str, float] = {}
        self._statements: StatementLog | None = None
        self._commits: _Commits | None = None
        self._planned: dict[tuple[str, str, str], tuple[QueryWay, ...]] = {}

    def close(self) -> None:
        with self._lock:
            if self._statements is not None:
                self._statements.stop()
            if self._commits is not None:
                self._commits.stop()

    def of(self, topic: str) -> Sequence[Way]:
        with self._lock:
            queries = [way for way in self._query_ways() if way.source == topic]
        return [*queries, *(self._table_way(feed) for feed in self._feeds.reading(topic))]

    def writing(self, topic: str) -> Sequence[QueryWay]:
        """The statements that write the topic of this name."""
        with self._lock:
            return [way for way in self._query_ways() if way.sink == topic]

    def commits(self, way: QueryWay) -> Sequence[Commit]:
        return self._of_statement(way.query, way)

    def commits_of_letters(self, way: QueryWay) -> Sequence[Sequence[Commit]]:
        followed = self._followed_commits()
        keys = followed.parts(way.query) if followed is not None else ()
        return [self._of_statement(key, way) for key in keys]

    def _of_statement(self, key: str, way: QueryWay) -> Sequence[Commit]:
        followed = self._followed_commits()
        history = followed.history(key) if followed is not None else None
        if history is None or history.statement != way.statement:
            return ()
        return history.commits

    def _followed_commits(self) -> _Commits | None:
        with self._lock:
            if self._commits is None and self._is_there(COMMITS_TOPIC):
                commits = _Commits(self._settings.bootstrap)
                commits.start(self._cluster)
                self._commits = commits
            return self._commits

    def _query_ways(self) -> Sequence[QueryWay]:
        if self._statements is None and self._is_there(STATEMENTS_TOPIC):
            statements = StatementLog(self._settings.bootstrap)
            statements.start()
            self._statements = statements
        if self._statements is None:
            return ()
        catalogue = self._statements.catalogue
        found: dict[tuple[str, str, str], tuple[QueryWay, ...]] = {}
        for query in catalogue.queries.values():
            begun = query.start.statement if query.start is not None else ""
            key = (query.id, f"{query.statement}\0{query.paused}", begun)
            found[key] = self._planned.get(key) or _ways_of(query, catalogue)
        self._planned = found
        return [way for ways in found.values() for way in ways]

    def _table_way(self, feed: TableFeed) -> TableWay:
        sink, topic = feed.sink, feed.topic
        location = table_location(sink, topic)
        unseen = ""
        if sink.table_format is TableFormat.FILES:
            unseen = "rows of plain files do not say which records they are"
        elif not isinstance(sink.storage, LocalStorage) or not self._is_of_sql(location.path.parent):
            unseen = "SQL does not have the table"
        return TableWay(
            connector=sink.name,
            query=query_id(sink.name, topic),
            source=topic,
            table=table_name(sink, topic),
            location=location,
            letters=feed.letters,
            drops=drops_of(sink),
            problem=feed.problem,
            unseen=unseen,
        )

    def _is_of_sql(self, folder: object) -> bool:
        return str(folder) == str(located(self._settings.lake_dir.resolve()))

    def _is_there(self, topic: str) -> bool:
        now = time.monotonic()
        if now < self._looked.get(topic, -_LOOK_SECONDS) + _LOOK_SECONDS:
            return False
        self._looked[topic] = now
        return self._cluster.topic(topic) is not None


class _Commits:
    """`_query_commits`, followed. A history is decoded when it is asked for."""

    def __init__(self, bootstrap: str) -> None:
        self._values: dict[str, bytes] = {}
        self._decoded: dict[str, tuple[bytes, History | None]] = {}
        self._topic = FollowedTopic(bootstrap, COMMITS_TOPIC, self._fold)

    def start(self, cluster: Cluster) -> None:
        """Raises log_unavailable."""
        ends = cluster.end_offsets(COMMITS_TOPIC)
        self._topic.start()
        if not self._topic.wait_until_read(ends, _PATIENCE_SECONDS):
            self._topic.stop()
            raise HeadraceError(
                "log_unavailable",
                f"The topic {COMMITS_TOPIC} could not be read within {_PATIENCE_SECONDS:g} s.",
                remedy="Ask again. `headrace status` shows whether the log runs.",
            )

    def stop(self) -> None:
        self._topic.stop()

    def history(self, key: str) -> History | None:
        with self._topic.progress:
            value = self._values.get(key)
            if value is None:
                return None
            known = self._decoded.get(key)
            if known is None or known[0] is not value:
                known = self._decoded[key] = value, _decoded(value)
            return known[1]

    def parts(self, query: str) -> tuple[str, ...]:
        """The keys of the query's parts that only write dead letters."""
        prefix = part_key(query, 0)[:-1]
        with self._topic.progress:
            return tuple(key for key in self._values if key.startswith(prefix))

    def _fold(self, record: Record) -> None:
        key = (record.key() or b"").decode("utf-8", "replace")
        value = record.value()
        if value is None:
            self._values.pop(key, None)
            self._decoded.pop(key, None)
        else:
            self._values[key] = value


def _decoded(value: bytes) -> History | None:
    try:
        return decode(value)
    except msgspec.DecodeError:
        # Of another version, or somebody else's: as if there were none.
        return None


def _ways_of(query: PersistentQuery, catalogue: Catalogue) -> tuple[QueryWay, ...]:
    """One for each topic that the query reads."""
    try:
        plan = plan_again(query.statement, query.id, catalogue)
    except HeadraceError:
        # It does not run either: its status says why.
        return ()
    start = query.start
    first, *others = reads_of(plan.root)
    gives, reason = _given(query.id, plan)
    beside = {
        read.source.topic
        for step in steps_of(plan.root)
        if isinstance(step, TableLookup)
        for read in reads_of(step.table)
    }
    found = {
        first.source.topic: (gives, reason),
        **{
            read.source.topic: (gives, reason)
            if gives is Yield.STATE and read.source.topic not in beside
            else (Yield.BESIDE, _BESIDE)
            for read in others
            if read.source.topic != first.source.topic
        },
    }
    return tuple(
        QueryWay(
            query=query.id,
            source=topic,
            sink=plan.sink.topic,
            letters=dead_letter_topic(topic),
            gives=of_topic,
            reason=why,
            is_paused=query.paused,
            statement=start.statement if start is not None else "",
            begins=start.sources if start is not None else {},
            sinks=start.sinks if start is not None else {},
        )
        for topic, (of_topic, why) in found.items()
    )


def _given(query: str, plan: QueryPlan) -> tuple[Yield, str]:
    hop = hop_of(query, plan)
    return _GIVES[hop.relation], hop.reason
