"""Taking back the end of a log: batches that were written but must not count.

The broker does this to records whose sync failed and that nobody was told of. Byte format: none of its own.
Crash behaviour: segments go from the last one on, then the file of the remaining one is cut, so a crash in
between leaves a shorter log that is whole. Before anything is cut, the points up to which the log would be
believed to be good (`checkpoints`) are taken back, as other batches may come to stand there. Who may call:
the partition log. Invariant: the log ends at the beginning of a batch, the first of those taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.partition import snapshots, transactions

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> None:
    """Take back the batches from the one with `offset` on. Raises OffsetOutOfRangeError, StorageError."""
    if offset < log.start_offset or offset < log.bases[0]:
        raise OffsetOutOfRangeError(offset, log.start_offset, log.end_offset)
    if offset >= log.end_offset:
        return
    # Flushes that are under way are for bytes that will not be there.
    log.generation += 1
    log.flushed_place = None
    try:
        log.owner.before_truncation(log, offset)
        _cut(log, offset)
        log.flushed_offset = min(log.flushed_offset, log.end_offset)
        if log.epochs.truncate_from_end(log.end_offset):
            log.epochs.assign(log.leader_epoch, log.end_offset)
            log.write_epochs()
        snapshots.restore(log, log.end_offset, None)
    except OSError as error:
        raise StorageError(f"{log.name} cannot be truncated: {error}.") from error
    finally:
        log.mark_dirty()


def _cut(log: PartitionLog, offset: int) -> None:
    while len(log.segments) > 1 and log.active.base_offset >= offset:
        segment = log.segments[-1]
        log.end_offset = segment.base_offset
        log.size_bytes -= segment.size
        segment.remove()
        del log.segments[-1], log.bases[-1]
        log.active = log.segments[-1]
        log.active.begin_appends()
    segment = log.active
    place = segment.locate(offset) if segment.size else None
    aborted = transactions.index_of(log, segment)
    end_offset, position = (
        (log.end_offset, segment.size) if place is None else (place.base_offset, place.position)
    )
    log.filesystem.truncate(segment.open_file().descriptor, position)
    log.size_bytes -= segment.size - position
    segment.cut(position, end_offset)
    aborted.truncate(end_offset)
    log.end_offset = max(end_offset, log.start_offset)
