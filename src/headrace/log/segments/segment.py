"""One segment of a partition log: a file of batches, its indexes, and the way from an offset to a batch.

Files, named by the first offset that the segment may hold, in 20 digits: `.log` (batches, one behind the
other, `wire.record_batch`), `.index`, `.timeindex`, and `.txnindex` if transactions were aborted in it. A
segment that is no longer part of the log has `.deleted` behind these names until its files are removed.

Invariants: `size` bytes of the file are whole batches in the order of their offsets, and nothing reads
behind them. The indexes are loaded when they are first needed; those of a closed segment may be dropped
from memory again at any time. `tail_offsets` and `tail_positions` say where the last batches begin, so that
a reader at the end of the log needs neither index nor disk.

Crash behaviour: the `.log` file is the truth, the indexes can be built from it; see `recovery`. Who may call:
`log/`, from one thread. Never decides when to roll, to delete or to sync.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file
from headrace.log.segments import segment_indexes
from headrace.log.segments.transaction_index import TransactionIndex
from headrace.wire.errors import WireError
from headrace.wire.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    SMALLEST_LENGTH,
    BatchHeader,
    read_header,
)

if TYPE_CHECKING:
    from headrace.log.segments.offset_index import OffsetIndex
    from headrace.log.segments.segment_files import SegmentFile, SegmentFiles
    from headrace.log.segments.time_index import TimeIndex

_log = logging.getLogger(__name__)

KINDS: Final = ("log", "index", "timeindex", "txnindex")
DELETED: Final = ".deleted"
LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
NEVER: Final = 2**63 - 1
NO_TIMESTAMP: Final = -1
# Base offset, length, and the last offset relative to the first.
_PLACE: Final = Struct(">qi11xi")
_LOOKUP_READ: Final = 8192
# How many of the last batches are remembered with their positions, about.
_MOST_TAIL: Final = 256


class Place(NamedTuple):
    """Where a batch stands in its segment."""

    position: int
    size: int
    base_offset: int


class Segment:
    """A plain holder of state: the partition log's append writes its fields itself, to be fast."""

    __slots__ = (
        "active",
        "appendable",
        "base_offset",
        "created_ms",
        "file",
        "files",
        "first_timestamp",
        "folder",
        "full",
        "index",
        "indexed_position",
        "interval",
        "last_offset_allowed",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_after_clock",
        "roll_after_timestamp",
        "size",
        "suffix",
        "tail_offsets",
        "tail_positions",
        "times",
        "timestamp_known",
        "transactions",
        "used",
    )

    def __init__(
        self, folder: str, base_offset: int, files: SegmentFiles, *, size: int, interval: int, created_ms: int
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.files = files
        self.size = size
        self.interval = interval
        self.created_ms = created_ms
        self.suffix = ""
        # Batches may still come: the indexes stay in memory.
        self.active = False
        # Everything that an append goes by is known: a reader needs less, and may have opened the file.
        self.appendable = False
        self.file: SegmentFile | None = None
        self.used = False
        self.index: OffsetIndex | None = None
        self.times: TimeIndex | None = None
        # None if there is a file that was not read yet; `transactions.index_of` reads it.
        self.transactions: TransactionIndex | None = TransactionIndex()
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.timestamp_known = size == 0
        self.first_timestamp: int | None = None
        self.last_offset_allowed = base_offset + LARGEST_RELATIVE_OFFSET
        self.full = False
        self.roll_after_timestamp = NEVER
        self.roll_after_clock = NEVER
        self.tail_offsets: list[int] = []
        self.tail_positions: list[int] = []

    def __repr__(self) -> str:
        return f"Segment({self.log_path}, size={self.size})"

    def path(self, kind: str) -> str:
        return f"{self.folder}/{self.base_offset:020d}.{kind}{self.suffix}"

    @property
    def log_path(self) -> str:
        return self.path("log")

    def open_file(self) -> SegmentFile:
        """Raises StorageError."""
        file = self.file
        if file is not None:
            self.used = True
            return file
        try:
            # An empty segment may be one that was never written to.
            return self.files.open(self, create=not self.size)
        except OSError as error:
            raise StorageError(f"{self.log_path} cannot be opened: {error}") from error

    def locate(self, offset: int) -> Place | None:
        """The first batch that ends at or behind this offset. Raises StorageError."""
        tail = self.tail_offsets
        if tail and offset >= tail[0]:
            number = bisect_right(tail, offset)
            position = self.tail_positions[number - 1]
            end = self.tail_positions[number] if number < len(tail) else self.size
            return Place(position, end - position, tail[number - 1])
        for _ in range(2):
            index = self.index or self.offset_index()
            entry = index.floor(offset - self.base_offset)
            if entry < 0:
                return self.search(offset, 0, None)[0]
            place, right = self.search(
                offset, index.positions[entry], self.base_offset + index.offsets[entry]
            )
            if right:
                return place
            _log.warning("%s does not fit its log: building it anew", self.path("index"))
            segment_indexes.rebuild(self)
        raise StorageError(f"{self.log_path} does not hold offset {offset} where it should be")

    def search(self, offset: int, position: int, first_ends: int | None) -> tuple[Place | None, bool]:
        """Walk from a position on; whether the batch there ends with the offset that the index says."""
        file = self.open_file()
        unpack = _PLACE.unpack_from
        size = self.size
        start, chunk = position, b""
        while position < size:
            at = position - start
            if at + HEADER_SIZE > len(chunk):
                chunk = self.read(file, min(_LOOKUP_READ, size - position), position)
                start, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    return None, False
            base_offset, length, delta = unpack(chunk, at)
            if first_ends is not None:
                if base_offset + delta != first_ends:
                    return None, False
                first_ends = None
            if length < SMALLEST_LENGTH:
                raise StorageError(f"{self.log_path} is damaged at byte {position}")
            if base_offset + delta >= offset:
                return Place(position, length + LOG_OVERHEAD, base_offset), True
            position += length + LOG_OVERHEAD
        return None, first_ends is None

    def read(self, file: SegmentFile, size: int, position: int) -> bytes:
        """Raises StorageError."""
        try:
            return file.pread(size, position)
        except OSError as error:
            raise StorageError(f"{self.log_path} cannot be read: {error}") from error

    def offset_index(self) -> OffsetIndex:
        """The index from memory, from its file, or built anew. Raises StorageError."""
        if self.index is None:
            segment_indexes.load(self)
        assert self.index is not None
        return self.index

    def time_index(self) -> TimeIndex:
        """As `offset_index`."""
        if self.times is None:
            segment_indexes.load(self)
        assert self.times is not None
        return self.times

    def take_indexes(self, index: OffsetIndex, times: TimeIndex) -> None:
        self.index, self.times = index, times
        self.indexed_position = index.last_position()
        if not self.active:
            self._count_indexes()

    def _count_indexes(self) -> None:
        entries = self.offset_index(), self.time_index()
        self.files.index_loaded(self, 8 * len(entries[0]) + 12 * len(entries[1]))

    def end_appends(self) -> None:
        """No batch will come any more: what is only there for appending and for readers of the end goes."""
        self.active = False
        self.tail_offsets, self.tail_positions = [], []
        self._count_indexes()

    def begin_appends(self) -> None:
        """The segments behind this one were taken back: batches may come again."""
        self.offset_index(), self.time_index(), self.newest_timestamp()
        self.active = True
        self.files.index_pinned(self)

    def cut(self, size: int, end_offset: int) -> None:
        """The file now ends here, and the log with it. Raises StorageError."""
        index, times = self.offset_index(), self.time_index()
        self.size = size
        index.truncate(size)
        times.truncate(end_offset - self.base_offset)
        self.indexed_position = index.last_position()
        self.tail_offsets, self.tail_positions = [], []
        self.full = False
        if not size:
            self.first_timestamp = None
            self.roll_after_timestamp = self.roll_after_clock = NEVER
        segment_indexes.find_newest(self)

    def newest_timestamp(self) -> int:
        """The newest timestamp in the segment, -1 if it has none. Raises StorageError."""
        if not self.timestamp_known and self.times is None:
            newest = segment_indexes.newest_from_ends(self)
            if newest is not None:
                self.max_timestamp, self.max_timestamp_offset = newest
                self.timestamp_known = True
        if not self.timestamp_known:
            times = self.time_index()
            # Building the indexes anew has found it out too.
            if not self.timestamp_known and len(times):
                self.max_timestamp = times.timestamps[-1]
                self.max_timestamp_offset = self.base_offset + times.offsets[-1]
            self.timestamp_known = True
        return self.max_timestamp

    def first_header(self) -> BatchHeader:
        """The header of the first batch of a segment that has one. Raises StorageError."""
        try:
            return read_header(self.read(self.open_file(), HEADER_SIZE, 0))
        except WireError as error:
            raise StorageError(f"{self.log_path} is damaged at its beginning: {error}") from error

    def add_to_indexes(self, last_offset: int, position: int) -> None:
        """Index the batch at this position, and the newest timestamp so far."""
        base_offset = self.base_offset
        self.offset_index().append(last_offset - base_offset, position)
        self.time_index().append_if_newer(self.max_timestamp, self.max_timestamp_offset - base_offset)
        self.indexed_position = position
        self.trim_tail()

    def trim_tail(self) -> None:
        """Forget the oldest of the remembered batches if they have become many."""
        if len(self.tail_offsets) > _MOST_TAIL:
            del self.tail_offsets[: -_MOST_TAIL // 2]
            del self.tail_positions[: -_MOST_TAIL // 2]

    def forget(self) -> None:
        """Close the file and drop the indexes from memory, without writing anything."""
        self.files.forget(self)
        self.drop_indexes()
        self.tail_offsets, self.tail_positions = [], []

    def drop_indexes(self) -> None:
        self.index = self.times = None
        if self.transactions and self.transactions.saved == len(self.transactions):
            self.transactions = None

    def mark_deleted(self) -> list[str]:
        """Give the files their names of files to be removed; what they are called now.

        Raises OSError, and then the segment is as it was. An index that keeps its name has no log any more,
        and goes when the log is opened next.
        """
        rename = self.files.filesystem.rename
        paths = [self.path(kind) for kind in KINDS]
        # Compacted twice within the delay: what the new name replaces would be freed on the spot.
        remove_file(self.files.filesystem, paths[0] + DELETED)
        rename(paths[0], paths[0] + DELETED)
        self.suffix = DELETED
        self.forget()
        for path in paths[1:]:
            try:
                rename(path, path + DELETED)
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s cannot be renamed: %s", path, error)
        return [path + DELETED for path in paths]

    def remove(self) -> None:
        """Remove the files at once. Raises OSError."""
        self.forget()
        for kind in KINDS:
            remove_file(self.files.filesystem, self.path(kind))
