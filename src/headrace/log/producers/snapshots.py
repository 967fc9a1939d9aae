"""The files with the producers' state: when they are written, which are kept, and how state comes back.

Byte format of `<offset>.snapshot`: `producer_snapshot`; it holds the state after all batches before `offset`.
One is written for the beginning of each segment, one when the log is closed, and one now and then in between,
so that a start after a crash has few batches to look at.

Owns the list of these files and the number of batches since the newest. Invariants: besides the newest, only
snapshots at the beginning of a segment are kept. Crash behaviour: a snapshot is a shortcut; one that is
missing or damaged costs time, as the one before it is taken, or else the whole log. Who may call: the
partition log and its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import read_file, remove_file, write_atomically
from headrace.log.producers.producer_snapshot import CorruptSnapshotError
from headrace.log.producers.replay import tell_all

if TYPE_CHECKING:
    from headrace.log.producers.producer_state import ProducerState
    from headrace.log.segments.segment_list import SegmentList

_log = logging.getLogger(__name__)
# A snapshot costs about as much as appending this many batches, and saves looking at them again.
_BATCHES_PER_SNAPSHOT: Final = 1000


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020d}.snapshot"


class ProducerSnapshots:
    """The snapshots of the producers of one log."""

    __slots__ = ("_offsets", "_producers", "_segments", "_segments_joined", "batches_since")

    def __init__(self, segments: SegmentList, producers: ProducerState) -> None:
        self._segments: Final = segments
        self._producers: Final = producers
        # What the snapshots in the folder are of, in rising order.
        self._offsets: list[int] = []
        # Segments became one: then there are snapshots that nobody needs.
        self._segments_joined = False
        self.batches_since = 0

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def found(self, offsets: Iterable[int]) -> None:
        """There are snapshots of these offsets in the folder."""
        self._offsets = sorted(offsets)

    def count_batch(self) -> None:
        """A batch was appended."""
        self.batches_since += 1

    def count_batches(self, batches: int) -> None:
        """Batches were found behind the newest snapshot."""
        self.batches_since += batches

    def segments_joined(self) -> None:
        """Several segments became one."""
        self._segments_joined = True

    def write(self) -> None:
        """Write the state as it is, which is that at the end of the log. Raises OSError."""
        offset = self._segments.end_offset
        write_atomically(
            self._segments.filesystem, self._path(offset), self._producers.snapshot(), sync=False
        )
        if offset not in self._offsets:
            self._offsets.append(offset)
        self.batches_since = 0

    def write_if_due(self) -> None:
        """Write one after so many batches, and remove what nobody needs. Raises OSError."""
        due = self.batches_since >= _BATCHES_PER_SNAPSHOT
        if due:
            self.write()
        if due or self._segments_joined:
            self.prune()
            self._segments_joined = False

    def prune(self) -> None:
        """Remove what is neither the newest nor at the beginning of a segment. Raises OSError."""
        bases = set(self._segments.bases)
        for offset in self._offsets[:-1]:
            if offset not in bases:
                self._remove(offset)

    def remove_at(self, base_offset: int) -> None:
        """A segment goes: remove the snapshot of its beginning, unless it is the newest. Raises OSError."""
        if base_offset in self._offsets[:-1]:
            self._remove(base_offset)

    def restore(self, end_offset: int, now_ms: int | None) -> None:
        """Make the producers' state that before `end_offset`: a snapshot, and the batches from there on.

        Snapshots from behind `end_offset` are of a log that is no more, and go. So do those from before the
        first segment: what was in between is deleted, and maybe with it the end of a transaction that they
        have open. Raises OSError, StorageError.
        """
        first = self._segments.bases[0]
        for offset in [offset for offset in self._offsets if not first <= offset <= end_offset]:
            self._remove(offset)
        self._producers.clear(end_offset)
        offset = self._segments.start_offset
        for candidate in reversed(self._offsets):
            if self._load(candidate, self._producers, now_ms):
                offset = candidate
                break
            self._remove(candidate)
        self.batches_since = 0
        if offset < end_offset:
            self.batches_since = tell_all(self._segments, self._producers, offset, end_offset)

    def load_before(self, offset: int, producers: ProducerState) -> int:
        """Give a state the newest snapshot at or before an offset; the offset it is of. Raises OSError."""
        for candidate in reversed(self._offsets):
            if self._segments.bases[0] <= candidate <= offset and self._load(candidate, producers, None):
                return candidate
        return self._segments.start_offset

    def _load(self, offset: int, producers: ProducerState, now_ms: int | None) -> bool:
        """Whether the snapshot was good. Raises OSError."""
        path = self._path(offset)
        try:
            producers.load(read_file(self._segments.filesystem, path), now_ms)
        except CorruptSnapshotError as error:
            _log.warning("%s is left out: %s", path, error)
            return False
        return True

    def _remove(self, offset: int) -> None:
        remove_file(self._segments.filesystem, self._path(offset))
        self._offsets.remove(offset)

    def _path(self, offset: int) -> str:
        return snapshot_path(self._segments.path, offset)
