"""The sparse index from timestamps to offsets in a segment.

Byte format of `<base offset>.timeindex`, as Kafka's: entries of 12 bytes, big-endian, without a header:

    timestamp i64 | relative_offset i32

An entry means: up to and including the batch that ends with offset `base offset + relative_offset`, no record
is newer than `timestamp`, and that batch is the first with a record of this timestamp. Closing a segment adds
its newest timestamp, so the last entry of a closed segment gives the segment's age.
For example `00000193e5a0c000 00000063`, in the segment with base offset 1000: the first record of that
millisecond is in the batch that ends with offset 1099.

Invariants: timestamps and offsets both increase from entry to entry. Memory holds the entries in two arrays;
the first `saved` of them are also in the file. Crash behaviour: as for the offset index. Who may call: the
segment that owns it.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from headrace.log.segments.offset_index import CorruptIndexError

ENTRY_SIZE: Final = 12
_ENTRY: Final = Struct(">qi")
_SWAP: Final = sys.byteorder == "little"


class TimeIndex:
    """The entries of one segment; offsets are relative to its base offset."""

    __slots__ = ("file_longer", "offsets", "saved", "timestamps")

    def __init__(self) -> None:
        self.timestamps: array[int] = array("q")
        self.offsets: array[int] = array("i")
        self.saved = 0
        # The file may contain entries that no longer exist.
        self.file_longer = False

    def __len__(self) -> int:
        return len(self.timestamps)

    def append_if_newer(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless the last one is as new."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def floor(self, timestamp: int) -> int:
        """The number of the last entry that is not newer than a timestamp; -1 if there is none."""
        return bisect_right(self.timestamps, timestamp) - 1

    def truncate(self, relative_offset: int) -> None:
        """Drop the entries of batches that end at or after an offset."""
        entries = bisect_left(self.offsets, relative_offset)
        if entries < len(self.timestamps):
            del self.timestamps[entries:]
            del self.offsets[entries:]
            if entries < self.saved:
                self.saved = entries
                self.file_longer = True

    def mark_saved(self) -> None:
        """Record that the file now contains all entries and nothing else."""
        self.saved = len(self)
        self.file_longer = False

    def to_bytes(self, first: int = 0) -> bytes:
        """The entries from a number on, in the file's format."""
        pack = _ENTRY.pack
        entries = zip(self.timestamps[first:], self.offsets[first:], strict=True)
        return b"".join([pack(timestamp, offset) for timestamp, offset in entries])

    @classmethod
    def parse(cls, content: bytes) -> TimeIndex:
        """Parse an index file. Raises CorruptIndexError, but not for every fault."""
        if len(content) % ENTRY_SIZE:
            raise CorruptIndexError(f"{len(content)} bytes are not a whole number of entries")
        words = array("i", content)
        if _SWAP:
            words.byteswap()
        # Two words of timestamp, then the offset; put the timestamp's words in the machine's order.
        pairs = array("i", bytes(8 * (len(words) // 3)))
        pairs[0::2], pairs[1::2] = (words[1::3], words[0::3]) if _SWAP else (words[0::3], words[1::3])
        index = cls()
        index.timestamps = array("q", pairs.tobytes())
        index.offsets = words[2::3]
        count = index.saved = len(index.timestamps)
        if count and not (index.timestamps[-1] >= index.timestamps[0] and index.offsets[-1] >= count - 1):
            raise CorruptIndexError("the last entry cannot be right")
        return index


def last_entry(content: bytes) -> tuple[int, int] | None:
    """Timestamp and relative offset of the last entry, from the last bytes of a file."""
    if len(content) < ENTRY_SIZE:
        return None
    timestamp, offset = _ENTRY.unpack_from(content, len(content) - ENTRY_SIZE)
    return timestamp, offset
