"""The sparse index from offsets to positions in a segment's file.

Byte format of `<base offset>.index`, as Kafka's: entries of 8 bytes, big-endian, without a header:

    relative_offset i32 | position i32

An entry means: the batch at `position` ends with offset `base offset + relative_offset`. There is one entry
for about every `index.interval.bytes` of log. For example, in the segment with base offset 1000, `00000063
00001040` means that the batch at byte 4160 has 1099 as its last offset.

Invariants: offsets and positions both increase from entry to entry. Memory holds the entries in two arrays;
the first `saved` of them are also in the file. Crash behaviour: the file may lack the last entries or contain
anything at all; users of an entry compare it with the batch it points to, and rebuild the index from the
batches if they differ. Who may call: the segment that owns it. Never opens a file itself.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import Final

ENTRY_SIZE: Final = 8
_SWAP: Final = sys.byteorder == "little"


class CorruptIndexError(Exception):
    """The file cannot be an index of this segment and has to be rebuilt."""


class OffsetIndex:
    """The entries of one segment; offsets are relative to its base offset."""

    __slots__ = ("file_longer", "offsets", "positions", "saved")

    def __init__(self) -> None:
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")
        self.saved = 0
        # The file may contain entries that no longer exist.
        self.file_longer = False

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def floor(self, relative_offset: int) -> int:
        """The number of the last entry at or before an offset; -1 if there is none."""
        return bisect_right(self.offsets, relative_offset) - 1

    def last_position(self) -> int:
        """Where the last indexed batch begins; 0 if there is none."""
        return self.positions[-1] if self.positions else 0

    def truncate(self, size: int) -> None:
        """Drop the entries of batches that begin at or after a position."""
        entries = bisect_right(self.positions, size - 1)
        if entries < len(self.offsets):
            del self.offsets[entries:]
            del self.positions[entries:]
            if entries < self.saved:
                self.saved = entries
                self.file_longer = True

    def mark_saved(self) -> None:
        """Record that the file now contains all entries and nothing else."""
        self.saved = len(self)
        self.file_longer = False

    def to_bytes(self, first: int = 0) -> bytes:
        """The entries from a number on, in the file's format."""
        entries = array("i", bytes(ENTRY_SIZE * (len(self.offsets) - first)))
        entries[0::2] = self.offsets[first:]
        entries[1::2] = self.positions[first:]
        if _SWAP:
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def parse(cls, content: bytes, size: int) -> OffsetIndex:
        """Parse the index of a segment of this size. Raises CorruptIndexError, but not for every fault."""
        if len(content) % ENTRY_SIZE:
            raise CorruptIndexError(f"{len(content)} bytes are not a whole number of entries")
        entries = array("i", content)
        if _SWAP:
            entries.byteswap()
        index = cls()
        index.offsets = entries[0::2]
        index.positions = entries[1::2]
        count = index.saved = len(index.offsets)
        if count and not (index.offsets[-1] >= count - 1 and 0 < index.positions[-1] < size):
            raise CorruptIndexError(
                f"the last entry, {index.offsets[-1]} at {index.positions[-1]}, cannot be right"
            )
        return index
