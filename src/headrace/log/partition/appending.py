"""The parts of appending that are seldom needed: the first append, a full segment, a write that fails.

Byte format: none of its own. Crash behaviour: that of `PartitionLog.append`. Invariants: what fails here
leaves the log as it was; if bytes of a failed append cannot be cut off, `log.torn` says so, and every append
tries again before it counts. Who may call: the partition log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from headrace.log.errors import BatchTooLargeError, StorageError
from headrace.log.filesystem import write_fully
from headrace.log.partition import rolling

if TYPE_CHECKING:
    from headrace.log.partition.append_rules import MutableBuffer
    from headrace.log.partition.partition_log import PartitionLog
    from headrace.log.segments.segment_files import SegmentFile


def activate(log: PartitionLog) -> SegmentFile:
    """Make the last segment ready to be written to: opened when something is first appended."""
    if log.closed:
        raise StorageError(f"{log.name} is closed.")
    if log.make_folder is not None:
        try:
            log.make_folder()
            log.write_epochs()
        except OSError as error:
            raise StorageError(f"The folder of {log.name} cannot be made: {error}.") from error
        log.make_folder = None
        log.new_folder = log.new_names = True
    segment = log.active
    file = segment.open_file()
    segment.newest_timestamp()
    segment.offset_index()
    segment.time_index()
    if segment.first_timestamp is None and segment.size:
        first = segment.first_header()
        rolling.first_batch(segment, log.config, first.max_timestamp, segment.created_ms)
    segment.appendable = True
    return file


def make_room(log: PartitionLog, size: int, now_ms: int) -> SegmentFile:
    """Begin a new segment for a batch that the last one has no room or time for."""
    if size > log.config.segment_bytes:
        raise BatchTooLargeError(
            f"Message batch size is {size} bytes in append to partition {log.name}, which exceeds "
            f"the maximum configured segment size of {log.config.segment_bytes}."
        )
    log.roll(now_ms=now_ms)
    return log.active.file or activate(log)


def write_rest(
    log: PartitionLog, file: SegmentFile, records: MutableBuffer, position: int, written: int
) -> None:
    """Finish a write of which the system took only a part. Raises OSError."""
    if log.torn:
        # What an earlier append left behind may be longer than this one.
        log.filesystem.truncate(file.descriptor, position + written)
        log.torn = False
    if written != len(records):
        write_fully(log.filesystem, file.descriptor, memoryview(records)[written:], position + written)


def take_back(log: PartitionLog, file: SegmentFile, position: int, error: OSError) -> NoReturn:
    """Cut off what a failed append has written."""
    try:
        log.filesystem.truncate(file.descriptor, position)
        log.torn = False
    except OSError:
        log.torn = True
    raise StorageError(f"The records cannot be written to {log.name}: {error}.") from error
