"""Walks over the batches of a segment's file, from header to header, in large reads.

Byte format: `wire.record_batch`. Crash behaviour: the walk stops at the first bytes that cannot be a batch,
or, with `verify`, at the first wrong checksum; everything up to the end of the last batch returned is good.
Who may call: `log/`. Never changes anything, never looks into records, and does as little as possible per
batch: recovery walks over millions of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from headrace.log.segments.segment_files import SegmentFile
from headrace.wire.record_batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SMALLEST_LENGTH,
    BatchHeader,
)

# All fields in the order of BatchHeader. Creating a BatchHeader takes longer than checking the batch.
_HEADER: Final = Struct(">qiibIhiqqqhii")
_VERIFIED_READ: Final = 1 << 20
# Without verification most of a large batch is skipped unread.
_HEADERS_READ: Final = 16 << 10

Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


def walk(file: SegmentFile, position: int, end: int, *, verify: bool) -> Iterator[tuple[int, Fields]]:
    """Position and header fields of each complete batch between two positions of a file."""
    read_size = _VERIFIED_READ if verify else _HEADERS_READ
    unpack = _HEADER.unpack_from
    start = position
    view = memoryview(b"")
    length_of_view = 0
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + HEADER_SIZE > length_of_view:
            view = memoryview(file.pread(min(read_size, end - position), position))
            start, at, length_of_view = position, 0, len(view)
            if length_of_view < HEADER_SIZE:
                return
        fields: Fields = unpack(view, at)
        size = fields[1] + LOG_OVERHEAD
        if fields[1] < SMALLEST_LENGTH or fields[3] != MAGIC or position + size > end:
            return
        if verify:
            if at + size > length_of_view:
                view = memoryview(file.pread(min(max(read_size, size), end - position), position))
                start, at, length_of_view = position, 0, len(view)
                if length_of_view < size:
                    return
            if crc32c(view[at + ATTRIBUTES_AT : at + size]) != fields[4]:
                return
        yield position, fields
        position += size


def is_beginning(file: SegmentFile, position: int, end: int, offset: int) -> bool:
    """Whether the bytes between two positions are the beginning of a batch at this offset that goes on behind
    them, or too few to tell.
    """
    if end - position < HEADER_SIZE:
        return True
    base_offset, length, _, magic, *_ = _HEADER.unpack(file.pread(HEADER_SIZE, position))
    return bool(base_offset == offset and magic == MAGIC and position + length + LOG_OVERHEAD > end)


def header_of(fields: Fields) -> BatchHeader:
    """The fields as a `BatchHeader`, with position 0."""
    return BatchHeader(*fields)
