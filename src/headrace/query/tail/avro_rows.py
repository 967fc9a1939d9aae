"""Single Avro bodies as rows of a table: the slower twin of `lake/columns/avro_decoding.py`, for every shape.

`row_reader` makes, from what a schema stores and the columns of the table, what reads one body. The values
are those of `pipeline/spark/lake/avro_values.py`; tests compare it with the columns on generated schemas, and
its rules of fitting with Spark's own results. What Avro's Java decoder and this one could see differently
(numbers in more bytes than needed, booleans other than 0 and 1, bytes behind the body, malformed UTF-8, keys
that come twice) raises UnsureError. The entries of a map come in the order of the record; Spark's have the
order of a Java hash map.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.lake.avro_columns import VALUE, record_in, shape_of
from headrace.lake.shapes import (
    MOST_DIGITS,
    Entries,
    Items,
    Leaf,
    Null,
    Record,
    Shape,
    Stored,
    Union,
    Values,
    digits_of,
    type_of,
)
from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.query.tail.fitting import misfit, single, stored
from headrace.query.tail.outcomes import RefusedError, UnsureError

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_INT_BITS: Final = 32
_LONG_BITS: Final = 64
# Elements may take no bytes at all.
_MOST_ELEMENTS: Final = 1_000_000

# Reads the value at the position; the value, fitted into its column, and the position behind it.
Reader = Callable[[bytes, int], tuple[Any, int]]


class DamagedError(Exception):
    """The body ends too early, or has a number that its schema does not allow."""


def row_reader(schema: str, columns: Struct) -> Callable[[bytes], Mapping[str, Any] | None]:
    """What reads a body; None for null. Raises lake_unsupported if the schema cannot become columns; the
    reader raises RefusedError and UnsureError.

    A value that is no record is in the column `value`.
    """
    shape = shape_of(schema)
    has_columns = type_of(shape) is not None
    only = record_in(shape)
    name = ""
    if isinstance(only, Record):
        read = _reader(shape, columns, "")
    else:
        column = columns.find(VALUE)
        name = "" if column is None else column.name
        read = _reader(shape, None if column is None else column.type, VALUE)

    def row(body: bytes) -> Mapping[str, Any] | None:
        try:
            found, position = read(body, 0)
        except (DamagedError, IndexError, struct.error) as error:
            raise RefusedError("The value cannot be read with the schema of its id.") from error
        if position != len(body):
            raise UnsureError("a value has bytes behind what its schema describes")
        if not has_columns:
            raise UnsureError("a value has a schema without columns")
        if not isinstance(only, Record):
            return {name: found} if name else {}
        values: Mapping[str, Any] | None = found
        return values

    return row


def _reader(shape: Shape, target: Type | None, path: str) -> Reader:  # noqa: PLR0911 - one for each shape
    """Without a target, the value is read and forgotten."""
    match shape:
        case Null():
            return lambda _, position: (None, position)
        case Leaf():
            return _leaf(shape, target, path)
        case Record():
            return _record(shape, target, path)
        case Items():
            return _items(shape, target, path)
        case Values():
            return _map(shape, target, path)
        case Entries():
            return _entries(shape, target, path)
        case Union():
            return _union(shape, target, path)


def _leaf(leaf: Leaf, target: Type | None, path: str) -> Reader:
    read = _plain(leaf)
    if target is None:
        return read
    if leaf.stored is Stored.DECIMAL:
        assert isinstance(leaf.type, Decimal)
        # As Spark reads it: with as many digits as the bytes can have.
        digits = min(digits_of(leaf.size), MOST_DIGITS) if leaf.form == "fixed" else MOST_DIGITS
        fit = single(Decimal(precision=digits, scale=leaf.type.scale), target, path)
    else:
        fit = single(leaf.type, target, path)
    moment = stored(leaf, path)

    def fitted(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read(data, position)
        return fit(moment(value)), position

    return fitted


def _plain(leaf: Leaf) -> Reader:
    if leaf.stored is Stored.DECIMAL:
        return _decimal(leaf)
    match leaf.form:
        case "enum":
            return _enum(leaf)
        case "fixed":
            return lambda data, position: _slice(data, position, leaf.size)
        case form:
            return _READERS[form]


def _zigzag(data: bytes, position: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= bits + 6:
            raise DamagedError
    if value >> bits or (shift > 7 and not byte):
        raise UnsureError("a number is written in more bytes than it needs")
    return (value >> 1) ^ -(value & 1), position


def _int(data: bytes, position: int) -> tuple[int, int]:
    return _zigzag(data, position, _INT_BITS)


def _long(data: bytes, position: int) -> tuple[int, int]:
    return _zigzag(data, position, _LONG_BITS)


def _boolean(data: bytes, position: int) -> tuple[bool, int]:
    byte = data[position]
    if byte > 1:
        raise UnsureError("a boolean is neither 0 nor 1")
    return byte == 1, position + 1


def _float(data: bytes, position: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, position)[0], position + 4


def _double(data: bytes, position: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, position)[0], position + 8


def _slice(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if size < 0 or end > len(data):
        raise DamagedError
    return data[position:end], end


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    size, position = _long(data, position)
    return _slice(data, position, size)


def _string(data: bytes, position: int) -> tuple[str, int]:
    content, position = _bytes(data, position)
    try:
        return content.decode(), position
    except UnicodeDecodeError as error:
        raise UnsureError("a text is not UTF-8") from error


def _enum(leaf: Leaf) -> Reader:
    def read(data: bytes, position: int) -> tuple[str, int]:
        number, position = _int(data, position)
        if not 0 <= number < len(leaf.symbols):
            raise DamagedError
        return leaf.symbols[number], position

    return read


def _decimal(leaf: Leaf) -> Reader:
    def read(data: bytes, position: int) -> tuple[int, int]:
        if leaf.form == "fixed":
            content, position = _slice(data, position, leaf.size)
        else:
            content, position = _bytes(data, position)
        if not content:
            raise UnsureError("a decimal has no bytes")
        return int.from_bytes(content, "big", signed=True), position

    return read


def _record(record: Record, target: Type | None, path: str) -> Reader:
    if target is not None and not isinstance(target, Struct):
        return _unfit(record, target, path)
    parts: list[tuple[str | None, Reader]] = []
    taken: set[str] = set()
    for part in record.fields:
        column = None if target is None else target.find(part.name)
        if column is not None and column.name in taken:
            column = None
        at = f"{path}.{part.name}" if path else part.name
        parts.append(
            (
                None if column is None else column.name,
                _reader(part.shape, None if column is None else column.type, at),
            )
        )
        if column is not None:
            taken.add(column.name)

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        for name, part in parts:
            value, position = part(data, position)
            if name is not None:
                found[name] = value
        return found, position

    return read


def _blocks(data: bytes, position: int, element: Callable[[int], int]) -> int:
    """Calls `element` for each, which gives the position behind it."""
    seen = 0
    while True:
        count, position = _long(data, position)
        if count < 0:
            count = -count
            _, position = _long(data, position)
        if not count:
            return position
        seen += count
        if seen > _MOST_ELEMENTS:
            raise UnsureError("an array or a map has very many elements")
        for _ in range(count):
            position = element(position)


def _items(items: Items, target: Type | None, path: str) -> Reader:
    if target is not None and not isinstance(target, Array):
        return _unfit(items, target, path)
    inner = _reader(items.element, None if target is None else target.element, f"{path}[]")

    def read(data: bytes, position: int) -> tuple[list[Any], int]:
        found: list[Any] = []

        def element(position: int) -> int:
            value, position = inner(data, position)
            found.append(value)
            return position

        return found, _blocks(data, position, element)

    return read


def _map(values: Values, target: Type | None, path: str) -> Reader:
    if target is not None and not isinstance(target, Map):
        return _unfit(values, target, path)
    inner = _reader(values.value, None if target is None else target.value, f"{path}[]")

    def read(data: bytes, position: int) -> tuple[list[tuple[str, Any]], int]:
        found: dict[str, Any] = {}

        def element(position: int) -> int:
            key, position = _string(data, position)
            if key in found:
                raise UnsureError("a map has a key twice")
            found[key], position = inner(data, position)
            return position

        position = _blocks(data, position, element)
        return list(found.items()), position

    return read


def _entries(entries: Entries, target: Type | None, path: str) -> Reader:
    if target is not None and not isinstance(target, Map):
        return _unfit(entries, target, path)
    value_type = None if target is None else target.value
    readers = [
        _reader(part.shape, Simple.STRING if at == entries.key else value_type, f"{path}[]")
        for at, part in enumerate(entries.entry.fields)
    ]

    def read(data: bytes, position: int) -> tuple[list[tuple[str, Any]], int]:
        found: dict[str, Any] = {}

        def element(position: int) -> int:
            parts = []
            for reader in readers:
                part, position = reader(data, position)
                parts.append(part)
            key = parts[entries.key]
            if key is None:
                raise RefusedError(f"Field {path} has a null key, which a map cannot have.")
            if key in found:
                raise UnsureError("a map has a key twice")
            found[key] = parts[entries.value]
            return position

        position = _blocks(data, position, element)
        return list(found.items()), position

    return read


def _union(union: Union, target: Type | None, path: str) -> Reader:
    is_struct = union.promoted is None and union.only is None and isinstance(target, Struct)
    branches: list[tuple[str | None, Reader]] = []
    for part in union.branches:
        if isinstance(part.shape, Null):
            branches.append((None, _reader(part.shape, None, path)))
        elif is_struct:
            assert isinstance(target, Struct)
            column = target.find(part.name)
            kind = None if column is None else column.type
            name = "" if column is None else column.name
            branches.append((name, _reader(part.shape, kind, f"{path}.{part.name}")))
        else:
            branches.append((None, _reader(part.shape, target, path)))

    def read(data: bytes, position: int) -> tuple[Any, int]:
        number, position = _int(data, position)
        if not 0 <= number < len(branches):
            raise DamagedError
        name, branch = branches[number]
        value, position = branch(data, position)
        if name is None:
            return value, position
        # A struct with a field for each branch, one of which has the value.
        return ({name: value} if name else {}), position

    return read


def _unfit(shape: Shape, target: Type, path: str) -> Reader:
    """A value of a kind that its column cannot hold."""
    kind = type_of(shape)
    skip = _reader(shape, None, path)
    if kind is None:
        return lambda data, position: (None, skip(data, position)[1])
    refuse = misfit(ddl(kind), target, path)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value, position = skip(data, position)
        return refuse(value), position

    return read


_READERS: Final[Mapping[str, Reader]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
}
