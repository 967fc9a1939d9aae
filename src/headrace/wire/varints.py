"""Lengths and strings of messages, with the variable-length integers of flexible versions (KIP-482).

Byte format: seven bits per byte, lowest first; the highest bit says that more bytes follow. Lengths of
compact strings, bytes and arrays are one more than the length, 0 is null. Tagged fields are a count, then
tag, size and that many bytes each. The records inside a batch use signed ones: `records.py`.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.wire.errors import MalformedRequestError

_LENGTH: Final = struct.Struct(">i")
_STRING_LENGTH: Final = struct.Struct(">h")
# A 32-bit number takes at most five bytes.
_HIGHEST_SHIFT: Final = 28


def read_unsigned(buffer: memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it. Raises MalformedRequestError."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        value = byte & 0x7F
        shift = 7
        while True:
            position += 1
            byte = buffer[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + 1
            shift += 7
            if shift > _HIGHEST_SHIFT:
                raise MalformedRequestError("a variable-length number has more than five bytes")
    except IndexError:
        raise MalformedRequestError("the request ends in the middle of a number") from None


def unsigned(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def array_length(count: int, *, compact: bool) -> bytes:
    """The length in front of an array or of a record set."""
    return unsigned(count + 1) if compact else _LENGTH.pack(count)


def string(text: str | None, *, compact: bool) -> bytes:
    """A string with its length, or null."""
    if text is None:
        return b"\x00" if compact else b"\xff\xff"
    encoded = text.encode()
    return (unsigned(len(encoded) + 1) if compact else _STRING_LENGTH.pack(len(encoded))) + encoded


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """The position after the tagged fields at `position`."""
    count, position = read_unsigned(buffer, position)
    for _ in range(count):
        _tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        position += size
    if position > len(buffer):
        raise MalformedRequestError("the request ends in the middle of a tagged field")
    return position
