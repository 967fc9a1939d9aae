"""From an offset to a range of a file: what a fetch reads.

Invariants: the range begins with the batch that holds the offset and lies in one segment; it may end in the
middle of a batch, as Kafka's do; nothing at or behind the high-water mark is in it. No record is read here:
a few headers at most, and none if the offset is near the end of the log. Byte format: none. Crash behaviour:
nothing is written. Who may call: the partition log; the range may be read in any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.segments.segment import Place, Segment
from headrace.log.segments.segment_files import FileRange

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog


class ReadResult(NamedTuple):
    """One range of one segment, or None if there is nothing to read yet."""

    ranges: FileRange | None
    size: int
    high_water_mark: int
    start_offset: int


def read(
    log: PartitionLog, offset: int, max_bytes: int, at_least_one: bool, limit_offset: int | None
) -> ReadResult:
    """See `PartitionLog.read`."""
    end = log.end_offset
    if offset > end or offset < log.start_offset:
        raise OffsetOutOfRangeError(offset, log.start_offset, end)
    high_water_mark = limit = log.flushed_offset if log.durable else end
    if limit_offset is not None and limit_offset < limit:
        limit = limit_offset
    if offset >= limit:
        return ReadResult(None, 0, high_water_mark, log.start_offset)
    segment = log.active
    if offset >= segment.base_offset:
        place = segment.locate(offset)
    else:
        segment, place = _in_closed(log, offset)
    if place is None:
        raise StorageError(f"{log.name} does not hold offset {offset} where it should be.")
    size = segment.size - place.position
    if limit < end:
        size = _position_of(log, limit, segment) - place.position
    if size > max_bytes:
        if place.size <= max_bytes:
            size = max_bytes
        elif at_least_one:
            size = min(size, place.size)
        else:
            size = 0
    if size <= 0:
        return ReadResult(None, 0, high_water_mark, log.start_offset)
    file = segment.file or segment.open_file()
    segment.used = True
    return ReadResult(FileRange(file, place.position, size), size, high_water_mark, log.start_offset)


def _in_closed(log: PartitionLog, offset: int) -> tuple[Segment, Place | None]:
    """The segment with the first batch that ends at or behind an offset, and where it is there."""
    number = bisect_right(log.bases, offset) - 1
    while True:
        segment = log.segments[number]
        place = segment.locate(offset)
        number += 1
        # Compaction may have taken the last batches of a segment: then the next one has it.
        if place is not None or number == len(log.segments):
            return segment, place


def _position_of(log: PartitionLog, limit: int, segment: Segment) -> int:
    """Up to where a segment may be read if offsets from `limit` on may not."""
    if segment is not log.active:
        following = bisect_right(log.bases, segment.base_offset)
        if log.bases[following] <= limit:
            return segment.size
    flushed = log.flushed_place
    if flushed is not None and flushed[0] == limit and flushed[1] is segment:
        return flushed[2]
    place = segment.locate(limit)
    return segment.size if place is None else place.position
