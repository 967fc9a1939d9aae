"""Which records of a recreated topic were already processed under its former id.

Kafka's consumer identifies a topic by name: when a topic is deleted and recreated while a query runs, and
grows past the query's position, the consumer continues in the new incarnation as if nothing had happened.
Until the keeper notices (a fraction of a second), the query labels those records with the former id. They are
in the derived topics once, as they should be, but with wrong coordinates; read again under the new id, they
would be there twice.

So a query that starts on an incarnation for the first time looks at the newest derived records with another
id. If one has the key and the timestamp of the record at the same offset of the new incarnation, it *is* that
record, and the query leaves it out.

A topic can also be deleted and loaded again, with the same keys and timestamps and perhaps other values. That
is another source, of which nothing may be left out. So a derived record counts only

- if it is not covered by a commit of some time ago: the consumer that read on was stopped at once; and
- if all derived records with higher offsets of the former id are like those of the new incarnation, too: that
  consumer read on from its position, and what it had derived before lies below.

Only reads: never writes to a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, parse_source
from headrace.pipeline.runs.commits import Offsets, offset_in
from headrace.pipeline.runs.identities import Collected, Written

# How many of the newest records of each derived partition to check; mislabelled ones are at the end.
_NEWEST: Final = 50_000
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """A row of one source partition that was derived under a former id."""

    partition: int
    offset: int
    ordinal: int


# Identifies a record at an offset: its key and its timestamp.
_Likeness = tuple[bytes | None, int]
# By former topic id and partition, then by offset: the ordinals with their likenesses.
_Mislabelled = dict[tuple[str, int], dict[int, dict[int, _Likeness]]]


def taken_under_former_ids(
    bootstrap: str,
    *,
    query: str,
    source: TopicIdentity,
    derived: Iterable[TopicIdentity],
    committed: Offsets,
) -> tuple[TakenRow, ...]:
    """The rows of `source` that `query` has already derived under another id.

    `committed` is how far former incarnations were read some time ago. Raises log_unavailable.
    """
    cluster = Cluster(bootstrap)
    mislabelled: _Mislabelled = {}
    for topic in derived:
        ends = cluster.end_offsets(topic.name)
        newest = {number: (max(0, end - _NEWEST), end) for number, end in ends.items()}
        for record in records_between(bootstrap, topic.name, newest, _SECONDS):
            _note(record, mislabelled, query=query, source=source, committed=committed)
    return tuple(_taken(cluster, source, mislabelled)) if mislabelled else ()


def written_of(taken: Iterable[TakenRow]) -> dict[int, Written]:
    """By source partition."""
    found: dict[int, Collected] = {}
    for row in taken:
        found.setdefault(row.partition, Collected()).add(row.offset, row.ordinal)
    return {partition: each.written() for partition, each in found.items()}


def _note(record: Any, into: _Mislabelled, *, query: str, source: TopicIdentity, committed: Offsets) -> None:
    headers = dict(record.headers() or ())
    try:
        coordinates = parse_source(headers[SOURCE_HEADER])
        posted_at = int(headers[POSTED_AT_HEADER])
    except (KeyError, ValueError, TypeError):
        return  # not one of ours
    if coordinates.query != query or coordinates.topic_id == source.topic_id:
        return
    place = coordinates.topic_id, coordinates.partition
    if coordinates.offset >= (offset_in(committed, *place) or 0):
        rows = into.setdefault(place, {}).setdefault(coordinates.offset, {})
        rows[coordinates.ordinal] = (record.key(), posted_at)


def _taken(cluster: Cluster, source: TopicIdentity, mislabelled: _Mislabelled) -> Iterator[TakenRow]:
    ends = cluster.end_offsets(source.name)
    # A former incarnation that was longer was not read on in this one.
    candidates = {place: rows for place, rows in mislabelled.items() if max(rows) < ends.get(place[1], 0)}
    stretches: dict[int, tuple[int, int]] = {}
    for (_, partition), rows in candidates.items():
        first, end = stretches.get(partition, (min(rows), 0))
        stretches[partition] = (min(first, *rows), max(end, max(rows) + 1))
    present: dict[tuple[int, int], _Likeness] = {}
    for record in records_between(cluster.bootstrap, source.name, stretches, _SECONDS):
        place = record.partition() or 0, record.offset() or 0
        if any(place[1] in rows for (_, number), rows in candidates.items() if number == place[0]):
            present[place] = (record.key(), record.timestamp()[1])
    for (_, partition), rows in sorted(candidates.items()):
        yield from _read_on(partition, rows, present)


def _read_on(
    partition: int,
    rows: Mapping[int, Mapping[int, _Likeness]],
    present: Mapping[tuple[int, int], _Likeness],
) -> Iterator[TakenRow]:
    """From the highest offset down to the first that is another record."""
    for offset in sorted(rows, reverse=True):
        here = present.get((partition, offset))
        if here is None:
            continue  # compacted away, or expired
        if any(likeness != here for likeness in rows[offset].values()):
            return
        for ordinal in sorted(rows[offset]):
            yield TakenRow(partition=partition, offset=offset, ordinal=ordinal)
