"""What a log forgets: segments that are too old or too many, and records that someone deleted.

Rules as Kafka's: a segment goes if its newest record is older than `retention.ms` (by the time the file was
last written if no record has a timestamp), if the log without it still has at least `retention.bytes`, or if
it lies before the start offset; only from the beginning of the log on, and only with `cleanup.policy=delete`
for the first two. The last segment is never deleted: where it would have to go too, a new one is begun first.

Byte format of `log-start-offset`: a decimal number and a line feed; written only by DeleteRecords, as
otherwise the first segment's name says the same. Crash behaviour: the files of a segment are renamed to
`….deleted` and removed after `file.delete.delay.ms`, in which readers finish; a start removes what is left
of them. The start offset is written before any segment goes. Who may call: the partition log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.filesystem import remove_file, write_atomically
from headrace.log.partition import snapshots

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)
START_FILE: Final = "log-start-offset"


def apply(log: PartitionLog, now_ms: int) -> int:
    """Delete what the rules say; how many segments that was. Raises StorageError."""
    removed = _drop(log, _before_start(log), now_ms)
    if log.config.delete:
        removed += _drop(log, _too_many(log), now_ms)
        removed += _drop(log, _too_old(log, now_ms), now_ms)
    return removed


def delete_records_before(log: PartitionLog, offset: int) -> int:
    """Make `offset` the first one, for good. Raises OffsetOutOfRangeError, StorageError."""
    if offset > log.high_water_mark or offset < 0:
        raise OffsetOutOfRangeError(offset, log.start_offset, log.high_water_mark)
    if offset <= log.start_offset:
        return log.start_offset
    path = f"{log.path}/{START_FILE}"
    try:
        write_atomically(log.filesystem, path, b"%d\n" % offset, sync=log.durable)
        if log.durable:
            log.filesystem.sync_directory(log.path)
    except OSError as error:
        raise StorageError(f"the start offset of {log.name} cannot be written: {error}.") from error
    _move_start(log, offset)
    _drop(log, _before_start(log), None)
    return log.start_offset


def remove_deleted(log: PartitionLog, now_ms: int) -> None:
    """Remove the files whose time has come. Raises StorageError."""
    kept: list[tuple[int | None, list[str]]] = []
    failure: OSError | None = None
    for due, paths in log.deleted:
        if due is None or now_ms < due:
            kept.append((now_ms + log.config.file_delete_delay_ms if due is None else due, paths))
            continue
        try:
            for path in paths:
                remove_file(log.filesystem, path)
        except OSError as error:
            failure = error
            kept.append((due, paths))
    log.deleted = kept
    if failure is not None:
        raise StorageError(f"files of {log.name} cannot be removed: {failure}.") from failure


def _before_start(log: PartitionLog) -> int:
    count = 0
    while count + 1 < len(log.bases) and log.bases[count + 1] <= log.start_offset:
        count += 1
    return count


def _too_many(log: PartitionLog) -> int:
    most = log.config.retention_bytes
    if most < 0:
        return 0
    excess = log.size_bytes - most
    count = 0
    for segment in log.segments:
        excess -= segment.size
        if excess < 0 or not _may_go(log, count):
            break
        count += 1
    return count


def _too_old(log: PartitionLog, now_ms: int) -> int:
    longest = log.config.retention_ms
    if longest < 0:
        return 0
    count = 0
    for segment in log.segments:
        if not _may_go(log, count):
            break
        newest = segment.newest_timestamp()
        if newest < 0:
            try:
                newest = log.filesystem.modified_ms(segment.log_path)
            except OSError as error:
                raise StorageError(f"{segment.log_path} cannot be looked at: {error}.") from error
        if now_ms - newest <= longest:
            break
        count += 1
    return count


def _may_go(log: PartitionLog, number: int) -> bool:
    """Whether readers have seen all of a segment, and it is not just the empty one to be written to."""
    last = number + 1 == len(log.bases)
    end = log.end_offset if last else log.bases[number + 1]
    return end <= log.high_water_mark and not (last and not log.segments[number].size)


def _drop(log: PartitionLog, count: int, now_ms: int | None) -> int:
    """Take the first segments out of the log."""
    if not count:
        return 0
    if count == len(log.segments):
        log.roll(now_ms=now_ms or 0)
    due = None if now_ms is None else now_ms + log.config.file_delete_delay_ms
    try:
        for _ in range(count):
            segment = log.segments[0]
            _move_start(log, log.bases[1])
            log.deleted.append((due, segment.mark_deleted()))
            del log.segments[0], log.bases[0]
            log.size_bytes -= segment.size
            if segment.base_offset in log.snapshots[:-1]:
                snapshots.remove(log, segment.base_offset)
    except OSError as error:
        raise StorageError(f"segments of {log.name} cannot be deleted: {error}.") from error
    _log.info("deleted %d segments of %s, which begins at offset %d", count, log.name, log.start_offset)
    return count


def _move_start(log: PartitionLog, offset: int) -> None:
    """The start never goes back."""
    if offset > log.start_offset:
        log.start_offset = offset
        log.flushed_offset = max(log.flushed_offset, offset)
        if log.epochs.truncate_from_start(offset):
            try:
                log.write_epochs()
            except OSError as error:
                raise StorageError(f"the epochs of {log.name} cannot be written: {error}.") from error
    log.mark_dirty()
