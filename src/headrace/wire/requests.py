"""Reads a request of any version as the newest class of its message.

The classes of `kio` say which fields a version has, and `kio` reads single values. Structures and arrays are
read here, for two reasons. `kio` makes room for as many elements as an array claims, and a request of twenty
bytes can claim two thousand million. And `kio` cannot skip tagged fields that it does not know, which a newer
client may send in any flexible version (KIP-482).

Invariants: a field that the version does not have takes Kafka's default. Memory is taken only for elements
that are there. Never looks at what a message means.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import Callable
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

# Only this private module of kio maps kinds of fields to readers.
from kio.serial._parse import get_field_reader, get_reader
from kio.serial.errors import SerialError
from kio.serial.readers import read_compact_array_length, read_int8, read_legacy_array_length
from kio.static.protocol import Entity

from headrace.wire.errors import MalformedRequestError
from headrace.wire.record_batch import Buffer
from headrace.wire.varints import read_unsigned

Message = TypeVar("Message", bound=Entity)
_Value = TypeVar("_Value")
_Bytes = bytes | memoryview
# As kio's: takes the bytes and a position, returns the value there and its size.
Reader = Callable[[_Bytes, int], tuple[_Value, int]]

# Kafka's value for a missing field without a default of its own.
_IMPLICIT: Final[dict[str, object]] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "uuid": None,
}


def request_reader(sent: type[Entity], wanted: type[Message]) -> Callable[[Buffer], Message]:
    """A function that reads the bytes of a `sent` as a `wanted`, which has at least its fields. The function
    raises MalformedRequestError."""
    read_whole = _struct_reader(sent, wanted)

    def read(body: Buffer) -> Message:
        try:
            return read_whole(bytes(body), 0)[0]
        except (SerialError, ValueError, OverflowError) as error:
            raise MalformedRequestError(f"{type(error).__name__}: {error}") from error

    return read


def _struct_reader(sent: type[Entity], wanted: type[Message]) -> Reader[Message]:
    hints = typing.get_type_hints(sent)
    wanted_hints = typing.get_type_hints(wanted)
    plain: list[tuple[str, Reader[object]]] = []
    tagged: dict[int, tuple[str, Reader[object]]] = {}
    for field in dataclasses.fields(sent):
        if field.name not in wanted_hints:
            raise TypeError(
                f"{wanted.__name__} has no field {field.name}, which version {sent.__version__} has"
            )
        reader = _field_reader(sent, field, hints[field.name], wanted_hints[field.name])
        if (tag := field.metadata.get("tag")) is None:
            plain.append((field.name, reader))
        else:
            tagged[tag] = (field.name, reader)
    always = {name for name, _reader in plain}
    defaults = {
        field.name: _default(field, wanted_hints[field.name])
        for field in dataclasses.fields(wanted)
        if field.name not in always
    }
    flexible = sent.__flexible__

    def read(buffer: _Bytes, start: int) -> tuple[Message, int]:
        values = defaults.copy()
        position = start
        for name, reader in plain:
            values[name], size = reader(buffer, position)
            position += size
        if flexible:
            if buffer[position : position + 1] == b"\x00":
                position += 1
            else:
                position = _read_tags(memoryview(buffer), position, tagged, values)
        return wanted(**values), position - start

    return read


def _field_reader(
    sent: type[Entity], field: dataclasses.Field[object], hint: object, wanted_hint: object
) -> Reader[object]:
    kind, tagged = field.metadata.get("kafka_type"), "tag" in field.metadata
    hint, nullable = _without_none(hint)
    if typing.get_origin(hint) is tuple:
        element = (
            get_reader(kind, sent.__flexible__, False)
            if kind
            else _struct_reader(typing.get_args(hint)[0], typing.get_args(_without_none(wanted_hint)[0])[0])
        )
        return _array_reader(element, None if nullable else field.name, flexible=sent.__flexible__)
    if kind:
        return get_field_reader(sent, field, False, tagged)
    assert isinstance(hint, type)
    struct = _struct_reader(hint, _without_none(wanted_hint)[0])
    return _nullable_reader(struct) if nullable and not tagged else struct


def _array_reader(element: Reader[object], required: str | None, *, flexible: bool) -> Reader[object]:
    """`required` is the name of an array that must not be null."""
    read_length: Reader[int | None] = read_compact_array_length if flexible else read_legacy_array_length

    def read(buffer: _Bytes, start: int) -> tuple[tuple[object, ...] | None, int]:
        count, size = read_length(buffer, start)
        if count is None or count == -1:
            if required is not None:
                raise MalformedRequestError(f"the array {required} is null, and must not be")
            return None, size
        position = start + size
        if not 0 <= count <= len(buffer) - position:
            raise MalformedRequestError(f"an array claims {count} elements, more than the request can hold")
        elements = []
        for _ in range(count):
            value, size = element(buffer, position)
            elements.append(value)
            position += size
        return tuple(elements), position - start

    return read


def _nullable_reader(struct: Reader[object]) -> Reader[object]:
    """A nullable structure has a byte in front, which is negative for null (KIP-893)."""

    def read(buffer: _Bytes, start: int) -> tuple[object, int]:
        if read_int8(buffer, start)[0] < 0:
            return None, 1
        value, size = struct(buffer, start + 1)
        return value, size + 1

    return read


def _read_tags(
    buffer: memoryview, position: int, known: dict[int, tuple[str, Reader[object]]], values: dict[str, object]
) -> int:
    """Put the known tagged fields into `values`, skip the others. Returns where they end."""
    count, position = read_unsigned(buffer, position)
    for _ in range(count):
        tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        end = position + size
        if end > len(buffer):
            raise MalformedRequestError("the request ends in the middle of a tagged field")
        if tag in known:
            name, reader = known[tag]
            values[name] = reader(buffer[:end], position)[0]
        position = end
    return position


def _default(field: dataclasses.Field[object], hint: object) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    hint, nullable = _without_none(hint)
    if nullable:
        return None
    return () if typing.get_origin(hint) is tuple else _IMPLICIT[field.metadata["kafka_type"]]


def _without_none(hint: typing.Any) -> tuple[typing.Any, bool]:
    """The type of a field, and whether the field can be null. Any: types of types have no better name."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(each for each in typing.get_args(hint) if each is not types.NoneType), True
    return hint, False
