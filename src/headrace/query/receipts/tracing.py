"""Follows one event along all its ways, as far as positions and headers tell it at this moment.

What is said is certain. A statement has left an event out only if it has committed a position behind it, and
its sink and its dead letters were read as far as that commit says, and have nothing of it. What a table has
is known by its rows. Belongs to one thread. Asks the log only about topics, single records and positions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.runs.commits import Commit, offset_in
from headrace.query.receipts.followed_origins import FollowedOrigins, Looked
from headrace.query.receipts.origins import Derived, Lane, Source
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.source_records import SourceRecords
from headrace.query.receipts.tables import NOWHERE, Row, Tables, Wanted
from headrace.query.receipts.traces import (
    LetterTrace,
    Passage,
    QueryTrace,
    RecordAt,
    Seen,
    TableTrace,
    Trace,
)
from headrace.query.receipts.ways import QueryWay, TableWay, Way, Ways, Yield

_Value = TypeVar("_Value")

_MISSING: Final = "nothing of it was found; `headrace reconcile` looks further"
# Statements can go round in a circle.
_MOST_RECORDS: Final = 1_000
# A topic or a statement that is new is noticed within this time.
_FRESH_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A record on the way."""

    topic: TopicIdentity
    partition: int
    offset: int
    lane: Lane
    source_offset: int

    @property
    def at(self) -> RecordAt:
        return RecordAt(topic=self.topic.name, partition=self.partition, offset=self.offset)


@dataclass(slots=True, kw_only=True)
class _Found:
    """A trace while it is made. `ends` are where topics must have been read to, so that nothing is missed."""

    tables_wanted: Collection[str] | None
    asked: float
    ends: dict[str, Mapping[int, int]]
    queries: list[QueryTrace] = field(default_factory=list)
    tables: list[TableTrace] = field(default_factory=list)
    letters: list[LetterTrace] = field(default_factory=list)
    seen: set[tuple[str, int, int]] = field(default_factory=set)
    is_looking: bool = False


