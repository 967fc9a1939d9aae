"""Finds offsets by time: the first record at or after a time, and the record with the newest timestamp.

Byte format: none of its own. Crash behaviour: nothing is written. Who may call: the partition log.
Invariants: the answer is never a record before `start_offset`, or at or after the high-water mark. An entry
of a time index is compared with its batch before it is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.segments.batch_walk import Fields, header_of, walk
from headrace.log.segments.segment import Segment
from headrace.log.segments.segment_indexes import NO_TIMESTAMP, is_right
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import LOG_APPEND_TIME, LOG_OVERHEAD
from headrace.wire.records import read_records

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts

Found = tuple[int, int, int]


def first_at_or_after(parts: LogParts, timestamp: int) -> Found | None:
    """See `PartitionLog.offset_for_timestamp`."""
    for segment in parts.segments:
        if segment.size and segment.newest_timestamp() >= timestamp:
            found = _search(segment, timestamp, parts.segments.start_offset)
            if found is not None:
                return found if found[1] < parts.flush.high_water_mark else None
    return None


def newest(parts: LogParts) -> Found | None:
    """See `PartitionLog.offset_of_max_timestamp`."""
    start, limit = parts.segments.start_offset, parts.flush.high_water_mark
    best: Found | None = None
    for segment in parts.segments:
        if not segment.size or (best is not None and segment.newest_timestamp() <= best[0]):
            continue
        if segment.base_offset >= start and segment.end_offset <= limit:
            timestamp = segment.newest_timestamp()
        else:
            timestamp = _newest_between(segment, start, limit)
        if timestamp > (NO_TIMESTAMP if best is None else best[0]):
            best = _search(segment, timestamp, start) or best
    return best


def _newest_between(segment: Segment, start: int, limit: int) -> int:
    """The newest timestamp in a segment, of records from `start` to before `limit`."""
    place = segment.locate(max(start, segment.base_offset))
    if place is None:
        return NO_TIMESTAMP
    newest_so_far = NO_TIMESTAMP
    for position, fields in walk(segment.open_file(), place.position, segment.size, verify=False):
        if fields[0] + fields[6] >= limit:
            break
        if fields[0] >= start:
            newest_so_far = max(newest_so_far, fields[8])
        elif fields[8] > newest_so_far:
            # DeleteRecords cut the batch in the middle: only the records themselves can tell.
            records = _records(segment, position, fields)
            newest_so_far = max([newest_so_far, *(time for time, offset in records if offset >= start)])
    return newest_so_far


def _search(segment: Segment, timestamp: int, start: int) -> Found | None:
    position = _position_before(segment, timestamp, start)
    for at, fields in walk(segment.open_file(), position, segment.size, verify=False):
        if fields[8] < timestamp or fields[0] + fields[6] < start:
            continue
        for record_timestamp, offset in _records(segment, at, fields):
            if record_timestamp >= timestamp and offset >= start:
                return record_timestamp, offset, fields[2]
    return None


def _position_before(segment: Segment, timestamp: int, start: int) -> int:
    """A position at or before the first record at or after a time."""
    for _ in range(2):
        times = segment.time_index()
        entry = times.floor(timestamp)
        if entry < 0:
            place = segment.locate(max(start, segment.base_offset))
            return 0 if place is None else place.position
        if is_right(segment, segment.offset_index(), times, entry):
            place = segment.locate(segment.base_offset + times.offsets[entry])
            if place is not None:
                return place.position
        segment.build_indexes()
    raise StorageError(f"the time index of {segment.log_path} does not match it")


def _records(segment: Segment, position: int, fields: Fields) -> list[tuple[int, int]]:
    """Timestamp and offset of each record of a batch."""
    header = header_of(fields)
    arrival = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    if arrival is not None and header.record_count == header.last_offset_delta + 1:
        return [(arrival, header.base_offset + delta) for delta in range(header.last_offset_delta + 1)]
    batch = segment.read(segment.open_file(), fields[1] + LOG_OVERHEAD, position)
    try:
        return [
            (
                header.base_timestamp + record.timestamp_delta if arrival is None else arrival,
                header.base_offset + record.offset_delta,
            )
            for record in read_records(batch, header)
        ]
    except CorruptBatchError as error:
        raise StorageError(f"{segment.log_path} is damaged at byte {position}: {error}") from error
