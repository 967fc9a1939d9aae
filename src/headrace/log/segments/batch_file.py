"""The file of batches of one segment: opening it, reading it, and finding a batch in it.

Byte format: batches, one after another (`wire.record_batch`). The file name is the first offset that the
segment may contain, in 20 digits, plus `.log`; the indexes have the same name with other suffixes.

Invariants: the first `size` bytes of the file are complete batches in offset order, and nothing reads past
them. `torn` means that bytes of a failed write may follow; the next write removes them before it counts.
Crash behaviour: recovery cuts off incomplete writes. Who may call: `log/`, from one thread. Knows nothing
about indexes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from headrace.log.errors import StorageError
from headrace.log.filesystem import Data, FileSystem, write_fully
from headrace.log.segments.segment_files import SegmentFile, SegmentFiles
from headrace.wire.errors import WireError
from headrace.wire.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    SMALLEST_LENGTH,
    BatchHeader,
    read_header,
)

# Base offset, length, and the last offset relative to the first.
_PLACE: Final = Struct(">qi11xi")
_LOOKUP_READ: Final = 8192


class Place(NamedTuple):
    """The position of a batch in its segment."""

    position: int
    size: int
    base_offset: int


class BatchFile:
    """The part of a segment that needs no index. `files` opens and closes the file."""

    __slots__ = ("base_offset", "file", "files", "folder", "size", "suffix", "torn", "used")

    def __init__(self, folder: str, base_offset: int, files: SegmentFiles, size: int) -> None:
        self.folder: Final = folder
        self.base_offset: Final = base_offset
        self.files: Final = files
        self.size = size
        # Appended to the file names while the files are not part of the log.
        self.suffix = ""
        self.file: SegmentFile | None = None
        self.used = False
        self.torn = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.log_path}, size={self.size})"

    def path(self, kind: str) -> str:
        return f"{self.folder}/{self.base_offset:020d}.{kind}{self.suffix}"

    @property
    def log_path(self) -> str:
        return self.path("log")

    @property
    def filesystem(self) -> FileSystem:
        return self.files.filesystem

    def open_file(self) -> SegmentFile:
        """Raises StorageError."""
        file = self.file
        if file is not None:
            self.used = True
            return file
        try:
            # The file of an empty segment may not exist yet.
            return self.files.open(self, create=not self.size)
        except OSError as error:
            raise StorageError(f"{self.log_path} cannot be opened: {error}") from error

    def read(self, file: SegmentFile, size: int, position: int) -> bytes:
        """Raises StorageError."""
        try:
            return file.pread(size, position)
        except OSError as error:
            raise StorageError(f"{self.log_path} cannot be read: {error}") from error

    def first_header(self) -> BatchHeader:
        """The header of the first batch, which must exist. Raises StorageError."""
        try:
            return read_header(self.read(self.open_file(), HEADER_SIZE, 0))
        except WireError as error:
            raise StorageError(f"{self.log_path} is damaged at its beginning: {error}") from error

    def search(self, offset: int, position: int, first_ends: int | None) -> tuple[Place | None, bool]:
        """Walk from a position to the first batch that ends at or after an offset.

        Also return whether the batch at the position ends with `first_ends`, as an index claims.
        """
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

    def write_rest(self, file: SegmentFile, data: Data, written: int) -> None:
        """Finish a write after the last batch; the system accepted `written` bytes. Raises OSError."""
        behind = self.size + written
        if self.torn:
            # The remains of an earlier write may be longer than this one.
            file.filesystem.truncate(file.descriptor, behind)
            self.torn = False
        if written != len(data):
            write_fully(file.filesystem, file.descriptor, memoryview(data)[written:], behind)

    def take_back_write(self, file: SegmentFile) -> None:
        """Cut off the remains of a failed write, or remember to do so later."""
        try:
            file.filesystem.truncate(file.descriptor, self.size)
            self.torn = False
        except OSError:
            self.torn = True

    def truncate_file(self, size: int) -> None:
        """Cut the file to a size. Raises OSError, StorageError."""
        self.filesystem.truncate(self.open_file().descriptor, size)
        self.torn = False
