"""Reads and writes the fields of keys and values in internal topics, in Kafka's encoding.

Byte format: numbers are big-endian. In the plain versions of a message, strings have an int16 length, bytes
and arrays an int32 length, and -1 means null. In its flexible versions (KIP-482), lengths are variable-length
numbers plus one, 0 means null, and every struct ends with tagged fields. Keys and values begin with an int16:
the type of the record in a key, the version in a value.

Invariants: a reader never reads past the end; it raises CorruptRecordError for what it cannot read. It skips
unknown tagged fields, so that it can read records of a newer Kafka (KIP-915).
"""

from __future__ import annotations

import struct
import uuid
from typing import Final

from headrace.wire.errors import MalformedRequestError
from headrace.wire.varints import read_unsigned, unsigned

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class CorruptRecordError(Exception):
    """A record of an internal topic is in no known format."""


class FieldReader:
    """Reads field after field; `flexible` decides the encoding of lengths."""

    __slots__ = ("_buffer", "_flexible", "_position")

    def __init__(self, buffer: bytes | memoryview, *, flexible: bool = False) -> None:
        self._buffer = memoryview(buffer)
        self._flexible = flexible
        self._position = 0

    def become_flexible(self) -> None:
        """Read lengths as in a flexible version from now on, since the version read so far is one."""
        self._flexible = True

    def _number(self, form: struct.Struct) -> int:
        try:
            value: int = form.unpack_from(self._buffer, self._position)[0]
        except struct.error:
            raise CorruptRecordError("the record ends in the middle of its fields") from None
        self._position += form.size
        return value

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def unsigned(self) -> int:
        try:
            value, self._position = read_unsigned(self._buffer, self._position)
        except MalformedRequestError as error:
            raise CorruptRecordError(str(error)) from None
        return value

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._buffer):
            raise CorruptRecordError(f"a field claims {size} bytes in a record of {len(self._buffer)}")
        taken = bytes(self._buffer[self._position : end])
        self._position = end
        return taken

    def nullable_string(self) -> str | None:
        size = self.unsigned() - 1 if self._flexible else self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise CorruptRecordError("a string is not UTF-8") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise CorruptRecordError("a string must not be null")
        return text

    def nullable_octets(self) -> bytes | None:
        size = self.unsigned() - 1 if self._flexible else self.int32()
        return None if size < 0 else self._take(size)

    def octets(self) -> bytes:
        taken = self.nullable_octets()
        if taken is None:
            raise CorruptRecordError("bytes must not be null")
        return taken

    def identifier(self) -> uuid.UUID:
        return uuid.UUID(bytes=self._take(16))

    def array_length(self) -> int:
        """The number of elements that follow, 0 for a null array. Each takes at least one byte."""
        length = self.unsigned() - 1 if self._flexible else self.int32()
        if length > len(self._buffer) - self._position:
            raise CorruptRecordError(f"an array claims {length} elements in {len(self._buffer)} bytes")
        return max(length, 0)

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields at the end of a struct, by tag; none in a plain version."""
        if not self._flexible:
            return {}
        fields = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            fields[tag] = self._take(self.unsigned())
        return fields


class FieldWriter:
    """Writes field after field; each method returns the writer."""

    __slots__ = ("_flexible", "_parts")

    def __init__(self, *, flexible: bool = False) -> None:
        self._parts = bytearray()
        self._flexible = flexible

    def int8(self, value: int) -> FieldWriter:
        self._parts += _INT8.pack(value)
        return self

    def int16(self, value: int) -> FieldWriter:
        self._parts += _INT16.pack(value)
        return self

    def int32(self, value: int) -> FieldWriter:
        self._parts += _INT32.pack(value)
        return self

    def int64(self, value: int) -> FieldWriter:
        self._parts += _INT64.pack(value)
        return self

    def nullable_string(self, text: str | None) -> FieldWriter:
        if text is None:
            self._parts += b"\x00" if self._flexible else b"\xff\xff"
            return self
        return self.string(text)

    def string(self, text: str) -> FieldWriter:
        encoded = text.encode()
        self._parts += unsigned(len(encoded) + 1) if self._flexible else _INT16.pack(len(encoded))
        self._parts += encoded
        return self

    def nullable_octets(self, value: bytes | None) -> FieldWriter:
        if value is None:
            self._parts += b"\x00" if self._flexible else b"\xff\xff\xff\xff"
            return self
        return self.octets(value)

    def octets(self, value: bytes) -> FieldWriter:
        self._parts += unsigned(len(value) + 1) if self._flexible else _INT32.pack(len(value))
        self._parts += value
        return self

    def identifier(self, value: uuid.UUID) -> FieldWriter:
        self._parts += value.bytes
        return self

    def array_length(self, length: int | None) -> FieldWriter:
        """The length before the elements of an array; None for a null array."""
        count = -1 if length is None else length
        self._parts += unsigned(count + 1) if self._flexible else _INT32.pack(count)
        return self

    def tagged_fields(self, fields: dict[int, bytes]) -> FieldWriter:
        """The tagged fields at the end of a struct; not written in a plain version."""
        if self._flexible:
            self._parts += unsigned(len(fields))
            for tag, value in sorted(fields.items()):
                self._parts += unsigned(tag) + unsigned(len(value)) + value
        return self

    def done(self) -> bytes:
        return bytes(self._parts)


def record_type(key: bytes) -> int:
    """The type of record that a key belongs to. Raises CorruptRecordError."""
    return FieldReader(key).int16()
