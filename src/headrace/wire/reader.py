"""A cursor over the bytes of a request, for the hand-written codecs of Produce and Fetch.

Invariants: reads never copy records and never pass the end of the buffer; every failure is a
MalformedRequestError. Array lengths are checked against the remaining bytes, so a false length cannot cause a
large allocation.
"""

from __future__ import annotations

import struct
import uuid
from functools import lru_cache
from typing import Final

from headrace.wire.errors import MalformedRequestError
from headrace.wire.varints import read_unsigned, skip_tagged_fields

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


class Reader:
    """Reads fields in order; `flexible` decides the format of lengths (KIP-482)."""

    __slots__ = ("_buffer", "_flexible", "_size", "position")

    def __init__(self, buffer: memoryview, *, flexible: bool) -> None:
        self._buffer = buffer
        self._flexible = flexible
        self._size = len(buffer)
        self.position = 0

    def take(self, fields: struct.Struct) -> tuple[int, ...]:
        """Read several fields of fixed size at once."""
        try:
            values = fields.unpack_from(self._buffer, self.position)
        except struct.error:
            raise MalformedRequestError("the request ends in the middle of its fields") from None
        self.position += fields.size
        return values

    def array_length(self) -> int:
        """The number of elements that follow, 0 for a null array. Each element takes at least one byte."""
        if self._flexible:
            length, self.position = read_unsigned(self._buffer, self.position)
            length -= 1
        else:
            (length,) = self.take(_I32)
        if length > self._size - self.position:
            raise MalformedRequestError(f"an array of {length} elements in a request of {self._size} bytes")
        return max(length, 0)

    def string(self) -> str | None:
        if self._flexible:
            length, self.position = read_unsigned(self._buffer, self.position)
            length -= 1
        else:
            (length,) = self.take(_I16)
        if length < 0:
            return None
        view = self._view(length)
        try:
            return str(view, "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequestError("a string is not UTF-8") from None

    def topic_id(self) -> uuid.UUID:
        return _topic_id(bytes(self._view(16)))

    def records(self) -> memoryview | None:
        """A view of the record set."""
        if self._flexible:
            length, self.position = read_unsigned(self._buffer, self.position)
            length -= 1
        else:
            (length,) = self.take(_I32)
        return None if length < 0 else self._view(length)

    def skip_tags(self) -> None:
        """Skip tagged fields, if the version has them."""
        if self._flexible:
            if self.position < self._size and self._buffer[self.position] == 0:
                self.position += 1
            else:
                self.position = skip_tagged_fields(self._buffer, self.position)

    def _view(self, length: int) -> memoryview:
        end = self.position + length
        if end > self._size:
            raise MalformedRequestError(f"a field of {length} bytes in a request of {self._size} bytes")
        view = self._buffer[self.position : end]
        self.position = end
        return view


@lru_cache(maxsize=4096)
def _topic_id(data: bytes) -> uuid.UUID:
    """Cached: clients repeat the same ids, and making one costs more than reading the rest of the request."""
    return uuid.UUID(bytes=data)
