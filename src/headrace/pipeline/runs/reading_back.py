"""Reads the sinks of a query: what the runs before have written since a commit.

The writer must be dead, or at least silent; `quiet_seconds` waits for records that are still on their way
from a writer that failed. Reads whatever is there, committed or not: the records of a query are part of no
transaction, but an open transaction of another producer would hide those behind it. Never writes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.client.errors import is_end, log_late, log_unavailable
from headrace.client.reading import PartitionReader, Record
from headrace.client.topics import Partition, TopicIdentity
from headrace.lake.coordinates import PLACE_PATTERN, SOURCE_HEADER
from headrace.pipeline.runs.commits import Offsets, offset_in
from headrace.pipeline.runs.identities import Collected, Written, WrittenOrder

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_PLACE: Final = re.compile(PLACE_PATTERN.encode())
# More rows than any record gives. There is a bit for each lower ordinal, so one that somebody made up costs.
_MOST_ORDINALS: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """`written` is by source topic id and source partition.

    `sinks_to` is where the records of each sink end, by topic id and partition: the offset after the last
    record, which may lie before the end of a log that has only a hole there. `orders` is by source, too, for
    the sinks of tables.
    """

    written: Mapping[str, Mapping[int, Written]]
    sinks_to: dict[str, dict[int, int]]
    orders: Mapping[str, Mapping[int, WrittenOrder]] = field(default_factory=dict)


def read_back(
    bootstrap: str,
    *,
    query: str,
    sinks: Sequence[TopicIdentity],
    sinks_from: Offsets,
    ends: Mapping[Partition, int],
    positions: Offsets,
    quiet_seconds: float = 0.0,
    with_order: bool = False,
) -> ReadBack:
    """What the query has derived from `positions` on. Raises log_unavailable.

    `ends` are the ends of the sinks' partitions, asked for after the writer was silent. `with_order` is for
    tables.
    """
    sinks_to = {sink.topic_id: dict(sinks_from.get(sink.topic_id, {})) for sink in sinks}
    ids = {sink.name: sink.topic_id for sink in sinks}
    starts = {
        (sink.name, partition): offset_in(sinks_from, sink.topic_id, partition) or 0
        for sink in sinks
        for partition in range(sink.partitions)
    }
    prefix = f"{query}/".encode()
    found: dict[str, dict[int, Collected]] = {}
    orders: dict[str, dict[int, WrittenOrder]] = {}

    def is_of_query(record: Record) -> bool:
        place = record.topic() or "", record.partition() or 0
        sinks_to[ids[place[0]]][place[1]] = (record.offset() or 0) + 1
        header = source_header(record)
        if header is None or not header.startswith(prefix):
            return False
        identity = _parsed(header[len(prefix) :])
        if identity is None:
            return False
        topic_id, source_partition, source_offset, ordinal = identity
        position = offset_in(positions, topic_id, source_partition)
        if position is not None and source_offset >= position:
            of_topic = found.setdefault(topic_id, {})
            of_topic.setdefault(source_partition, Collected()).add(source_offset, ordinal)
            if with_order:
                order = orders.setdefault(topic_id, {}).setdefault(source_partition, WrittenOrder())
                order.add(place, source_offset)
        return True

    for _ in records_since(bootstrap, starts, ends, counts=is_of_query, quiet_seconds=quiet_seconds):
        pass
    return ReadBack(
        written={
            topic_id: {partition: each.written() for partition, each in of_topic.items()}
            for topic_id, of_topic in found.items()
        },
        sinks_to=sinks_to,
        orders=orders,
    )


def records_since(
    bootstrap: str,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    *,
    counts: Callable[[Record], bool],
    quiet_seconds: float = 0.0,
) -> Iterator[Record]:
    """The records for which `counts` is true, from the starts to the ends, in the order of each partition.

    After that, reads on until for `quiet_seconds` no such record has come. `counts` is called with each
    record. Raises log_unavailable.
    """
    pending = {place for place, start in starts.items() if start < ends.get(place, 0)}
    if not pending and not quiet_seconds:
        return
    reader = PartitionReader(bootstrap, only_committed=False)
    try:
        reader.assign(starts if quiet_seconds else {place: starts[place] for place in pending})
        heard_at = time.monotonic()
        while pending or time.monotonic() < heard_at + quiet_seconds:
            messages = reader.poll(_POLL_SECONDS)
            if messages and pending:
                heard_at = time.monotonic()
            elif pending and time.monotonic() > heard_at + _PATIENCE_SECONDS:
                topic = next(iter(pending))[0]
                raise log_late(bootstrap, f"read topic `{topic}`", _PATIENCE_SECONDS)
            for message in messages:
                _, read_to = reached(bootstrap, message)
                if read_to is not None:
                    place = (message.topic() or "", message.partition() or 0)
                    if read_to >= ends.get(place, 0):
                        pending.discard(place)
                if message.error() is None and counts(message):
                    heard_at = time.monotonic()
                    yield message
    finally:
        reader.close()


def source_header(record: Record) -> bytes | None:
    """The header with the identity of a derived record."""
    # The first of that name; a dict of them all would take twice as long.
    headers = record.headers()
    for name, value in headers if isinstance(headers, list) else ():
        if name == SOURCE_HEADER:
            return value if isinstance(value, bytes) else None
    return None


def reached(bootstrap: str, message: Record) -> tuple[int | None, int | None]:
    """The offset of a record, or None at the end of a partition; and how far the partition was read."""
    error, offset = message.error(), message.offset() or 0
    if error is None:
        return offset, offset + 1
    if is_end(error):
        return None, offset
    if not error.retriable():
        raise log_unavailable(bootstrap, f"read topic `{message.topic()}`", error.str())
    return None, None


def _parsed(identity: bytes) -> tuple[str, int, int, int] | None:
    """Topic id, partition, offset and ordinal of a source header without its query."""
    found = _PLACE.fullmatch(identity)
    if found is None or int(found[4]) >= _MOST_ORDINALS:
        return None
    try:
        return found[1].decode(), int(found[2]), int(found[3]), int(found[4])
    except UnicodeDecodeError:
        return None
