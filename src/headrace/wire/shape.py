"""Whether the bytes of a request have the shape of its message, asked before `kio` reads them.

`kio` makes room for as many elements as an array says that it has. A request of twenty bytes can claim two
thousand million, and that ends the process. So lengths are held against the bytes that are there first.

Invariants: a walker is built once per message class, from the same classes that `kio` reads with. It passes
over the bytes and makes nothing of them. What it lets through, `kio` can still refuse. Tagged fields that
nobody here knows are cut out: a newer client may send them in any flexible version (KIP-482), and `kio` knows
no way to pass over them.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from headrace.wire.errors import MalformedRequestError
from headrace.wire.varints import read_unsigned, unsigned

# Takes the bytes and a position, gives the position behind what it passed over.
Walker = Callable[[memoryview, int], int]

_FIXED: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_LENGTHS: Final = {
    "string": struct.Struct(">h"),
    "bytes": struct.Struct(">i"),
    "records": struct.Struct(">i"),
}
_ARRAY_LENGTH: Final = struct.Struct(">i")
# Each is a walk from the beginning again; a client that means well sends a few.
_MOST_UNKNOWN: Final = 100


class _UnknownTagsError(Exception):
    """Tagged fields from `start` to `end`, some of them unknown; `known` is what they would be without."""

    def __init__(self, start: int, end: int, known: bytes) -> None:
        super().__init__()
        self.start = start
        self.end = end
        self.known = known


def checked(message: type, body: bytes) -> bytes:
    """The body without unknown tagged fields. Raises MalformedRequestError where it lies about a length."""
    walk = _struct_walker(message)[0]
    for _ in range(_MOST_UNKNOWN):
        try:
            end = walk(memoryview(body), 0)
        except _UnknownTagsError as unknown:
            body = body[: unknown.start] + unknown.known + body[unknown.end :]
            continue
        except (struct.error, IndexError):
            raise MalformedRequestError(f"the request ends in the middle of a {message.__name__}") from None
        if end > len(body):
            raise MalformedRequestError(f"the request ends in the middle of a {message.__name__}")
        return body
    raise MalformedRequestError(f"a {message.__name__} with unknown tagged fields in {_MOST_UNKNOWN} places")


@cache
def _struct_walker(message: type) -> tuple[Walker, int]:
    """What passes over a message of this class, and how many bytes it has at the least."""
    hints = typing.get_type_hints(message)
    flexible: bool = message.__flexible__  # type: ignore[attr-defined]
    walkers: list[Walker] = []
    smallest = 1 if flexible else 0
    tagged: dict[int, Walker] = {}
    for field in dataclasses.fields(message):
        walker, size = _field_walker(field, hints[field.name], flexible=flexible)
        if (tag := field.metadata.get("tag")) is not None:
            tagged[tag] = walker
        else:
            walkers.append(walker)
            smallest += size

    def walk(buffer: memoryview, position: int) -> int:
        for walker in walkers:
            position = walker(buffer, position)
        return _walk_tags(buffer, position, tagged) if flexible else position

    return walk, smallest


def _field_walker(field: Any, hint: Any, *, flexible: bool) -> tuple[Walker, int]:
    kind = field.metadata.get("kafka_type")
    nullable = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        nullable = True
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        inner = _plain_walker(kind, flexible=flexible) if kind else _struct_walker(typing.get_args(hint)[0])
        # Some readers of kio take a missing array for None where there must be one; no handler expects that.
        required = None if nullable else field.name
        return _array_walker(*inner, flexible=flexible, required=required), 1 if flexible else 4
    if kind:
        return _plain_walker(kind, flexible=flexible)
    walker, size = _struct_walker(hint)
    if not nullable or "tag" in field.metadata:
        return walker, size

    def nullable_walker(buffer: memoryview, position: int) -> int:
        # A structure that may be missing has a byte in front: negative for none.
        return walker(buffer, position + 1) if buffer[position] < 0x80 else position + 1

    return nullable_walker, 1


def _plain_walker(kind: str, *, flexible: bool) -> tuple[Walker, int]:
    if (size := _FIXED.get(kind)) is not None:
        return (lambda _buffer, position: position + size), size
    if flexible:
        return _compact_walker, 1
    length = _LENGTHS[kind]

    def walk(buffer: memoryview, position: int) -> int:
        count: int = length.unpack_from(buffer, position)[0]
        return position + length.size + max(0, count)

    return walk, length.size


def _compact_walker(buffer: memoryview, position: int) -> int:
    length, position = read_unsigned(buffer, position)
    return position + max(0, length - 1)


def _array_walker(element: Walker, smallest: int, *, flexible: bool, required: str | None) -> Walker:
    def walk(buffer: memoryview, position: int) -> int:
        if flexible:
            count, position = read_unsigned(buffer, position)
            count -= 1
        else:
            count = _ARRAY_LENGTH.unpack_from(buffer, position)[0]
            position += 4
        if count < 0 and required is not None:
            raise MalformedRequestError(f"the array {required} is null, and must not be")
        if count * max(1, smallest) > len(buffer) - position:
            raise MalformedRequestError(f"an array claims {count} elements, more than the request can hold")
        for _ in range(count):
            position = element(buffer, position)
        return position

    return walk


def _walk_tags(buffer: memoryview, position: int, tagged: dict[int, Walker]) -> int:
    start = position
    count, position = read_unsigned(buffer, position)
    if not count:
        return position
    known: list[memoryview] = []
    for _ in range(count):
        field = position
        tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        end = position + size
        if end > len(buffer):
            raise MalformedRequestError("the request ends in the middle of a tagged field")
        if (walker := tagged.get(tag)) is not None:
            try:
                walker(buffer[:end], position)
            except _UnknownTagsError:
                # Cutting something out would make the size of this field untrue.
                raise MalformedRequestError("a tagged field inside a tagged field is not known") from None
            known.append(buffer[field:end])
        position = end
    if len(known) != count:
        raise _UnknownTagsError(start, position, unsigned(len(known)) + b"".join(known))
    return position
