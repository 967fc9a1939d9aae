"""What one request for receipts needs to know of the platform, asked for as rarely as possible.

`Facts` belongs to one thread and remembers what the log and the folders said a moment ago. `Asked` belongs to
one request: it says since when an answer counts as new, and how far topics must have been read for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.receipts.followed_origins import FollowedOrigins, Looked
from headrace.query.receipts.origins import Derived, Lane, Source
from headrace.query.receipts.source_records import SourceRecords
from headrace.query.receipts.tables import Row, Tables, Wanted
from headrace.query.receipts.traces import LetterTrace, RecordAt
from headrace.query.receipts.ways import QueryWay, TableWay, Way, Ways

_Value = TypeVar("_Value")

# A topic or a statement that is new is noticed within this time.
_FRESH_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A record on the way, and where it says that it comes from."""

    topic: TopicIdentity
    partition: int
    offset: int
    lane: Lane
    source_offset: int

    @property
    def at(self) -> RecordAt:
        return RecordAt(topic=self.topic.name, partition=self.partition, offset=self.offset)

    @property
    def as_source(self) -> Source:
        return Source(self.topic.topic_id, self.partition, self.offset)

    def derived(self, topic: TopicIdentity, record: Derived) -> Place:
        """A record that was made of it."""
        return Place(
            topic=topic,
            partition=record.partition,
            offset=record.offset,
            lane=Lane(record.query, self.topic.topic_id, self.partition),
            source_offset=self.offset,
        )


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request, made `at` a monotonic time. `tables` are names in SQL, in small letters: only these count;
    None: all do.
    """

    tables: Collection[str] | None
    at: float
    ends: dict[str, Mapping[int, int]] = field(default_factory=dict)


class Facts:
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
        self.ways = ways
        self.records = records
        self._origins = origins
        self._tables = tables
        self._known: dict[tuple[str, str], tuple[float, object]] = {}

    def forget_old(self, now: float) -> None:
        """What was asked a while ago is asked again. `now` is monotonic."""
        self._known = {key: each for key, each in self._known.items() if each[0] > now - _FRESH_SECONDS}

    def topic(self, name: str) -> TopicIdentity | None:
        return self._fresh("topic", name, lambda: self._cluster.topic(name))

    def ways_of(self, topic: str) -> Sequence[Way]:
        return self._fresh("ways", topic, lambda: self.ways.of(topic))

    def name_of(self, way: TableWay) -> str:
        """That of the table in SQL; empty if SQL does not have it."""
        names = self._fresh("names", "", self._tables.names)
        return names.get(way.location_key, "")

    def leads(self, way: Way, tables: Collection[str] | None) -> bool:
        """Whether the way ends in one of the tables, or in any."""
        left, seen = [way], {_key(way)}
        while left:
            each = left.pop()
            if isinstance(each, TableWay):
                # A table that is not there yet will have the name of its folder.
                name = self.name_of(each) or ("" if each.unseen else each.table)
                if tables is None or name.casefold() in tables:
                    return True
                continue
            following = [next_ for next_ in self.ways_of(each.sink) if _key(next_) not in seen]
            seen |= {_key(next_) for next_ in following}
            left += following
        return False

    def derived(
        self,
        topic: TopicIdentity,
        place: Place,
        query: str,
        asked: Asked,
        *,
        starts: Mapping[int, int],
        ends: Mapping[int, int] | None = None,
    ) -> Looked:
        """What the query has made of the record in a topic. Without `ends`, up to where the topic ended when
        this request first asked.
        """
        if ends is None:
            ends = self._ends(topic, asked)
        looked = self._origins.look(topic, place.as_source, starts=starts, ends=ends)
        mine = tuple(each for each in looked.found if each.query == query)
        return Looked(found=mine, is_whole=looked.is_whole, trouble=looked.trouble)

    def row(self, way: TableWay, wanted: Wanted, asked: Asked) -> Row | None:
        """None until the table was looked at: what it had before may have been restored or deleted."""
        row = self._tables.look(way.location, wanted)
        return None if row is None or row.looked < asked.at else row

    def letter(self, topic: TopicIdentity, at: Derived, by: str) -> LetterTrace:
        try:
            record = self.records.at(topic, at.partition, at.offset)
        except HeadraceError as error:
            if error.code == "log_unavailable":
                raise
            # It has expired meanwhile.
            record = None
        return LetterTrace(
            at=RecordAt(topic=topic.name, partition=at.partition, offset=at.offset),
            by=by,
            reason=record.error if record is not None else "",
        )

    def _ends(self, topic: TopicIdentity, asked: Asked) -> Mapping[int, int]:
        if topic.topic_id not in asked.ends:
            ends = self._cluster.latest([topic])
            asked.ends[topic.topic_id] = {number: end for (_, number), end in ends.items()}
        return asked.ends[topic.topic_id]

    def _fresh(self, kind: str, name: str, ask: Callable[[], _Value]) -> _Value:
        known = self._known.get((kind, name))
        if known is None:
            known = self._known[kind, name] = time.monotonic(), ask()
        value: _Value = known[1]  # type: ignore[assignment]
        return value


def _key(way: Way) -> str:
    return f"query {way.query}" if isinstance(way, QueryWay) else f"table {way.location_key}"
