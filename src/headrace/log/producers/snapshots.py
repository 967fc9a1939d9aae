"""Snapshot files of the producer state, and restoring the state from them and from the batches after them.

Byte format of `<offset>.snapshot`: `producer_snapshot`, with the state after all batches before `offset`. One
is written at the beginning of each segment, one when the log is closed, and one from time to time in between,
so that a start after a crash has few batches to replay.

Owns the list of these files and the number of batches since the newest. Invariants: besides the newest, only
snapshots at the beginning of a segment are kept. Crash behaviour: a snapshot is a shortcut; if one is missing
or damaged, the one before it is used, or else the whole log is replayed. Who may call: the partition log and
its parts. Of the records, only markers of transactions are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file, remove_file, write_atomically
from headrace.log.producers.producer_snapshot import CorruptSnapshotError
from headrace.log.segments.batch_walk import Fields, header_of, walk
from headrace.wire.control_batches import read_end_marker
from headrace.wire.errors import WireError
from headrace.wire.record_batch import CONTROL, LOG_OVERHEAD

if TYPE_CHECKING:
    from headrace.log.producers.producer_state import Ended, ProducerState
    from headrace.log.segments.segment import Segment
    from headrace.log.segments.segment_list import SegmentList

_log = logging.getLogger(__name__)
# A snapshot costs about as much as appending this many batches, and saves replaying them.
_BATCHES_PER_SNAPSHOT: Final = 1000


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020d}.snapshot"


def replay_batch(producers: ProducerState, segment: Segment, position: int, fields: Fields) -> Ended | None:
    """Replay one batch of a producer. Return the transaction that it ends, if any. Raises StorageError."""
    header = header_of(fields)
    if not fields[5] & CONTROL:
        producers.appended(header, fields[0], fields[8])
        return None
    batch = segment.read(segment.open_file(), fields[1] + LOG_OVERHEAD, position)
    try:
        marker = read_end_marker(batch, header)
    except WireError as error:
        raise StorageError(f"{segment.log_path} is damaged at byte {position}: {error}") from error
    return None if marker is None else producers.ended(header, marker, fields[0], fields[8])


def replay_all(segments: SegmentList, producers: ProducerState, offset: int, end_offset: int) -> int:
    """Replay all batches from the one with `offset` to before `end_offset`. Return how many there were.

    Raises StorageError.
    """
    batches = 0
    for number in range(max(0, segments.number_of(offset)), len(segments)):
        segment = segments[number]
        if segment.base_offset >= end_offset:
            break
        place = segment.locate(max(offset, segment.base_offset)) if segment.size else None
        if place is None:
            continue
        for position, fields in walk(segment.open_file(), place.position, segment.size, verify=False):
            if fields[0] >= end_offset:
                return batches
            batches += 1
            if fields[9] >= 0:
                replay_batch(producers, segment, position, fields)
    return batches


class ProducerSnapshots:
    """The producer snapshots of one log."""

    __slots__ = ("_offsets", "_producers", "_segments", "_segments_joined", "batches_since")

    def __init__(self, segments: SegmentList, producers: ProducerState) -> None:
        self._segments: Final = segments
        self._producers: Final = producers
        # The offsets of the snapshots in the folder, in rising order.
        self._offsets: list[int] = []
        # Segments were joined, so that some snapshots are no longer needed.
        self._segments_joined = False
        self.batches_since = 0

    def found(self, offsets: Iterable[int]) -> None:
        """Set the offsets of the snapshots in the folder."""
        self._offsets = sorted(offsets)

    def count(self, batches: int) -> None:
        """Count batches that were appended, or that recovery found after the newest snapshot."""
        self.batches_since += batches

    def segments_joined(self) -> None:
        """Note that several segments became one."""
        self._segments_joined = True

    def write(self) -> None:
        """Write the current state, that at the end of the log. Raises OSError."""
        offset = self._segments.end_offset
        write_atomically(
            self._segments.filesystem, self._path(offset), self._producers.snapshot(), sync=False
        )
        if offset not in self._offsets:
            self._offsets.append(offset)
        self.batches_since = 0

    def write_if_due(self) -> None:
        """Write a snapshot if there were enough batches, and remove unneeded ones. Raises OSError."""
        due = self.batches_since >= _BATCHES_PER_SNAPSHOT
        if due:
            self.write()
        if due or self._segments_joined:
            self.prune()
            self._segments_joined = False

    def prune(self) -> None:
        """Remove all but the newest and those at the beginning of a segment. Raises OSError."""
        bases = set(self._segments.bases)
        for offset in self._offsets[:-1]:
            if offset not in bases:
                self._remove(offset)

    def remove_at(self, base_offset: int) -> None:
        """Remove the snapshot at the beginning of a removed segment, unless it is the newest.

        Raises OSError.
        """
        if base_offset in self._offsets[:-1]:
            self._remove(base_offset)

    def restore(self, end_offset: int) -> None:
        """Restore the state before `end_offset` from a snapshot and the batches after it.

        Snapshots after `end_offset` belong to batches that are gone, and are removed. So are those before the
        first segment: the batches in between are deleted, and perhaps with them the end of a transaction
        that the snapshot has open. No producer has expired yet: how long they are remembered is not known
        before the logs are open. Raises OSError, StorageError.
        """
        first = self._segments.bases[0]
        for offset in [offset for offset in self._offsets if not first <= offset <= end_offset]:
            self._remove(offset)
        self._producers.clear()
        offset = self._segments.start_offset
        for candidate in reversed(self._offsets):
            if self._load(candidate, self._producers):
                offset = candidate
                break
            self._remove(candidate)
        self.batches_since = 0
        if offset < end_offset:
            self.batches_since = replay_all(self._segments, self._producers, offset, end_offset)

    def load_before(self, offset: int, producers: ProducerState) -> int:
        """Load the newest snapshot at or before an offset into a state. Return its offset. Raises OSError."""
        for candidate in reversed(self._offsets):
            if self._segments.bases[0] <= candidate <= offset and self._load(candidate, producers):
                return candidate
        return self._segments.start_offset

    def _load(self, offset: int, producers: ProducerState) -> bool:
        """Load a snapshot. Return False if it is damaged. Raises OSError."""
        path = self._path(offset)
        try:
            producers.load(read_file(self._segments.filesystem, path))
        except CorruptSnapshotError as error:
            _log.warning("ignoring %s: %s", path, error)
            return False
        return True

    def _remove(self, offset: int) -> None:
        remove_file(self._segments.filesystem, self._path(offset))
        self._offsets.remove(offset)

    def _path(self, offset: int) -> str:
        return snapshot_path(self._segments.path, offset)
