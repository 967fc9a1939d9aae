"""The files with the producers' state: when they are written, which are kept, and how state comes back.

Byte format of `<offset>.snapshot`: `producer_snapshot`; it holds the state after all batches before `offset`.
One is written for the beginning of each segment, one when the log is closed, and one now and then in between,
so that a start after a crash has few batches to look at.

Invariants: besides the newest, only snapshots at the beginning of a segment are kept. Crash behaviour: a
snapshot is a shortcut; one that is missing or damaged costs time, as the one before it is taken, or else the
whole log. Who may call: the partition log and recovery.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import read_file, remove_file, write_atomically
from headrace.log.partition.replay import tell_all
from headrace.log.producers.producer_snapshot import CorruptSnapshotError

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog
    from headrace.log.producers.producer_state import ProducerState

_log = logging.getLogger(__name__)
SUFFIX: Final = ".snapshot"


def path(log: PartitionLog, offset: int) -> str:
    return f"{log.path}/{offset:020d}{SUFFIX}"


def write(log: PartitionLog, offset: int) -> None:
    """Write the state as it is, which is that before `offset`. Raises OSError."""
    write_atomically(log.filesystem, path(log, offset), log.producers.snapshot(), sync=False)
    if offset not in log.snapshots:
        log.snapshots.append(offset)
    log.batches_since_snapshot = 0


def prune(log: PartitionLog) -> None:
    """Remove what is neither the newest nor at the beginning of a segment. Raises OSError."""
    bases = set(log.bases)
    for offset in log.snapshots[:-1]:
        if offset not in bases:
            remove(log, offset)


def remove(log: PartitionLog, offset: int) -> None:
    """Raises OSError."""
    remove_file(log.filesystem, path(log, offset))
    log.snapshots.remove(offset)


def restore(log: PartitionLog, end_offset: int, now_ms: int | None) -> None:
    """Make the producers' state that before `end_offset`: a snapshot, and the batches from there on.

    Snapshots from behind `end_offset` are of a log that is no more, and go. So do those from before the first
    segment: what was in between is deleted, and maybe with it the end of a transaction that they have open.
    Raises OSError, StorageError.
    """
    for offset in [offset for offset in log.snapshots if not log.bases[0] <= offset <= end_offset]:
        remove(log, offset)
    log.producers.clear(end_offset)
    offset = log.start_offset
    for candidate in reversed(log.snapshots):
        try:
            log.producers.load(read_file(log.filesystem, path(log, candidate)), now_ms)
        except CorruptSnapshotError as error:
            _log.warning("%s is left out: %s", path(log, candidate), error)
            remove(log, candidate)
            continue
        offset = candidate
        break
    log.batches_since_snapshot = 0
    if offset < end_offset:
        log.batches_since_snapshot = tell_all(log, log.producers, offset, end_offset)


def load_before(log: PartitionLog, offset: int, producers: ProducerState) -> int:
    """Give a state the newest snapshot at or before an offset; the offset it is of. Raises OSError."""
    for candidate in reversed(log.snapshots):
        if log.bases[0] <= candidate <= offset:
            try:
                producers.load(read_file(log.filesystem, path(log, candidate)))
            except CorruptSnapshotError as error:
                _log.warning("%s is left out: %s", path(log, candidate), error)
                continue
            return candidate
    return log.start_offset