class Tracer:
    """Of one platform."""

    def __init__(
        self,
        cluster: Cluster,
        ways: Ways,
        origins: FollowedOrigins,
        records: SourceRecords,
        tables: Tables,
    ) -> None:
        self._cluster = cluster
        self._ways = ways
        self._origins = origins
        self._records = records
        self._tables = tables
        self._known: dict[tuple[str, str], tuple[float, object]] = {}

    def trace(
        self,
        receipt: Receipt,
        *,
        tables: Collection[str] | None,
        asked: float,
        ends: dict[str, Mapping[int, int]],
    ) -> Trace:
        """`tables` are names in SQL, in small letters: only ways that lead there count; None: all ways.

        `asked` is when it was asked for (monotonic), and `ends` is kept between calls for one request.
        Raises no_such_topic, event_not_found, event_expired and log_unavailable.
        """
        topic = self._topic(receipt.topic)
        if topic is None:
            raise HeadraceError(
                "no_such_topic",
                f"There is no topic `{receipt.topic}`.",
                remedy="See /topics for existing topics; a topic is created by its first event.",
            )
        if receipt.partition >= topic.partitions:
            raise HeadraceError(
                "event_not_found",
                f"There is no event {receipt}: the topic has {topic.partitions} partitions.",
                remedy="Take topic, partition and offset from the answer of POST /events.",
            )
        record = self._records.at(topic, receipt.partition, receipt.offset)
        if record is None:
            # Its transaction is open: it is in the log, and nobody reads it yet.
            return Trace(
                receipt=receipt,
                queries=(
                    QueryTrace(
                        query="",
                        source=RecordAt(topic=topic.name, partition=receipt.partition, offset=receipt.offset),
                        sink="",
                        passage=Passage.PENDING,
                        reason="its transaction is not committed",
                    ),
                ),
            )
        found = _Found(tables_wanted=tables, asked=asked, ends=ends)
        self._follow(
            _Place(
                topic=topic,
                partition=receipt.partition,
                offset=receipt.offset,
                lane=record.lane,
                source_offset=record.offset,
            ),
            found,
        )
        return Trace(
            receipt=receipt,
            queries=tuple(found.queries),
            tables=tuple(found.tables),
            letters=tuple(found.letters),
            is_looking=found.is_looking,
        )

    def forget_old(self, now: float) -> None:
        """What was asked of the log a while ago is asked again. `now` is monotonic."""
        self._known = {key: each for key, each in self._known.items() if each[0] > now - _FRESH_SECONDS}

    def _follow(self, place: _Place, found: _Found) -> None:
        key = place.topic.topic_id, place.partition, place.offset
        if key in found.seen or len(found.seen) >= _MOST_RECORDS:
            return
        found.seen.add(key)
        for way in self._ways_of(place.topic.name):
            leads = self._leads(way, found.tables_wanted)
            if found.tables_wanted is not None and not leads:
                continue
            if isinstance(way, QueryWay):
                self._through(way, place, found, leads=leads)
            else:
                self._into(way, place, found)

    def _through(self, way: QueryWay, place: _Place, found: _Found, *, leads: bool) -> None:
        def trace(passage: Passage, reason: str = "", *, records: Sequence[RecordAt] = ()) -> None:
            found.queries.append(
                QueryTrace(
                    query=way.query,
                    source=place.at,
                    sink=way.sink,
                    passage=passage,
                    records=tuple(records),
                    reason=reason,
                    behind=max(place.offset + 1 - position, 0) if passage is Passage.PENDING else 0,
                    leads=leads,
                )
            )

        commits = self._ways.commits(way)
        position = _position(commits[-1], place) if commits else 0
        begun = offset_in(way.begins, place.topic.topic_id, place.partition)
        if begun is not None and place.offset < begun:
            trace(Passage.NOT_READ, f"it began to read at offset {begun}")
            return
        is_written = False
        if way.gives is not Yield.STATE:
            sink, written = self._derived(way.sink, way, place, commits, found)
            if sink is not None and written is not None and written.found:
                is_written = True
                records = [
                    RecordAt(topic=sink.name, partition=each.partition, offset=each.offset)
                    for each in written.found
                ]
                trace(Passage.WRITTEN, records=records)
                for each in written.found:
                    self._follow(_derived_place(sink, each, place), found)
        else:
            written = None
        of_letters = commits
        if way.gives is Yield.STATE:
            of_letters = _slowest(self._ways.commits_of_letters(way), place) or commits
            if commits and place.topic.topic_id not in commits[-1].positions:
                # The table of a look-up: the query reads it beside its positions.
                commits = of_letters
        letters, rejected = self._derived(way.letters, way, place, of_letters, found)
        if letters is not None and rejected is not None and rejected.found:
            reason = self._letter(letters, rejected.found[0], way.query, found)
            if not is_written:
                trace(Passage.DEAD_LETTER, reason)
            return
        if is_written:
            return
        looks = [each for each in (written, rejected) if each is not None]
        if not _has_passed(commits, place) or not _has_passed(of_letters, place):
            trace(Passage.PENDING, "it is paused" if way.is_paused else "")
        elif (trouble := next((each.trouble for each in looks if each.trouble), "")) or (
            way.gives is Yield.ONE and all(each.is_whole for each in looks)
        ):
            # The records may have expired, and the rows are still there.
            tables, is_known = self._rows_behind(way, place, found)
            if tables:
                trace(Passage.WRITTEN, "its record is gone")
                found.tables += tables
            elif not is_known:
                found.is_looking = True
                trace(Passage.PENDING, "its row is being looked for")
            else:
                trace(Passage.UNKNOWN, trouble or _MISSING)
        elif not all(each.is_whole for each in looks):
            found.is_looking = True
            trace(Passage.PENDING, "its results are being read")
        elif way.gives is Yield.STATE:
            trace(Passage.TAKEN, way.reason)
        else:
            trace(Passage.LEFT_OUT, way.reason)

    def _rows_behind(self, way: QueryWay, place: _Place, found: _Found) -> tuple[list[TableTrace], bool]:
        """The tables of the query's sink that have a row of the record, and whether all have been asked."""
        wanted = Wanted("", 0, NOWHERE, Lane(way.query, place.topic.topic_id, place.partition), place.offset)
        tables: list[TableTrace] = []
        is_known = True
        for each in self._ways_of(way.sink):
            name = self._names().get(each.location_key) if isinstance(each, TableWay) else None
            if name is None or not isinstance(each, TableWay):
                continue
            row = self._tables.look(each.location, wanted)
            if row is None or row.looked < found.asked:
                is_known = False
            elif row.lake is Seen.VISIBLE:
                tables.append(
                    TableTrace(
                        table=each.table,
                        connector=each.connector,
                        source=place.at,
                        sql=row.sql,
                        lake=row.lake,
                        version=row.version,
                        name=name,
                    )
                )
        return tables, is_known

    def _derived(
        self, name: str, way: QueryWay, place: _Place, commits: Sequence[Commit], found: _Found
    ) -> tuple[TopicIdentity | None, Looked | None]:
        """What the query has written of the record to a topic."""
        topic = self._topic(name)
        if topic is None:
            return None, None
        before = next((each for each in reversed(commits) if not _is_behind(each, place)), None)
        after = next((each for each in commits if _is_behind(each, place)), None)
        starts = (before.sinks_from if before is not None else way.sinks).get(topic.topic_id, {})
        ends = after.sinks_to.get(topic.topic_id, {}) if after is not None else self._ends(topic, found)
        source = Source(place.topic.topic_id, place.partition, place.offset)
        looked = self._origins.look(topic, source, starts=starts, ends=ends)
        mine = tuple(each for each in looked.found if each.query == way.query)
        if not mine and not looked.is_whole and not looked.trouble:
            found.is_looking = True
        return topic, Looked(found=mine, is_whole=looked.is_whole, trouble=looked.trouble)

    def _into(self, way: TableWay, place: _Place, found: _Found) -> None:
        wanted = Wanted(place.topic.topic_id, place.partition, place.offset, place.lane, place.source_offset)
        name = self._names().get(way.location_key, "")
        row = None
        if name or not way.unseen:
            row = self._tables.look(way.location, wanted)
            if row is None or row.looked < found.asked:
                # What was there before may have been restored or deleted meanwhile.
                row, found.is_looking = None, True
        sql, lake = (row.sql, row.lake) if row is not None else (Seen.PENDING, Seen.PENDING)
        reason = row.reason if row is not None else ""
        if not name and way.unseen:
            sql, lake, reason = Seen.UNKNOWN, Seen.UNKNOWN, way.unseen
        elif row is not None and Seen.VISIBLE not in (sql, lake) and (row.is_decided or row.is_read):
            sql, lake, reason = self._without_row(way, place, row, found)
        if Seen.PENDING in (sql, lake) and way.problem:
            reason = way.problem
        found.tables.append(
            TableTrace(
                table=way.table,
                connector=way.connector,
                source=place.at,
                sql=sql,
                lake=lake,
                version=row.version if row is not None else None,
                reason=reason,
                behind=row.behind if row is not None else 0,
                # A table that is not there yet will have the name of its folder.
                name=name or ("" if way.unseen else way.table),
            )
        )

    def _without_row(self, way: TableWay, place: _Place, row: Row, found: _Found) -> tuple[Seen, Seen, str]:
        """The connector, or the tail, has read the record, and there is no row of it."""
        topic = self._topic(way.letters)
        if topic is not None:
            source = Source(place.topic.topic_id, place.partition, place.offset)
            looked = self._origins.look(
                topic, source, starts=row.letters_from or {}, ends=self._ends(topic, found)
            )
            mine = [each for each in looked.found if each.query == way.query]
            if mine:
                reason = self._letter(topic, mine[0], way.connector, found)
                return Seen.DEAD_LETTER, Seen.DEAD_LETTER, reason
            if looked.trouble and row.is_decided:
                return Seen.UNKNOWN, Seen.UNKNOWN, looked.trouble
            if not looked.is_whole:
                found.is_looking = True
                return Seen.PENDING, Seen.PENDING, "its dead letters are being read"
        if not row.is_decided:
            return Seen.PENDING, Seen.PENDING, row.reason or "it is left to the lake"
        if way.drops:
            return Seen.LEFT_OUT, Seen.LEFT_OUT, way.drops
        return Seen.UNKNOWN, Seen.UNKNOWN, "the connector has read it, and nothing of it was found"

    def _letter(self, topic: TopicIdentity, at: Derived, by: str, found: _Found) -> str:
        """Note the dead letter; its reason."""
        try:
            record = self._records.at(topic, at.partition, at.offset)
        except HeadraceError as error:
            if error.code == "log_unavailable":
                raise
            record = None
        reason = record.error if record is not None else ""
        place = RecordAt(topic=topic.name, partition=at.partition, offset=at.offset)
        found.letters.append(LetterTrace(at=place, by=by, reason=reason))
        return reason

    def _leads(self, way: Way, tables: Collection[str] | None) -> bool:
        """Whether the way ends in a table that counts."""
        left, seen = [way], {way_key(way)}
        while left:
            each = left.pop()
            if isinstance(each, TableWay):
                name = self._names().get(each.location_key, "" if each.unseen else each.table)
                if tables is None or name.casefold() in tables:
                    return True
                continue
            for following in self._ways_of(each.sink):
                if way_key(following) not in seen:
                    seen.add(way_key(following))
                    left.append(following)
        return False

    def _topic(self, name: str) -> TopicIdentity | None:
        return self._fresh("topic", name, lambda: self._cluster.topic(name))

    def _ways_of(self, topic: str) -> Sequence[Way]:
        return self._fresh("ways", topic, lambda: self._ways.of(topic))

    def _names(self) -> Mapping[str, str]:
        return self._fresh("names", "", self._tables.names)

    def _ends(self, topic: TopicIdentity, found: _Found) -> Mapping[int, int]:
        """Where the topic ended when this was first asked for."""
        if topic.topic_id not in found.ends:
            ends = self._cluster.latest([topic])
            found.ends[topic.topic_id] = {number: end for (_, number), end in ends.items()}
        return found.ends[topic.topic_id]

    def _fresh(self, kind: str, name: str, ask: Callable[[], _Value]) -> _Value:
        known = self._known.get((kind, name))
        if known is None:
            known = self._known[kind, name] = time.monotonic(), ask()
        value: _Value = known[1]  # type: ignore[assignment]
        return value


def way_key(way: Way) -> str:
    return f"query {way.query}" if isinstance(way, QueryWay) else f"table {way.location_key}"


def _position(commit: Commit, place: _Place) -> int:
    return offset_in(commit.positions, place.topic.topic_id, place.partition) or 0


def _is_behind(commit: Commit, place: _Place) -> bool:
    """Whether the query had read the record at this commit."""
    return _position(commit, place) > place.offset


def _has_passed(commits: Sequence[Commit], place: _Place) -> bool:
    return bool(commits) and _is_behind(commits[-1], place)


def _slowest(parts: Sequence[Sequence[Commit]], place: _Place) -> Sequence[Commit]:
    """Of the parts that read the topic, the one that has read least of it."""
    reading = [commits for commits in parts if commits and place.topic.topic_id in commits[-1].positions]
    return min(reading, key=lambda commits: _position(commits[-1], place), default=())


def _derived_place(topic: TopicIdentity, derived: Derived, source: _Place) -> _Place:
    return _Place(
        topic=topic,
        partition=derived.partition,
        offset=derived.offset,
        lane=Lane(derived.query, source.topic.topic_id, source.partition),
        source_offset=source.offset,
    )
