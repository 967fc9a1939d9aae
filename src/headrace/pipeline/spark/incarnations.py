"""Which records of a recreated topic were already processed under its former id.

Kafka's consumer identifies a topic by name: when a topic is deleted and recreated while a query runs, and
grows past the query's position, the consumer continues in the new incarnation as if nothing had happened.
Until the keeper notices (a fraction of a second), the query labels those records with the former id. They are
in the derived topics once, as they should be, but with wrong coordinates; read again under the new id, they
would be there twice.

So a query that starts on an incarnation for the first time looks at the newest derived records with another
id. If one has the key and the timestamp of the record at the same offset of the new incarnation, it *is* that
record, and the query skips that offset. Only reads: never writes to a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, parse_source

# How many of the newest records of each derived partition to check; mislabelled ones are at the end.
_NEWEST: Final = 50_000
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """Offsets of one source partition that were processed under a former id, both ends included."""

    partition: int
    first: int
    last: int


# Identifies a record at an offset: its key and its timestamp.
_Likeness = tuple[bytes | None, int]


def taken_under_former_ids(
    bootstrap: str, *, query: str, source: TopicIdentity, derived: Iterable[TopicIdentity]
) -> tuple[TakenRange, ...]:
    """The ranges of `source` that `query` has already processed under another id."""
    cluster = Cluster(bootstrap)
    mislabelled: dict[int, dict[int, _Likeness]] = {}
    for topic in derived:
        ends = cluster.end_offsets(topic.name)
        newest = {number: (max(0, end - _NEWEST), end) for number, end in ends.items()}
        for record in records_between(bootstrap, topic.name, newest, _SECONDS):
            _note(record, mislabelled, query=query, source=source)
    return tuple(_ranges(cluster, source, mislabelled)) if mislabelled else ()


def _note(record: Any, into: dict[int, dict[int, _Likeness]], *, query: str, source: TopicIdentity) -> None:
    headers = dict(record.headers() or ())
    try:
        coordinates = parse_source(headers[SOURCE_HEADER])
        posted_at = int(headers[POSTED_AT_HEADER])
    except (KeyError, ValueError):
        return  # not one of ours
    if coordinates.query == query and coordinates.topic_id != source.topic_id:
        into.setdefault(coordinates.partition, {})[coordinates.offset] = (record.key(), posted_at)


def _ranges(
    cluster: Cluster, source: TopicIdentity, mislabelled: Mapping[int, Mapping[int, _Likeness]]
) -> Iterator[TakenRange]:
    ends = cluster.end_offsets(source.name)
    stretches = {
        partition: (min(likenesses), min(max(likenesses) + 1, ends[partition]))
        for partition, likenesses in mislabelled.items()
        if partition in ends
    }
    same: dict[int, list[int]] = {}
    for record in records_between(cluster.bootstrap, source.name, stretches, _SECONDS):
        partition, offset = record.partition() or 0, record.offset() or 0
        if mislabelled[partition].get(offset) == (record.key(), record.timestamp()[1]):
            same.setdefault(partition, []).append(offset)
    for partition, offsets in sorted(same.items()):
        yield TakenRange(partition=partition, first=min(offsets), last=max(offsets))
