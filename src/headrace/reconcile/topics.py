"""The topic side: which offsets have records, and which source records the records of a derived topic name.

Counts and fingerprints come from batch headers; only a batch that compaction has thinned out is opened.
Identities need the headers of records, so every record in question is read.

A source is seen as its reader sees it, without the records of open and aborted transactions. What a query
has written is seen as it is: it is part of no transaction, but an open one of another producer would hide it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.client.batches import batches_between
from headrace.client.cluster import Cluster
from headrace.client.reading import Record, records_between
from headrace.client.topics import TopicIdentity, printed_topic_id
from headrace.lake.coordinates import SOURCE_HEADER, SourceCoordinates, parse_source
from headrace.lake.dead_letter_headers import QUERY_HEADER, READ_FROM_HEADER, RecordPlace, parse_place
from headrace.reconcile.fingerprints import (
    Fingerprint,
    RangeKey,
    cut,
    of_offset,
    of_stretch,
    range_of,
    summed,
)

# First offset and the offset after the last one, by partition.
Stretches = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRecord:
    """A record of a derived topic. `source` is None if it does not say where it comes from."""

    partition: int
    offset: int
    source: SourceCoordinates | None

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter: the query that wrote it, and the record that it is for."""

    place: str
    query: str
    source: SourceCoordinates | None
    read_from: RecordPlace | None


def fingerprints(cluster: Cluster, topic: TopicIdentity, within: Stretches) -> dict[RangeKey, Fingerprint]:
    """Of the offsets that have records, by range."""
    return summed(_parts(cluster, topic, within))


def offsets(cluster: Cluster, topic: TopicIdentity, within: Stretches) -> Iterator[tuple[int, int]]:
    """Partition and offset of every record."""
    for partition, batch in batches_between(cluster, topic, within):
        if batch.records == batch.end - batch.first:
            yield from ((partition, offset) for offset in range(batch.first, batch.end))
        else:
            yield from _opened(cluster, topic, partition, batch.first, batch.end)


def derived_records(
    cluster: Cluster, topic: TopicIdentity, within: Stretches, *, only_committed: bool
) -> Iterator[DerivedRecord]:
    for record in records_between(cluster.bootstrap, topic.name, within, only_committed=only_committed):
        yield DerivedRecord(
            partition=record.partition() or 0,
            offset=record.offset() or 0,
            source=_source(record),
        )


def letters(cluster: Cluster, topic: TopicIdentity | None) -> list[Letter]:
    """All entries of a dead-letter topic; none if there is no such topic."""
    if topic is None:
        return []
    within = cluster.stretches([topic]).get(topic.name, {})
    return [
        Letter(
            place=f"{record.partition()}:{record.offset()}",
            query=(_header(record, QUERY_HEADER) or b"").decode("utf-8", "replace"),
            source=_source(record),
            read_from=_read_from(record),
        )
        for record in records_between(cluster.bootstrap, topic.name, within, only_committed=False)
    ]


def within_range(key: RangeKey, size: int, limits: Stretches) -> Stretches:
    """The offsets of a range, as far as they are within limits."""
    partition, number = key
    first, end = limits.get(partition, (0, 0))
    return {partition: (max(first, number * size), min(end, (number + 1) * size))}


def _parts(
    cluster: Cluster, topic: TopicIdentity, within: Stretches
) -> Iterator[tuple[RangeKey, Fingerprint]]:
    for partition, batch in batches_between(cluster, topic, within):
        if batch.records == batch.end - batch.first:
            for first, end in cut(batch.first, batch.end):
                yield range_of(partition, first), of_stretch(first, end)
        else:
            for _, offset in _opened(cluster, topic, partition, batch.first, batch.end):
                yield range_of(partition, offset), of_offset(offset)


def _opened(
    cluster: Cluster, topic: TopicIdentity, partition: int, first: int, end: int
) -> Iterator[tuple[int, int]]:
    for record in records_between(cluster.bootstrap, topic.name, {partition: (first, end)}):
        yield partition, record.offset() or 0


def _source(record: Record) -> SourceCoordinates | None:
    header = _header(record, SOURCE_HEADER)
    if header is None:
        return None
    try:
        source = parse_source(header)
    except ValueError:
        return None
    return SourceCoordinates(
        query=source.query,
        topic_id=printed_topic_id(source.topic_id),
        partition=source.partition,
        offset=source.offset,
        ordinal=source.ordinal,
    )


def _read_from(record: Record) -> RecordPlace | None:
    header = _header(record, READ_FROM_HEADER)
    try:
        return parse_place(header.decode()) if header is not None else None
    except ValueError:
        return None


def _header(record: Record, name: str) -> bytes | None:
    headers = record.headers() or ()
    # librdkafka gives a list; its stubs also know what producers take.
    for key, value in reversed(list(headers.items() if isinstance(headers, dict) else headers)):
        if key == name:
            return value.encode() if isinstance(value, str) else value
    return None
