"""Writes a cleaned segment beside the log: `<base offset>.log.cleaned` and its indexes.

Byte formats: those of a segment (`segment`, `offset_index`, `time_index`, `transaction_index`). The indexes
get the same entries as if the batches had been appended. Nothing is written until something differs from the
segment being read, so that a segment that loses nothing costs no writing; the unchanged beginning is copied
then.

Invariants: after `finish` all files are synced and have the age of the original segment; after `abandon`
there are none. Crash behaviour: opening the log removes files with these names. Who may call: a round of
cleaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headrace.log.filesystem import FileSystem, remove_file, write_fully
from headrace.log.segments.offset_index import OffsetIndex
from headrace.log.segments.segment import KINDS
from headrace.log.segments.swap_files import CLEANED
from headrace.log.segments.time_index import TimeIndex
from headrace.log.segments.transaction_index import AbortedTransaction, TransactionIndex

_WRITE: Final = 1 << 20
# Sync in between, so that the final sync does not make others wait.
_SYNC_EVERY: Final = 32 << 20
_NO_TIMESTAMP: Final = -1


def remove_cleaned(filesystem: FileSystem, folder: str) -> None:
    """Remove the files that an earlier round left. Raises OSError."""
    try:
        names = filesystem.files(folder)
    except FileNotFoundError:
        return  # the topic is gone
    for name in names:
        if name.endswith(CLEANED):
            remove_file(filesystem, f"{folder}/{name}")


class SegmentWriter:
    """The files of a segment that is being written."""

    def __init__(
        self,
        filesystem: FileSystem,
        stem: str,
        base_offset: int,
        interval: int,
        beginning: Callable[[int], Iterator[bytes]],
    ) -> None:
        """`stem` is the path without suffix; `beginning` reads the first bytes of the original segment."""
        self._filesystem = filesystem
        self._stem = stem
        self._base_offset = base_offset
        self._interval = interval
        self._beginning = beginning
        # How many bytes are unchanged so far; None once anything differs.
        self._same: int | None = 0
        self._index = OffsetIndex()
        self._times = TimeIndex()
        self._indexed = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._position = 0
        self._synced = 0
        self._told = 0
        self.size = 0
        self.max_timestamp = _NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._descriptor = -1

    def _path(self, kind: str) -> str:
        return f"{self._stem}.{kind}{CLEANED}"

    def note(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """Index a batch, whose bytes follow, as an append would."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if position - self._indexed > self._interval:
            self._index.append(last_offset - self._base_offset, position)
            self._times.append_if_newer(self.max_timestamp, self.max_timestamp_offset - self._base_offset)
            self._indexed = position
        self.size = position + size

    def keep(self, chunk: bytes, begin: int, end: int) -> None:
        """Keep these bytes of the original segment, which follow those kept or written before."""
        if self._same is None:
            self.write(chunk[begin:end])
        else:
            self._same += end - begin

    def differ(self) -> None:
        """From here on the new segment differs from the original. Raises OSError."""
        if self._same is None:
            return
        same, self._same = self._same, None
        self._descriptor = self._filesystem.open(self._path("log"), write=True, create=True)
        for piece in self._beginning(same):
            self.write(piece)

    def write(self, piece: bytes) -> None:
        """Write bytes; only after `differ`."""
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting >= _WRITE:
            self._flush()

    def _flush(self) -> None:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        if data:
            write_fully(self._filesystem, self._descriptor, data, self._position)
            self._position += len(data)
        if self._position - self._synced >= _SYNC_EVERY:
            self._filesystem.fdatasync(self._descriptor)
            self._synced = self._position

    def take_written(self) -> int:
        """How many bytes were written since the last call."""
        size = self._position - self._told
        self._told = self._position
        return size

    def finish(self, aborted: Sequence[AbortedTransaction], like: str) -> None:
        """Sync everything, and give the file the age of the file `like`. Raises OSError."""
        filesystem = self._filesystem
        self.differ()
        self._flush()
        self._times.append_if_newer(self.max_timestamp, self.max_timestamp_offset - self._base_offset)
        files = {"index": self._index.to_bytes(), "timeindex": self._times.to_bytes()}
        if aborted:
            files["txnindex"] = TransactionIndex(list(aborted)).to_bytes()
        for kind, content in files.items():
            descriptor = filesystem.open(self._path(kind), write=True, create=True)
            try:
                write_fully(filesystem, descriptor, content, 0)
                filesystem.fdatasync(descriptor)
            finally:
                filesystem.close(descriptor)
        filesystem.fdatasync(self._descriptor)
        self._close()
        # Retention uses it if records have no timestamps.
        filesystem.set_modified_ms(self._path("log"), filesystem.modified_ms(like))

    def abandon(self) -> None:
        """Remove the files, as far as possible."""
        self._close()
        for kind in KINDS:
            try:
                remove_file(self._filesystem, self._path(kind))
            except OSError:
                continue  # the next opening of the log removes it

    def _close(self) -> None:
        if self._descriptor >= 0:
            self._filesystem.close(self._descriptor)
            self._descriptor = -1
