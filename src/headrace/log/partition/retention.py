"""Removes segments that are too old or exceed the size limit, and records that were deleted.

The rules are Kafka's: a segment is removed if its newest record is older than `retention.ms` (without
timestamps, the time of the last write to the file counts), if the log without it still has at least
`retention.bytes`, or if it lies before the start offset. Segments go from the beginning of the log on, and
the first two rules need `cleanup.policy=delete`. The last segment is never removed: if it would have to go, a
new one begins first.

Byte format of `log-start-offset`: a decimal number and a line feed; written only by DeleteRecords, as
otherwise the first segment's name says the same. Crash behaviour: the files of a segment are renamed to
`….deleted` (`deleted_files`). The start offset is written before any segment goes. Who may call: the
partition log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.filesystem import FileSystem, read_file, write_atomically
from headrace.log.partition.appending import roll
from headrace.log.partition.leader_epochs import EPOCHS_FILE

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts

_log = logging.getLogger(__name__)
START_FILE: Final = "log-start-offset"


def read_start(filesystem: FileSystem, folder: str) -> int:
    """Read the start offset that DeleteRecords wrote. Raises OSError."""
    path = f"{folder}/{START_FILE}"
    content = read_file(filesystem, path).strip()
    if content.isdigit():
        return int(content)
    # A power loss took the content, which is synced only with fsync always.
    _log.warning("ignoring the damaged file %s", path)
    return 0


def apply(parts: LogParts, now_ms: int) -> int:
    """Remove segments by the rules. Return how many. Raises StorageError."""
    removed = _drop(parts, _before_start(parts), now_ms)
    if parts.segments.config.delete:
        removed += _drop(parts, _too_many(parts), now_ms)
        removed += _drop(parts, _too_old(parts, now_ms), now_ms)
    return removed


def delete_records_before(parts: LogParts, offset: int) -> None:
    """Make `offset` the durable start of the log. Raises OffsetOutOfRangeError, StorageError."""
    segments = parts.segments
    high_water_mark = parts.flush.high_water_mark
    if offset > high_water_mark or offset < 0:
        raise OffsetOutOfRangeError(offset, segments.start_offset, high_water_mark)
    if offset <= segments.start_offset:
        return
    durable = parts.flush.durable
    try:
        write_atomically(segments.filesystem, f"{segments.path}/{START_FILE}", b"%d\n" % offset, sync=durable)
        if durable:
            segments.filesystem.sync_directory(segments.path)
    except OSError as error:
        raise StorageError(f"the start offset of {segments.name} cannot be written: {error}.") from error
    parts.flush.wrote(f"{segments.path}/{START_FILE}")
    _move_start(parts, offset)
    _drop(parts, _before_start(parts), None)


def _before_start(parts: LogParts) -> int:
    return parts.segments.number_of(parts.segments.start_offset)


def _too_many(parts: LogParts) -> int:
    most = parts.segments.config.retention_bytes
    if most < 0:
        return 0
    excess = parts.segments.size_bytes - most
    count = 0
    for segment in parts.segments:
        excess -= segment.size
        if excess < 0 or not _may_go(parts, count):
            break
        count += 1
    return count


def _too_old(parts: LogParts, now_ms: int) -> int:
    longest = parts.segments.config.retention_ms
    if longest < 0:
        return 0
    count = 0
    for segment in parts.segments:
        if not _may_go(parts, count):
            break
        newest = segment.newest_timestamp()
        if newest < 0:
            try:
                newest = segment.filesystem.modified_ms(segment.log_path)
            except OSError as error:
                raise StorageError(f"the age of {segment.log_path} cannot be read: {error}.") from error
        if now_ms - newest <= longest:
            break
        count += 1
    return count


def _may_go(parts: LogParts, number: int) -> bool:
    """Whether a segment lies before the high-water mark and is not an empty last one."""
    segment = parts.segments[number]
    empty = segment is parts.segments.active and not segment.size
    return segment.end_offset <= parts.flush.high_water_mark and not empty


def _drop(parts: LogParts, count: int, now_ms: int | None) -> int:
    """Remove the first segments of the log."""
    if not count:
        return 0
    segments = parts.segments
    if count == len(segments):
        roll(parts, now_ms or 0)
    try:
        for _ in range(count):
            segment = segments[0]
            _move_start(parts, segment.end_offset)
            parts.deleted.add(segment.mark_deleted(), now_ms)
            segments.drop_first()
            parts.snapshots.remove_at(segment.base_offset)
    except OSError as error:
        raise StorageError(f"segments of {segments.name} cannot be deleted: {error}.") from error
    _log.info(
        "deleted %d segments of %s, which begins at offset %d", count, segments.name, segments.start_offset
    )
    return count


def _move_start(parts: LogParts, offset: int) -> None:
    if parts.segments.move_start(offset):
        parts.flush.start_moved(offset)
        try:
            parts.epochs.start_moved(offset)
            parts.flush.wrote(f"{parts.segments.path}/{EPOCHS_FILE}")
        except OSError as error:
            raise StorageError(f"the epochs of {parts.segments.name} cannot be written: {error}.") from error
    parts.status.changed()
