"""Cuts a stream of bytes into frames: a size (int32), then that many bytes.

`writable` lends the room for the next bytes, `received` says how many arrived, and `next_frame` lends whole
frames. Only the beginning of a frame that no longer fits is copied.

Invariants: a lent frame is valid until the next call of `writable`. The buffer grows with the bytes that have
come, not with the size that a frame announces, and shrinks again after a large frame. A frame above the limit
is refused as soon as its size is known.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from headrace.wire.errors import FrameTooLargeError

_SIZE: Final = Struct(">i")
# Most requests are small; the buffer grows for connections that send batches.
INITIAL_BYTES: Final = 16 * 1024
KEPT_BYTES: Final = 1024 * 1024
# A frame gets this much room for its announced size. For more, a quarter must have arrived: making room for
# 100 MB takes tens of milliseconds, and any client could demand it with four bytes.
BELIEVED_BYTES: Final = 256 * 1024


class FrameBuffer:
    """The receive buffer of one connection."""

    __slots__ = ("_believed", "_buffer", "_end", "_limit", "_start", "_view")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._believed = BELIEVED_BYTES
        self._buffer = bytearray(INITIAL_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    def writable(self) -> memoryview:
        """Room for the next bytes, never empty."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > KEPT_BYTES:
                # A client that has sent a frame of this size may announce another.
                self._believed = max(self._believed, len(self._buffer))
                self._replace(INITIAL_BYTES)
        else:
            needed, size = self._needed(), len(self._buffer)
            if self._end == size or self._start + needed > size >= needed:
                self._make_room(needed)
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """A whole frame without its size, or None. Raises FrameTooLargeError."""
        start = self._start
        available = self._end - start
        if available < 4:
            return None
        size: int = _SIZE.unpack_from(self._buffer, start)[0]
        if size < 0 or size > self._limit:
            raise FrameTooLargeError(f"a frame says that it has {size} bytes; the limit is {self._limit}")
        if available < 4 + size:
            return None
        self._start = start + 4 + size
        return self._view[start + 4 : self._start]

    @property
    def held(self) -> int:
        """Bytes that arrived and were not taken as frames yet."""
        return self._end - self._start

    def _needed(self) -> int:
        """The length of the current frame, with its size."""
        if self._end - self._start < 4:
            return 4
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return 4 + max(0, size)

    def _make_room(self, needed: int) -> None:
        held = self._end - self._start
        if needed > len(self._buffer) or held == len(self._buffer):
            # Twice what is held, so that pipelined requests are not received byte by byte.
            self._replace(max(2 * held, min(needed, max(self._believed, 4 * held))))
        else:
            self._view[:held] = self._view[self._start : self._end]
            self._start, self._end = 0, held

    def _replace(self, size: int) -> None:
        held = self._view[self._start : self._end]
        self._buffer = bytearray(max(size, INITIAL_BYTES))
        self._view = memoryview(self._buffer)
        self._view[: len(held)] = held
        self._start, self._end = 0, len(held)
