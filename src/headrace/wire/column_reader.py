"""Reads one value after the other from many pieces of one buffer, from all pieces at once.

A loop in Python takes a microsecond for each record; numpy takes some nanoseconds for each record and value.
So whatever many records have in common, such as the length of the key, is read for all of them together.

Invariants: a piece is never read beyond its end, whatever its bytes claim. A piece that turns out to be
damaged is marked, stays where it is, and gives values without a meaning; the other pieces are read on.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Behind the last piece, so that the bytes of one number can be read before its size is known.
PADDING: Final = 16

INT_BYTES: Final = 5
LONG_BYTES: Final = 10
_MORE: Final = 0x80
# The tenth byte of a number of 64 bits has one of them.
_LAST_BYTE_MOST: Final = 1


def padded(*parts: bytes | bytearray | memoryview) -> Bytes:
    """The parts as one buffer that can be read."""
    return np.frombuffer(b"".join((*parts, bytes(PADDING))), np.uint8)


class ColumnReader:
    """Where reading has got to: `position` in each piece, up to `end`. `good` is false for damaged pieces."""

    __slots__ = ("buffer", "end", "good", "position")

    def __init__(self, buffer: Bytes, position: Numbers, end: Numbers, good: Flags | None = None) -> None:
        """`buffer` is `padded`."""
        self.buffer = buffer
        self.position = position
        self.end = end
        self.good = np.ones(len(position), np.bool_) if good is None else good

    def __len__(self) -> int:
        return len(self.position)

    @property
    def left(self) -> Numbers:
        """How many bytes each piece still has."""
        return self.end - self.position

    def damage(self, where: Flags) -> None:
        """Mark these pieces as damaged."""
        if where.any():
            self.good = self.good & ~where

    def byte(self) -> Bytes:
        """The next byte of each piece."""
        found = self.buffer[self.position]
        self._advance(1)
        return found

    def zigzag(self, most_bytes: int = LONG_BYTES) -> Numbers:
        """A zigzag varint, as Kafka and Avro write numbers, of at most so many bytes."""
        first = self.buffer[self.position]
        value = first.astype(np.int64)
        size: Numbers | int = 1
        if len(first) and int(first.max()) & _MORE:
            value &= 0x7F
            size = self._further_bytes(first, value, most_bytes)
        self._advance(size)
        # Shifted without its sign, which is the highest bit of the number as it is stored.
        value = (value >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1)
        if most_bytes == INT_BYTES:
            self.damage((value < -(2**31)) | (value >= 2**31))
        return value

    def skip(self, length: Numbers) -> Numbers:
        """Skip so many bytes; returns how many there are, which is none in a piece that has fewer."""
        bad = (length < 0) | (length > self.left)
        if bad.any():
            self.damage(bad)
            length = np.where(bad, 0, length)
        self.position = self.position + length
        return length

    def fixed(self, size: int) -> Bytes:
        """So many bytes of each piece, as a row of a matrix."""
        self.damage(self.left < size)
        start = np.minimum(self.position, len(self.buffer) - size)
        self.position = np.minimum(self.position + size, self.end)
        windows = np.lib.stride_tricks.sliding_window_view(self.buffer, size)
        return np.ascontiguousarray(windows[start])

    def some(self, lanes: Numbers) -> ColumnReader:
        """A reader of some pieces, at the same positions."""
        return ColumnReader(self.buffer, self.position[lanes], self.end[lanes], self.good[lanes])

    def merge(self, lanes: Numbers, other: ColumnReader) -> None:
        """Go on where the reader of `some` has got to."""
        self.position = self.position.copy()
        self.position[lanes] = other.position
        self.good = self.good.copy()
        self.good[lanes] = other.good

    def _advance(self, size: Numbers | int) -> None:
        position = self.position + size
        beyond = position > self.end
        if beyond.any():
            self.damage(beyond)
            position = np.minimum(position, self.end)
        self.position = position

    def _further_bytes(self, first: Bytes, value: Numbers, most_bytes: int) -> Numbers:
        """Add the bytes after the first to `value`; returns the sizes of the numbers."""
        size = np.ones(len(first), np.int64)
        lanes = np.flatnonzero(first & _MORE)
        for number in range(1, most_bytes):
            found = self.buffer[self.position[lanes] + number]
            value[lanes] |= (found & np.uint8(0x7F)).astype(np.int64) << np.int64(7 * number)
            size[lanes] += 1
            if number == LONG_BYTES - 1:
                self._damage_some(lanes[found > _LAST_BYTE_MOST])
            lanes = lanes[(found & _MORE) != 0]
            if not len(lanes):
                return size
        self._damage_some(lanes)
        return size

    def _damage_some(self, lanes: Numbers) -> None:
        if len(lanes):
            self.good = self.good.copy()
            self.good[lanes] = False
