"""Whether there is a record at a place of a topic, and which source it names itself.

One fetch for each record that is asked for, remembered. Belongs to one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headrace.client.batches import BatchReader, RecordSet, RecordsGoneError
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.client.visible_batches import headers_in
from headrace.core.errors import HeadraceError
from headrace.lake.coordinates import ERROR_HEADER
from headrace.query.receipts.origins import Lane, source_of
from headrace.wire.record_batch import BatchHeader, check
from headrace.wire.records import Headers, read_records

_MOST_KNOWN: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record. `lane` and `offset` are where it says that it comes from, or its own place."""

    lane: Lane
    offset: int
    error: str = ""


class SourceRecords:
    """Of one log."""

    def __init__(self, cluster: Cluster, *, patience_seconds: float) -> None:
        self._cluster = cluster
        self._reader = BatchReader(cluster, timeout_seconds=patience_seconds)
        self._known: OrderedDict[tuple[str, int, int], SourceRecord] = OrderedDict()

    def close(self) -> None:
        self._reader.close()

    def at(self, topic: TopicIdentity, partition: int, offset: int) -> SourceRecord | None:
        """None if its transaction is not committed yet. Raises event_not_found, event_expired and
        log_unavailable.
        """
        key = topic.topic_id, partition, offset
        found = self._known.get(key)
        if found is None:
            found = self._read(topic, partition, offset)
            if found is None:
                return None
            self._known[key] = found
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found

    def _read(self, topic: TopicIdentity, partition: int, offset: int) -> SourceRecord | None:
        place = f"{topic.name}/{partition}/{offset}"
        first, end = self._cluster.stretches([topic]).get(topic.name, {}).get(partition, (0, 0))
        if offset < first:
            raise HeadraceError(
                "event_expired",
                f"The event {place} has expired: the partition begins at offset {first}.",
                remedy="What became of it cannot be told any more: ask before the topic's retention is over.",
            )
        try:
            records = self._reader.record_set(topic, partition, offset) if offset < end else None
        except RecordsGoneError:
            records = None
        if records is None and offset < end:
            raise HeadraceError(
                "log_unavailable", f"Partition {partition} of topic {topic.name} has no leader at the moment."
            )
        if records is not None:
            for header in records.batches:
                if header.base_offset <= offset < header.next_offset:
                    found = _record(records, header, offset)
                    if found is not None:
                        return _source_record(topic, partition, offset, found)
            if offset >= records.end:
                return None
        raise _not_found(place, _why(records, offset, end))


def _record(records: RecordSet, header: BatchHeader, offset: int) -> Headers | None:
    check(memoryview(records.content), header)
    return next(
        (
            record.headers
            for record in read_records(records.content, header)
            if header.base_offset + record.offset_delta == offset
        ),
        None,
    )


def _source_record(topic: TopicIdentity, partition: int, offset: int, headers: Headers) -> SourceRecord:
    named = source_of(headers)
    errors = [value for name, value in headers if name == ERROR_HEADER.encode() and value is not None]
    lane, source_offset = named or (Lane("", topic.topic_id, partition), offset)
    return SourceRecord(
        lane=lane, offset=source_offset, error=errors[-1].decode("utf-8", "replace") if errors else ""
    )


def _why(records: RecordSet | None, offset: int, end: int) -> str:
    if records is None:
        return f"the partition ends before offset {end}"
    batch = next(
        (each for each in headers_in(records.content) if each.base_offset <= offset < each.next_offset), None
    )
    if batch is None:
        return "there is a hole in the offsets"
    if batch.control:
        return "it is the marker of a transaction"
    if batch.transactional and batch not in records.batches:
        return "its transaction was aborted"
    return "it was compacted away, or never there"


def _not_found(place: str, why: str) -> HeadraceError:
    return HeadraceError(
        "event_not_found",
        f"There is no event {place}: {why}.",
        remedy="Take topic, partition and offset from the answer of POST /events.",
    )
