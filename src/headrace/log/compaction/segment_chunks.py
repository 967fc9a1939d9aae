"""Reads closed segments for compaction in large pieces that begin with a batch, forwards and backwards.

Byte format: `wire.record_batch`. Invariants: every batch is returned whole, once, in the requested order;
reads count towards the pace. Crash behaviour: nothing is written. Who may call: a round of cleaning. Raises
OSError, and CorruptBatchError for bytes that cannot be a batch; whoever reads the records checks the
checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace.log.compaction.cleaning_task import Pace
from headrace.log.filesystem import FileSystem
from headrace.log.segments.batch_walk import Fields
from headrace.log.segments.segment_files import SegmentFile
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, SMALLEST_LENGTH

_HEADER: Final = Struct(">qiibIhiqqqhii")
_READ: Final = 1 << 20
# If only headers are needed, most of a large batch is skipped unread.
_HEADERS_READ: Final = 4 << 10

Batches = list[tuple[int, Fields]]
"""The position and header of each batch."""


class Extent(NamedTuple):
    """A part of a file that begins and ends with a batch."""

    start: int
    end: int


class Chunk(NamedTuple):
    """A part of a segment's file, and its batches."""

    data: bytes
    batches: Batches


class SegmentChunks:
    """The closed segments of one partition's folder."""

    def __init__(self, filesystem: FileSystem, folder: str, pace: Pace) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._pace = pace
        self.bytes_read = 0

    def path(self, base_offset: int) -> str:
        return f"{self._folder}/{base_offset:020d}.log"

    def _open(self, base_offset: int) -> SegmentFile:
        return SegmentFile(self._filesystem, self.path(base_offset), write=False)

    def forwards(self, base_offset: int, size: int) -> Iterator[Chunk]:
        """The whole segment, from its beginning."""
        if not size:
            return
        file = self._open(base_offset)
        position, wanted, expected = 0, _READ, base_offset
        while position < size:
            data = file.pread(min(wanted, size - position), position)
            batches, end, missing = _batches(data, position, expected)
            if not batches and (len(data) == size - position or missing <= len(data)):
                raise CorruptBatchError(f"no whole batch at byte {position} of segment {base_offset}")
            if batches:
                expected = batches[-1][1][0] + batches[-1][1][6] + 1
            wanted = max(_READ, missing)
            position += end
            self._passed(end)
            yield Chunk(data, batches)

    def beginning(self, base_offset: int, size: int) -> Iterator[bytes]:
        """The first bytes of a segment, unparsed."""
        file = self._open(base_offset)
        position = 0
        while position < size:
            data = file.pread(min(_READ, size - position), position)
            if not data:
                raise CorruptBatchError(f"segment {base_offset} ends at byte {position}, before {size}")
            position += len(data)
            self._passed(len(data))
            yield data

    def headers(self, base_offset: int, size: int) -> Iterator[tuple[int, Fields]]:
        """The position of each batch in the file, and its header."""
        file = self._open(base_offset)
        position, expected = 0, base_offset
        while position < size:
            data = file.pread(min(_HEADERS_READ, size - position), position)
            self._passed(len(data))
            at = 0
            while at + HEADER_SIZE <= len(data):
                fields = _header(data, at, position, expected)
                yield position + at, fields
                expected = fields[0] + fields[6] + 1
                at += fields[1] + LOG_OVERHEAD
            if not at or position + at > size:
                raise CorruptBatchError(f"no whole batch at the end of segment {base_offset}")
            position += at

    def extents(self, base_offset: int, size: int, look: Callable[[int, Fields], bool]) -> list[Extent]:
        """Parts of a segment, each to be read at once, with the batches for which `look` returns True.

        `look` is called with each batch's position and header; the chosen batches must be adjacent.
        """
        found: list[Extent] = []
        start = end = 0
        for position, fields in self.headers(base_offset, size):
            if not look(position, fields):
                continue
            behind = position + fields[1] + LOG_OVERHEAD
            if start == end:
                start = position
            elif behind - start > _READ:
                found.append(Extent(start, end))
                start = position
            end = behind
        if end > start:
            found.append(Extent(start, end))
        return found

    def backwards(self, base_offset: int, extents: Sequence[Extent]) -> Iterator[Chunk]:
        """Read these parts, beginning with the last; within each the batches are in order."""
        if not extents:
            return
        file = self._open(base_offset)
        for start, end in reversed(extents):
            data = file.pread(end - start, start)
            batches, size, _ = _batches(data, start, base_offset)
            if size != end - start:
                raise CorruptBatchError(f"segment {base_offset} is not what it was")
            self._passed(size)
            yield Chunk(data, batches)

    def read_batch(self, base_offset: int, position: int, fields: Fields) -> bytes:
        """One batch of a segment."""
        return self._open(base_offset).pread(fields[1] + LOG_OVERHEAD, position)

    def _passed(self, size: int) -> None:
        self.bytes_read += size
        self._pace.passed(size)


def _batches(data: bytes, position: int, expected: int) -> tuple[Batches, int, int]:
    """The complete batches in these bytes, where they end, and the size of the next one."""
    found: Batches = []
    at, total = 0, len(data)
    while at + HEADER_SIZE <= total:
        fields = _header(data, at, position, expected)
        end = at + fields[1] + LOG_OVERHEAD
        if end > total:
            return found, at, end - at
        found.append((at, fields))
        expected = fields[0] + fields[6] + 1
        at = end
    return found, at, 0


def _header(data: bytes, at: int, position: int, expected: int) -> Fields:
    fields: Fields = _HEADER.unpack_from(data, at)
    if fields[1] < SMALLEST_LENGTH or fields[3] != MAGIC or fields[0] < expected:
        raise CorruptBatchError(f"no batch at byte {position + at}, where offset {expected} or more is due")
    return fields
