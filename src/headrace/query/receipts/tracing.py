"""Follows one event along all its ways, as far as positions and headers tell it at this moment.

What is said is certain. A statement has left an event out only if it has committed a position behind it, and
its sink and its dead letters were read as far as that commit says, and have nothing of it. What a table has
is known by its rows. Belongs to one thread. Asks the log only about topics, single records and positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.receipts.facts import Asked, Facts, Place
from headrace.query.receipts.query_passage import passed
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.table_passage import arrived
from headrace.query.receipts.traces import LetterTrace, Passage, QueryTrace, RecordAt, TableTrace, Trace
from headrace.query.receipts.ways import QueryWay, TableWay

# Statements can go round in a circle.
_MOST_RECORDS: Final = 1_000


def trace(facts: Facts, receipt: Receipt, asked: Asked) -> Trace:
    """Raises no_such_topic, event_not_found, event_expired and log_unavailable."""
    topic = _topic(facts, receipt)
    record = facts.records.at(topic, receipt.partition, receipt.offset)
    if record is None:
        # It is in the log, and nobody reads it yet.
        at = RecordAt(topic=topic.name, partition=receipt.partition, offset=receipt.offset)
        reason = "its transaction is not committed"
        waits = QueryTrace(query="", source=at, sink="", passage=Passage.PENDING, reason=reason)
        return Trace(receipt=receipt, queries=(waits,))
    tracing = _Tracing(facts, asked)
    tracing.follow(
        Place(
            topic=topic,
            partition=receipt.partition,
            offset=receipt.offset,
            lane=record.lane,
            source_offset=record.offset,
        )
    )
    return Trace(
        receipt=receipt,
        queries=tuple(tracing.queries),
        tables=tuple(tracing.tables),
        letters=tuple(tracing.letters),
        is_looking=tracing.is_looking,
    )


@dataclass(slots=True)
class _Tracing:
    """A trace while it is made."""

    facts: Facts
    asked: Asked
    queries: list[QueryTrace] = field(default_factory=list)
    tables: list[TableTrace] = field(default_factory=list)
    letters: list[LetterTrace] = field(default_factory=list)
    is_looking: bool = False
    seen: set[tuple[str, int, int]] = field(default_factory=set)

    def follow(self, place: Place) -> None:
        key = place.topic.topic_id, place.partition, place.offset
        if key in self.seen or len(self.seen) >= _MOST_RECORDS:
            return
        self.seen.add(key)
        for way in self.facts.ways_of(place.topic.name):
            leads = self.facts.leads(way, self.asked.tables)
            if self.asked.tables is not None and not leads:
                continue
            if isinstance(way, QueryWay):
                self._through(way, place, leads=leads)
            else:
                self._into(way, place)

    def _through(self, way: QueryWay, place: Place, *, leads: bool) -> None:
        found = passed(self.facts, way, place, self.asked)
        self.queries.append(
            QueryTrace(
                query=way.query,
                source=place.at,
                sink=way.sink,
                passage=found.passage,
                records=tuple(each.at for each in found.places),
                reason=found.reason,
                behind=found.behind,
                leads=leads,
            )
        )
        self.letters += found.letters
        self.tables += found.tables
        self.is_looking = self.is_looking or found.is_looking
        for each in found.places:
            self.follow(each)

    def _into(self, way: TableWay, place: Place) -> None:
        found = arrived(self.facts, way, place, self.asked)
        self.tables.append(found.table)
        if found.letter is not None:
            self.letters.append(found.letter)
        self.is_looking = self.is_looking or found.is_looking


def _topic(facts: Facts, receipt: Receipt) -> TopicIdentity:
    topic = facts.topic(receipt.topic)
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
    return topic
