"""Bringing what was appended to the disk itself: which files, from where on, and what is safe afterwards.

A ticket is made on the thread of the log (`PartitionLog.begin_flush`), its `sync` may run in any thread while
appends go on, and `PartitionLog.flushed` takes it back. It covers the data of all segments that were written
to since the last flush, the indexes and the producer snapshot of those that were closed, and the names of
new files.

Crash behaviour: what lies before the target of a ticket that was taken back survives a power loss. After a
failed sync the operating system may take the pages for clean although they never reached the disk, so the
next sync writes them again first. Byte format: none. Who may call: `PartitionLog`, and the broker's group
commit. Never moves the flushed offset itself.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from headrace.log.filesystem import write_fully
from headrace.log.partition import snapshots

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog
    from headrace.log.segments.segment import Segment
    from headrace.log.segments.segment_files import SegmentFile

_REWRITE_CHUNK: Final = 1 << 20


class FlushTicket:
    """What one sync has to do, and the offset before which everything is safe when it is done."""

    __slots__ = (
        "_directories",
        "_files",
        "_log",
        "_paths",
        "_rewrite",
        "generation",
        "position",
        "segment",
        "target_offset",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        files: list[tuple[SegmentFile, int, int]],
        paths: list[str],
        directories: list[str],
        target_offset: int,
        segment: Segment,
        position: int,
        rewrite: bool,
    ) -> None:
        """`files` with the positions between which they are dirty; `paths` of files of closed segments."""
        self._log = log
        self._files = files
        self._paths = paths
        self._directories = directories
        self._rewrite = rewrite
        self.target_offset = target_offset
        self.segment = segment
        self.position = position
        self.generation = log.generation

    def sync(self) -> None:
        """Bring it to the disk; in any thread. Raises OSError, and then nothing is known to be safe."""
        filesystem = self._log.filesystem
        try:
            for file, start, end in self._files:
                if self._rewrite:
                    _write_again(file, start, end)
                filesystem.fdatasync(file.descriptor)
            for path in self._paths:
                try:
                    descriptor = filesystem.open(path, write=True)
                except FileNotFoundError:
                    continue  # its segment was deleted meanwhile
                try:
                    filesystem.fdatasync(descriptor)
                finally:
                    filesystem.close(descriptor)
            for directory in self._directories:
                try:
                    filesystem.sync_directory(directory)
                except FileNotFoundError:
                    continue  # the topic was deleted meanwhile
        except OSError:
            self._log.sync_failed = True
            if self._directories:
                self._log.new_names = self._log.new_folder = True
            raise


def ticket_for(log: PartitionLog, *, closed_only: bool = False) -> FlushTicket | None:
    """A ticket for all that is not on the disk yet, or None. Raises StorageError.

    With `closed_only` it is for the segments that are not written to any more.
    """
    target = log.active.base_offset if closed_only else log.end_offset
    if log.closed or (log.flushed_offset >= target and not log.new_names):
        return None
    files = []
    paths = []
    first = max(0, bisect_right(log.bases, log.flushed_offset) - 1)
    for number in range(first, len(log.segments) - closed_only):
        segment = log.segments[number]
        if not segment.size:
            continue
        start = 0
        if log.sync_failed:
            place = segment.locate(max(log.flushed_offset, segment.base_offset))
            start = segment.size if place is None else place.position
        files.append((segment.open_file(), start, segment.size))
        if segment is not log.active:
            paths += [segment.path("index"), segment.path("timeindex")]
            if segment.transactions is None or len(segment.transactions):
                paths.append(segment.path("txnindex"))
            paths.append(snapshots.path(log, log.bases[number + 1]))
    ticket = FlushTicket(
        log,
        files=files,
        paths=paths,
        directories=[log.path] * log.new_names + [str(log.folder.parent)] * log.new_folder,
        target_offset=target,
        segment=log.active,
        position=0 if closed_only else log.active.size,
        rewrite=log.sync_failed,
    )
    log.new_names = log.new_folder = log.sync_failed = False
    return ticket


def _write_again(file: SegmentFile, start: int, end: int) -> None:
    """Make the pages dirty again, so that the next sync takes them to the disk."""
    position = start
    while position < end:
        content = file.pread(min(_REWRITE_CHUNK, end - position), position)
        if not content:
            return  # cut off meanwhile
        write_fully(file.filesystem, file.descriptor, content, position)
        position += len(content)
