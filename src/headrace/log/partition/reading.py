"""Finds the range of a file that a fetch reads.

Readers of committed records see the log up to the last stable offset, where the first open transaction
begins. They also get the list of aborted transactions before it, and skip the records of these themselves
(KIP-98).

Invariants: the range begins with the batch that contains the offset and lies in one segment; it may end in
the middle of a batch, as in Kafka; it contains nothing at or after the high-water mark. The result of
`read_committed` contains nothing of an open transaction, and names every aborted transaction with a record in
it; it may name others. If a log shows synced records only, a transaction is open until its marker is on the
disk. No record is read here: a few headers at most, and none if the offset is near the end of the log. Byte
format: none. Crash behaviour: nothing is written. Who may call: the partition log; any thread may read the
range.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.segments.batch_file import Place
from headrace.log.segments.segment_files import FileRange

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment import Segment
    from headrace.log.segments.segment_list import SegmentList


class ReadResult(NamedTuple):
    """A range of one segment, or None if there is nothing to read yet."""

    ranges: FileRange | None
    size: int
    high_water_mark: int
    start_offset: int


class CommittedRead(NamedTuple):
    """The result for a reader of committed records; `aborted` has (producer, first offset) pairs."""

    result: ReadResult
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]


def read(
    parts: LogParts, offset: int, max_bytes: int, at_least_one: bool, limit_offset: int | None
) -> ReadResult:
    """See `PartitionLog.read`."""
    segments = parts.segments
    segment = segments.active
    end = segment.end_offset
    start = segments.start_offset
    if offset > end or offset < start:
        raise OffsetOutOfRangeError(offset, start, end)
    flush = parts.flush
    high_water_mark = limit = flush.high_water_mark
    if limit_offset is not None and limit_offset < limit:
        limit = limit_offset
    if offset >= limit:
        return ReadResult(None, 0, high_water_mark, start)
    if offset >= segment.base_offset:
        place = segment.locate(offset)
    else:
        segment, place = _in_closed(segments, offset)
    if place is None:
        raise StorageError(f"{segments.name} does not contain offset {offset} where it should.")
    size = segment.size - place.position
    if limit < end:
        size = flush.position_of(limit, segment) - place.position
    if size > max_bytes:
        if place.size <= max_bytes:
            size = max_bytes
        elif at_least_one:
            size = min(size, place.size)
        else:
            size = 0
    if size <= 0:
        return ReadResult(None, 0, high_water_mark, start)
    return ReadResult(FileRange(segment.open_file(), place.position, size), size, high_water_mark, start)


def _in_closed(segments: SegmentList, offset: int) -> tuple[Segment, Place | None]:
    """The segment with the first batch that ends at or after an offset, and the place of the batch."""
    number = segments.number_of(offset)
    while True:
        segment = segments[number]
        place = segment.locate(offset)
        number += 1
        # Compaction may have removed the last batches of a segment; then the next one has it.
        if place is not None or number == len(segments):
            return segment, place


def last_stable_offset(parts: LogParts) -> int:
    """See `PartitionLog.last_stable_offset`."""
    end = parts.flush.high_water_mark
    first = parts.producers.first_unstable_offset(end)
    return end if first is None or first >= end else max(first, parts.segments.start_offset)


def read_committed(parts: LogParts, offset: int, max_bytes: int, at_least_one: bool) -> CommittedRead:
    """See `PartitionLog.read_committed`."""
    limit = last_stable_offset(parts)
    result = read(parts, offset, max_bytes, at_least_one, limit)
    if result.ranges is None or not parts.aborted.any:
        return CommittedRead(result, limit, ())
    number = parts.segments.number_of(offset)
    while parts.segments[number].file is not result.ranges.file:
        number += 1
    end = _offset_behind(parts.segments[number], result.ranges.position + result.size)
    aborted = parts.aborted.between(offset, min(end, limit))
    return CommittedRead(result, limit, tuple((each.producer_id, each.first_offset) for each in aborted))


def _offset_behind(segment: Segment, position: int) -> int:
    """An offset after the first `position` bytes of a segment, as far as the index knows."""
    if position >= segment.size:
        return segment.end_offset
    index = segment.offset_index()
    entry = bisect_left(index.positions, position)
    return segment.end_offset if entry == len(index) else segment.base_offset + index.offsets[entry]
