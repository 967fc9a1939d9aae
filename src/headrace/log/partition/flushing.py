"""Which part of a log is on the disk, and how the rest gets there.

The log's thread creates a ticket (`PartitionLog.begin_flush`), any thread may `sync` it while appends
continue, and the log's thread hands it to `PartitionLog.flushed`. A ticket covers the data of all segments
that were written since the last flush, the indexes and producer snapshots of closed ones, and the names of
new files; at a clean stop also the small files beside the segments.

Owns the flushed offset and the record of what still has to be synced. Invariants: `flushed_offset` moves only
with a synced ticket or the start of the log.
Crash behaviour: everything before the target of a synced ticket survives a power loss. After a failed sync
the operating system may consider pages clean that never reached the disk. It says so once for each
descriptor, whoever asks. So a failure counts for all tickets of the log that are under way, and until the
flushed offset has passed everything that was written by then, each new ticket writes it again first. Byte
format: none. Who may call: the partition log and its parts; the broker's group commit syncs tickets.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import write_fully
from headrace.log.partition.reservation import UNLIMITED
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
    failures: int
    names: int

    def sync(self) -> None:
        """Sync everything; in any thread. If it raises OSError, nothing is known to be safe."""
        filesystem = self.segment.filesystem
        for file, start, end in self.files:
            # Whoever syncs the file next has to learn of a failure first.
            with file.syncing:
                self._sync_file(file, start, end)
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

    def _sync_file(self, file: SegmentFile, start: int, end: int) -> None:
        try:
            if self.rewrite:
                _write_again(file, start, end)
            file.filesystem.fdatasync(file.descriptor)
        except OSError:
            self.state.sync_failed()
            raise
        if self.state.failures != self.failures:
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} in another sync", file.path)


class FlushState:
    """How far one log is on the disk. With `durable` (fsync always) readers see only that part.

    So they do if every record is synced (flush.messages=1), as in Kafka, which syncs within the append.
    Otherwise they see everything but batches that are held (`reservation`).
    """

    __slots__ = (
        "_flushed_place",
        "_folder_synced",
        "_names",
        "_names_synced",
        "_reservation",
        "_segments",
        "_shown",
        "_small_files",
        "_suspect_offset",
        "closed_segments_wait",
        "durable",
        "failures",
        "flushed_offset",
    )

    def __init__(self, segments: SegmentList, reservation: Reservation, *, durable: bool) -> None:
        self._segments: Final = segments
        self._reservation: Final = reservation
        self.durable: Final = durable
        self.flushed_offset = 0
        # What readers may see although it may not be synced: everything, or what they could see when the log
        # began to show synced records only.
        self._shown = 0 if segments.config.flush_messages == 1 else UNLIMITED
        self.closed_segments_wait = False
        # The last target, its segment, and its position there.
        self._flushed_place: tuple[int, Segment, int] | None = None
        self.failures = 0
        """How many syncs have failed."""
        # The end of what a failed sync may have lost, unless it was flushed since.
        self._suspect_offset = 0
        # Counts changes of names in the folder: a power loss could undo those that are not synced. The name
        # of the folder itself is synced with them the first time.
        self._names = 0
        self._names_synced = 0
        self._folder_synced = True
        # Those that were written since a clean stop; until then nobody needs them after a power loss.
        self._small_files: set[str] = set()

    @property
    def high_water_mark(self) -> int:
        """The offset up to which the log may be read."""
        if self.durable:
            return self.flushed_offset
        end, held = self._segments.active.end_offset, self._reservation.held_at
        unheld = end if end < held else held
        return unheld if unheld <= self._shown else max(self._shown, self.flushed_offset)

    @property
    def shows_synced_only(self) -> bool:
        """Whether new records are shown to readers when they are synced."""
        return self.durable or self._shown != UNLIMITED

    def show_synced_only(self, wanted: bool) -> None:
        """Show new records when they are synced, or at once. What was shown before stays visible."""
        if not wanted:
            self._shown = UNLIMITED
        elif self._shown == UNLIMITED:
            self._shown = self.high_water_mark

    def opened_at(self, flushed_offset: int, *, names_flushed: bool) -> None:
        """Set how far a newly opened log is on the disk, and whether its file names are."""
        self.flushed_offset = flushed_offset
        if not names_flushed:
            self.folder_made()

    def folder_made(self) -> None:
        """Let the next flush sync the name of the folder and the names in it."""
        self._names += 1
        self._folder_synced = False

    def names_changed(self) -> None:
        """Let the next flush sync the names in the folder."""
        self._names += 1

    def wrote(self, *paths: str) -> None:
        """Let a clean stop sync these files, if they exist, and their names."""
        self._small_files.update(paths)
        self._names += 1

    def segment_closed(self) -> None:
        """A new segment has begun, and the one before it has to be synced."""
        self._names += 1
        self.closed_segments_wait = True

    def want_closed_segments(self) -> None:
        """Ask for closed segments to be synced."""
        self.closed_segments_wait = True

    def start_moved(self, offset: int) -> None:
        """Nothing before this offset has to be flushed any more."""
        self.flushed_offset = max(self.flushed_offset, offset)

    def sync_failed(self) -> None:
        """Let no ticket count that is under way, and the next ones write again; called from any thread."""
        self._suspect_offset = max(self._suspect_offset, self._segments.active.end_offset)
        # Last: a ticket with the new number knows the offset.
        self.failures += 1

    def ticket(self, *, closed_only: bool = False, small_files: bool = False) -> FlushTicket | None:
        """A ticket for everything that is not on the disk yet; None if there is nothing. Raises StorageError.

        With `closed_only` it covers closed segments only; with `small_files` also those.
        """
        segments = self._segments
        active = segments.active
        target = active.base_offset if closed_only else active.end_offset
        new_names = self._names != self._names_synced
        paths = sorted(self._small_files) if small_files else []
        if self.flushed_offset >= target and not (new_names or paths):
            return None
        failures = self.failures
        rewrite = self.flushed_offset < self._suspect_offset
        files = []
        for number in range(max(0, segments.number_of(self.flushed_offset)), len(segments) - closed_only):
            segment = segments[number]
            if not segment.size:
                continue
            start = 0
            if rewrite:
                place = segment.locate(max(self.flushed_offset, segment.base_offset))
                start = segment.size if place is None else place.position
            files.append((segment.open_file(), start, segment.size))
            if segment is not active:
                paths += [segment.path("index"), segment.path("timeindex")]
                if segment.transactions is None or len(segment.transactions):
                    paths.append(segment.path("txnindex"))
                paths.append(snapshot_path(segments.path, segment.end_offset))
        parent = segments.path.rpartition("/")[0]
        return FlushTicket(
            state=self,
            files=files,
            paths=paths,
            directories=[segments.path] * new_names + [parent] * (not self._folder_synced),
            target_offset=target,
            segment=active,
            position=0 if closed_only else active.size,
            rewrite=rewrite,
            failures=failures,
            names=self._names,
        )

    def flushed(self, ticket: FlushTicket) -> bool:
        """Take over a synced ticket. Return whether it changed anything."""
        if ticket.failures != self.failures:
            return False
        if ticket.directories:
            self._names_synced = ticket.names
            self._folder_synced = self._folder_synced or len(ticket.directories) > 1
        self._small_files.difference_update(ticket.paths)
        if ticket.target_offset < self.flushed_offset:
            return False
        self.flushed_offset = ticket.target_offset
        self._reservation.synced(ticket.target_offset)
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
