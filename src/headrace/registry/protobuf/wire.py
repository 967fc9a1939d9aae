"""Protobuf's wire format, as far as descriptors need it: numbers, and fields with a length."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.registry.protobuf.model import ProtobufError

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by number; those with a fixed size are skipped. Raises ProtobufError."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield number, value
        elif kind == _LENGTH:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise ProtobufError("the descriptor ends in the middle of a field")
            yield number, data[place : place + length]
            place += length
        elif kind in {_FIXED64, _FIXED32}:
            place += 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError("it is not a descriptor")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ProtobufError("the descriptor ends in the middle of a number")
        byte = data[place]
        place += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), place
    raise ProtobufError("it is not a descriptor")


def signed(number: int) -> int:
    """A number as int32, which the wire has in 64 bits if it is negative."""
    number &= 2**32 - 1
    return number - 2**32 if number >= 2**31 else number


def number_field(number: int, value: int) -> bytes:
    return _encoded(number << 3 | _VARINT) + _encoded(value & (2**64 - 1))


def bytes_field(number: int, value: bytes) -> bytes:
    return _encoded(number << 3 | _LENGTH) + _encoded(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode("utf-8"))


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
