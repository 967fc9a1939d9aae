"""Avro bodies into Arrow arrays, one field of all records after the other.

`decoder_of` makes a decoder from what a schema stores (`lake/shapes.py`) and the types of the columns. It
knows single values, records within records, and unions of one of these with null; the value must have the
type of its column. For everything else, arrays, maps, other unions, it gives the reason why not.

The values are those of `pipeline/spark/lake/avro_values.py`, which reads one row after the other, and a test
compares the two on generated schemas. What a decoder does not take for certain, a number outside of its range
or an unknown symbol, marks the record as damaged: the caller reads the batch in rows then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import shape_of
from headrace.lake.columns import arrays
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.shapes import Leaf, Null, Record, Shape, Stored, Union
from headrace.lake.types import Decimal, Struct, Type, ddl
from headrace.wire.column_reader import INT_BYTES, ColumnReader, Flags, Numbers

# The years 1 to 9999, which is what Parquet's readers know.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_PER_SECOND: Final = {Stored.MILLIS: 1_000, Stored.MICROS: 1_000_000, Stored.NANOS: 1_000_000_000}
_MOST_DECIMAL_BYTES: Final = 16


class UnsupportedShapeError(Exception):
    """Records of this shape cannot be read in columns; says why."""


# One value of each record: from a reader of those that have it. Spread over all records afterwards.
_Values = Callable[[ColumnReader], "Column"]


@dataclass(frozen=True, slots=True)
class Column:
    """Values as they were read: numbers, slices of the buffer or fields of records.

    `made` makes the array; it gets the parts, each with a value for each record, and which are valid.
    """

    parts: tuple[Any, ...]
    made: Callable[[tuple[Any, ...], Flags | None], pa.Array]

    def array(self, valid: Flags | None = None) -> pa.Array:
        return self.made(self.parts, valid)

    def spread(self, lanes: Numbers, reader: ColumnReader) -> Column:
        """For all records of the reader; those that are not among the lanes get any value."""
        return Column(tuple(_spread(part, lanes, reader) for part in self.parts), self.made)


@dataclass(frozen=True, slots=True)
class _Positions:
    """Positions in the buffer, which must never fall from one record to the next."""

    at: Numbers


@dataclass(frozen=True, slots=True)
class _Nested:
    """A field of a record within a record: its column, and where it is not null (None: everywhere)."""

    column: Column
    valid: Flags | None


def decoder_of(schema: str, columns: Struct) -> RecordDecoder:
    """Raises UnsupportedShapeError."""
    try:
        shape = shape_of(schema)
    except HeadraceError as error:
        raise UnsupportedShapeError(error.message) from error
    if not isinstance(shape, Record):
        raise UnsupportedShapeError("its values are not records")
    return RecordDecoder(shape, columns)


class RecordDecoder:
    """Reads the fields of a record that are columns, and skips the others."""

    def __init__(self, record: Record, columns: Struct) -> None:
        self._columns = columns
        self._fields: list[tuple[str | None, _Values | None, int | None]] = []
        for part in record.fields:
            column = columns.find(part.name)
            values, null = _field(part.shape, None if column is None else column.type, part.name)
            self._fields.append((None if column is None else column.name, values, null))

    def arrays(self, reader: ColumnReader) -> dict[str, pa.Array]:
        """By the names of the columns; those that the records lack are not among them."""
        found = [(name, _read(reader, values, null)) for name, values, null in self._fields]
        if not reader.good.all():
            # Values of damaged records are anything, also such that no array can be made of them.
            return {}
        return {
            name: pa.nulls(len(reader), arrow_type(self._type(name)))
            if column is None
            else column.array(valid)
            for name, (column, valid) in found
            if name is not None
        }

    def _type(self, name: str) -> Type:
        field = self._columns.find(name)
        assert field is not None
        return field.type


def _read(
    reader: ColumnReader, values: _Values | None, null: int | None
) -> tuple[Column | None, Flags | None]:
    """The next field of all records, and where it is not null. No column if it is null everywhere."""
    if values is None:
        if null is not None:
            reader.damage(reader.zigzag() != 0)
        return None, None
    if null is None:
        return values(reader), None
    branch = reader.zigzag()
    reader.damage((branch < 0) | (branch > 1))
    valid = branch != null
    if valid.all():
        return values(reader), None
    lanes = np.flatnonzero(valid)
    some = reader.some(lanes)
    column = values(some)
    reader.merge(lanes, some)
    return column.spread(lanes, reader), valid


def _field(shape: Shape, kind: Type | None, path: str) -> tuple[_Values | None, int | None]:
    """How the values are read (None: there are none but null), and the branch of the union that is null."""
    if isinstance(shape, Null):
        return None, None
    if not isinstance(shape, Union):
        return _values(shape, kind, path), None
    only = shape.only
    if len(shape.branches) == 1:
        if only is None:
            return None, 0
        raise UnsupportedShapeError(f"field {path} is a union of one type")
    if only is None or len(shape.branches) != 2:
        raise UnsupportedShapeError(f"field {path} is a union")
    null = 0 if isinstance(shape.branches[0].shape, Null) else 1
    return _values(only.shape, kind, path), null


def _values(shape: Shape, kind: Type | None, path: str) -> _Values:
    match shape:
        case Leaf():
            if kind is not None and shape.type != kind:
                raise UnsupportedShapeError(f"field {path} is {ddl(shape.type)}, its column is {ddl(kind)}")
            return _leaf(shape, path)
        case Record() if kind is None or isinstance(kind, Struct):
            return _record(shape, kind, path)
        case _:
            raise UnsupportedShapeError(f"field {path} is not a single value")


def _record(record: Record, kind: Struct | None, path: str) -> _Values:
    """Columns of fields that the record lacks are null; fields without a column are skipped."""
    fields = []
    for part in record.fields:
        column = None if kind is None else kind.find(part.name)
        values, null = _field(part.shape, None if column is None else column.type, f"{path}.{part.name}")
        fields.append((None if column is None else column.name, values, null))
    columns = () if kind is None else kind.fields

    def read(reader: ColumnReader) -> Column:
        found: dict[str, _Nested] = {}
        for name, values, null in fields:
            column, valid = _read(reader, values, null)
            if name is not None and column is not None:
                found[name] = _Nested(column, valid)
        wanted = tuple(found.get(each.name) for each in columns)
        return Column((len(reader), *wanted), made)

    def made(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
        count, *nested = parts
        children = [
            pa.nulls(count, arrow_type(each.type))
            if part is None
            else part.column.array(_both(part.valid, valid))
            for each, part in zip(columns, nested, strict=True)
        ]
        kinds = [pa.field(each.name, arrow_type(each.type)) for each in columns]
        return pa.StructArray.from_arrays(
            children, fields=kinds, mask=None if valid is None else pa.array(~valid)
        )

    return read


def _leaf(leaf: Leaf, path: str) -> _Values:
    if isinstance(leaf.type, Decimal):
        if leaf.size > _MOST_DECIMAL_BYTES:
            raise UnsupportedShapeError(f"field {path} is a decimal of {leaf.size} bytes")
        return _decimal(leaf, arrow_type(leaf.type))
    reader = _LEAVES.get(leaf.form)
    if reader is None:
        raise UnsupportedShapeError(f"field {path} is {leaf.form}")
    return reader(leaf)


def _number(kind: pa.DataType, read: Callable[[ColumnReader], Any]) -> _Values:
    def made(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
        return pa.array(parts[0], kind, mask=None if valid is None else ~valid)

    return lambda reader: Column((read(reader),), made)


def _boolean(_: Leaf) -> _Values:
    def read(reader: ColumnReader) -> Any:
        found = reader.byte()
        reader.damage(found > 1)
        return found == 1

    return _number(pa.bool_(), read)


def _int(leaf: Leaf) -> _Values:
    def read(reader: ColumnReader) -> Any:
        found = reader.zigzag(INT_BYTES)
        if leaf.stored is Stored.DATE:
            reader.damage((found < _FIRST_DAY) | (found > _LAST_DAY))
        return found.astype(np.int32)

    return _number(arrow_type(leaf.type), read)


def _long(leaf: Leaf) -> _Values:
    per_second = _PER_SECOND.get(leaf.stored)
    if per_second is None:
        return _number(pa.int64(), ColumnReader.zigzag)
    low = max(_FIRST_SECOND * per_second, -(2**63))
    high = min((_LAST_SECOND + 1) * per_second - 1, 2**63 - 1)

    def read(reader: ColumnReader) -> Any:
        found = reader.zigzag()
        reader.damage((found < low) | (found > high))
        if leaf.stored is Stored.MILLIS:
            return found * 1_000
        return found if leaf.stored is Stored.MICROS else found // 1_000

    return _number(arrow_type(leaf.type), read)


def _float(size: int) -> Callable[[Leaf], _Values]:
    def of(leaf: Leaf) -> _Values:
        return _number(
            arrow_type(leaf.type), lambda reader: reader.fixed(size).view(f"<f{size}").reshape(len(reader))
        )

    return of


def _lengths(reader: ColumnReader) -> tuple[_Positions, Numbers]:
    length = reader.zigzag()
    start = reader.position
    return _Positions(start), reader.skip(length)


def _text(_: Leaf) -> _Values:
    def read(reader: ColumnReader) -> Column:
        start, length = _lengths(reader)
        return Column((reader.buffer, start, length), _made_texts)

    return read


def _binary(_: Leaf) -> _Values:
    def read(reader: ColumnReader) -> Column:
        start, length = _lengths(reader)
        return Column((reader.buffer, start, length), _made_binaries)

    return read


def _fixed(leaf: Leaf) -> _Values:
    def read(reader: ColumnReader) -> Column:
        start = reader.position
        length = reader.skip(np.full(len(reader), leaf.size, np.int64))
        return Column((reader.buffer, _Positions(start), length), _made_binaries)

    return read


def _enum(leaf: Leaf) -> _Values:
    symbols = pa.array(leaf.symbols, pa.string())

    def read(reader: ColumnReader) -> Column:
        found = reader.zigzag()
        reader.damage((found < 0) | (found >= len(symbols)))
        return Column((found,), made)

    def made(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
        return symbols.take(pa.array(parts[0], mask=None if valid is None else ~valid))

    return read


def _decimal(leaf: Leaf, kind: pa.DataType) -> _Values:
    def read(reader: ColumnReader) -> Column:
        if leaf.form == "fixed":
            start = _Positions(reader.position)
            length = reader.skip(np.full(len(reader), leaf.size, np.int64))
        else:
            start, length = _lengths(reader)
        reader.damage((length < 1) | (length > _MOST_DECIMAL_BYTES))
        return Column((reader.buffer, start, length), made)

    def made(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
        return arrays.decimals(parts[0], parts[1].at, parts[2], kind, valid)

    return read


def _made_texts(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
    return arrays.texts(parts[0], parts[1].at, parts[2], valid)


def _made_binaries(parts: tuple[Any, ...], valid: Flags | None) -> pa.Array:
    return arrays.binaries(parts[0], parts[1].at, parts[2], valid)


def _spread(part: Any, lanes: Numbers, reader: ColumnReader) -> Any:
    match part:
        case _Positions():
            at = reader.position.copy()
            at[lanes] = part.at
            return _Positions(at)
        case _Nested():
            valid: Flags | None = None
            if part.valid is not None:
                valid = np.zeros(len(reader), np.bool_)
                valid[lanes] = part.valid
            return _Nested(part.column.spread(lanes, reader), valid)
        case int():
            return len(reader)
        case None:
            return None
        case _ if part is reader.buffer:
            return part
        case _:
            spread = np.zeros(len(reader), part.dtype)
            spread[lanes] = part
            return spread


def _both(first: Flags | None, second: Flags | None) -> Flags | None:
    if first is None or second is None:
        return first if second is None else second
    return first & second


_LEAVES: Final[Mapping[str, Callable[[Leaf], _Values]]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float(4),
    "double": _float(8),
    "string": _text,
    "bytes": _binary,
    "fixed": _fixed,
    "enum": _enum,
}
