"""Which part of a log is on the disk, and how the rest gets there.

The log's thread creates a ticket (`PartitionLog.begin_flush`), any thread may `sync` it while appends
continue, and the log's thread hands it to `PartitionLog.flushed`. A ticket covers the data of all segments
that were written since the last flush, the indexes and producer snapshots of closed ones, and the names of
new files.

Owns the flushed offset and the record of what still has to be synced. Invariants: `flushed_offset` moves only
with a synced ticket or the start of the log.
Crash behaviour: everything before the target of a synced ticket survives a power loss. After a failed sync
the operating system may consider pages clean that never reached the disk, so the next sync writes them again
first. Byte format: none. Who may call: the partition log and its parts; the broker's group commit syncs
tickets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import write_fully
from headrace.log.producers.snapshots import snapshot_path

if TYPE_CHECKING:
    from headrace.log.partition.reservation import Reservation
    from headrace.log.segments.segment import Segment
    from headrace.log.segments.segment_files import SegmentFile
    from headrace.log.segments.segment_list import SegmentList

_REWRITE_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlushTicket:
    """The work of one sync, and the offset before which everything is safe afterwards."""

    state: FlushState
    files: list[tuple[SegmentFile, int, int]]
    """With the dirty range of each."""
    paths: list[str]
    """Of the other files of closed segments."""
    directories: list[str]
    target_offset: int
    segment: Segment
    position: int
    rewrite: bool

    def sync(self) -> None:
        """Sync everything; in any thread. If it raises OSError, nothing is known to be safe."""
        filesystem = self.segment.filesystem
        try:
            for file, start, end in self.files:
                if self.rewrite:
                    _write_again(file, start, end)
                filesystem.fdatasync(file.descriptor)
            for path in self.paths:
                try:
                    descriptor = filesystem.open(path, write=True)
                except FileNotFoundError:
                    continue  # its segment has been deleted
                try:
                    filesystem.fdatasync(descriptor)
                finally:
                    filesystem.close(descriptor)
            for directory in self.directories:
                try:
                    filesystem.sync_directory(directory)
                except FileNotFoundError:
                    continue  # the topic has been deleted
        except OSError:
            self.state.sync_failed(names_too=bool(self.directories))
            raise


class FlushState:
    """How far one log is on the disk. With `durable` (fsync always) readers see only that part.

    Otherwise they see everything but batches that are held (`reservation`).
    """

    __slots__ = (
        "_flushed_place",
        "_new_folder",
        "_new_names",
        "_reservation",
        "_segments",
        "_sync_failed",
        "closed_segments_wait",
        "durable",
        "flushed_offset",
    )

    def __init__(self, segments: SegmentList, reservation: Reservation, *, durable: bool) -> None:
        self._segments: Final = segments
        self._reservation: Final = reservation
        self.durable: Final = durable
        self.flushed_offset = 0
        self.closed_segments_wait = False
        # The last target, its segment, and its position there.
        self._flushed_place: tuple[int, Segment, int] | None = None
        self._sync_failed = False
        # Unsynced names that a power loss could undo: of files in the folder, and of the folder itself.
        self._new_names = False
        self._new_folder = False

    @property
    def high_water_mark(self) -> int:
        """The offset up to which the log may be read."""
        if self.durable:
            return self.flushed_offset
        end, held = self._segments.active.end_offset, self._reservation.held_at
        return end if end < held else held

    def opened_at(self, flushed_offset: int, *, names_flushed: bool) -> None:
        """Set how far a newly opened log is on the disk, and whether its file names are."""
        self.flushed_offset = flushed_offset
        if not names_flushed:
            self.folder_made()

    def folder_made(self) -> None:
        """Let the next flush sync the name of the folder and the names in it."""
        self._new_names = self._new_folder = True

    def names_changed(self) -> None:
        """Let the next flush sync the names in the folder."""
        self._new_names = True

    def segment_closed(self) -> None:
        """A new segment has begun, and the one before it has to be synced."""
        self._new_names = self.closed_segments_wait = True

    def want_closed_segments(self) -> None:
        """Ask for closed segments to be synced."""
        self.closed_segments_wait = True

    def start_moved(self, offset: int) -> None:
        """Nothing before this offset has to be flushed any more."""
        self.flushed_offset = max(self.flushed_offset, offset)

    def sync_failed(self, *, names_too: bool) -> None:
        """Let the next flush write the data again, and sync the names again; called from any thread."""
        self._sync_failed = True
        if names_too:
            self.folder_made()

    def ticket(self, *, closed_only: bool) -> FlushTicket | None:
        """A ticket for everything that is not on the disk yet; None if there is nothing. Raises StorageError.

        With `closed_only` it covers closed segments only.
        """
        segments = self._segments
        active = segments.active
        target = active.base_offset if closed_only else active.end_offset
        if self.flushed_offset >= target and not self._new_names:
            return None
        files = []
        paths = []
        for number in range(max(0, segments.number_of(self.flushed_offset)), len(segments) - closed_only):
            segment = segments[number]
            if not segment.size:
                continue
            start = 0
            if self._sync_failed:
                place = segment.locate(max(self.flushed_offset, segment.base_offset))
                start = segment.size if place is None else place.position
            files.append((segment.open_file(), start, segment.size))
            if segment is not active:
                paths += [segment.path("index"), segment.path("timeindex")]
                if segment.transactions is None or len(segment.transactions):
                    paths.append(segment.path("txnindex"))
                paths.append(snapshot_path(segments.path, segment.end_offset))
        parent = segments.path.rpartition("/")[0]
        ticket = FlushTicket(
            state=self,
            files=files,
            paths=paths,
            directories=[segments.path] * self._new_names + [parent] * self._new_folder,
            target_offset=target,
            segment=active,
            position=0 if closed_only else active.size,
            rewrite=self._sync_failed,
        )
        self._new_names = self._new_folder = self._sync_failed = False
        return ticket

    def flushed(self, ticket: FlushTicket) -> bool:
        """Take over a synced ticket. Return whether it changed anything."""
        if ticket.target_offset < self.flushed_offset:
            return False
        self.flushed_offset = ticket.target_offset
        self._flushed_place = (ticket.target_offset, ticket.segment, ticket.position)
        if ticket.segment is self._segments.active:
            self.closed_segments_wait = False
        return True

    def position_of(self, offset: int, segment: Segment) -> int:
        """The position in a segment up to which it may be read if readers must stop at an offset.

        Raises StorageError.
        """
        if segment.end_offset <= offset and segment is not self._segments.active:
            return segment.size
        flushed = self._flushed_place
        if flushed is not None and flushed[0] == offset and flushed[1] is segment:
            return flushed[2]
        place = segment.locate(offset)
        return segment.size if place is None else place.position


def _write_again(file: SegmentFile, start: int, end: int) -> None:
    """Make the pages dirty again, so that the next sync writes them."""
    position = start
    while position < end:
        content = file.pread(min(_REWRITE_CHUNK, end - position), position)
        if not content:
            return  # the file has been cut
        write_fully(file.filesystem, file.descriptor, content, position)
        position += len(content)
