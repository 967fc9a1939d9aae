"""Single values, or keys, as the columns of a table have them: a reader for each kind of converter.

The rules are those of `pipeline/spark/lake/values.py` and the readers that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import VALUE, columns_of
from headrace.lake.column_names import within
from headrace.lake.sink import Converter, ConverterKind
from headrace.lake.types import Array, Field, Map, Simple, Struct, Type
from headrace.query.tail.avro_rows import row_reader
from headrace.query.tail.envelope_rows import EnvelopeSide
from headrace.query.tail.feeds import SchemaById
from headrace.query.tail.json_rows import json_row
from headrace.query.tail.outcomes import RefusedError, UnsureError

# Before the body of an Avro value: a zero byte and the id of the schema in four bytes.
_FRAME: Final = 5

_Body = Callable[[bytes], Mapping[str, Any] | None]


class SideValues(Protocol):
    """Reads values, or keys."""

    def read(self, raw: bytes) -> Any:
        """By the names of columns where the type is a struct; None for null.

        Raises RefusedError and UnsureError, and HeadraceError if a schema cannot be had.
        """
        ...


def values_of(converter: Converter, columns: Struct, *, schema_by_id: SchemaById) -> SideValues:
    """For the values of a topic, as the columns of a table."""
    match converter.kind:
        case ConverterKind.AVRO:
            return AvroSide(columns, side="value", schema_by_id=schema_by_id)
        case ConverterKind.JSON if converter.has_schemas:
            return EnvelopeSide(columns, side="value")
        case ConverterKind.JSON:
            return _JsonValues(columns)
        case ConverterKind.STRING:
            return _OneColumn(Texts(), columns, Simple.STRING)
        case ConverterKind.BYTES:
            return _OneColumn(_Bytes(), columns, Simple.BINARY)


def keys_of(converter: Converter, kind: Type, *, schema_by_id: SchemaById) -> SideValues:
    """For the keys, whose column has this type."""
    match converter.kind:
        case ConverterKind.AVRO if isinstance(kind, Struct):
            return AvroSide(kind, side="key", schema_by_id=schema_by_id)
        case ConverterKind.JSON if converter.has_schemas and isinstance(kind, Struct):
            return EnvelopeSide(kind, side="key")
        case ConverterKind.STRING if kind is Simple.STRING:
            return Texts()
        case ConverterKind.BYTES if kind is Simple.BINARY:
            return _Bytes()
        case _:
            return _Unsure("its keys are such as only the lake can store")


def read_as(converter: Converter, columns: Struct, *, side: str, schema_by_id: SchemaById) -> SideValues:
    """Values or keys as the pipeline reads them into these columns, to transform them.

    Only the lake can tell what it makes of fields that it has not read yet, or read as another type: the next
    run may read them all otherwise.
    """

    def check(own: Struct) -> str:
        return _unread(own, columns, "")

    match converter.kind:
        case ConverterKind.AVRO:
            return AvroSide(columns, side=side, schema_by_id=schema_by_id, check=check)
        case ConverterKind.JSON if converter.has_schemas:
            return EnvelopeSide(columns, side=side, check=check)
        case ConverterKind.JSON:
            return _JsonValues(columns, is_strict=True)
        case ConverterKind.STRING:
            return Texts()
        case ConverterKind.BYTES:
            return _Bytes()


def _unread(own: Type, columns: Type, path: str) -> str:
    """Why values of a type are not read as they are; empty if they are."""
    match own, columns:
        case Struct(), Struct():
            for each in own.fields:
                at = within(path, each.name)
                column = columns.find(each.name)
                if column is None or column.name != each.name:
                    return f"the lake has not read a field {at} yet"
                if why := _unread(each.type, column.type, at):
                    return why
            return ""
        case Array(), Array():
            return _unread(own.element, columns.element, f"{path}[]")
        case Map(), Map():
            return _unread(own.value, columns.value, f"{path}[]")
        case _:
            return "" if own == columns else f"the lake reads the field {path} as another type"


class AvroSide:
    """Avro in Confluent's wire format. Remembers the reader of each schema.

    `check` says why a record with these columns cannot be read here; empty if it can.
    """

    def __init__(
        self,
        columns: Struct,
        *,
        side: str,
        schema_by_id: SchemaById,
        check: Callable[[Struct], str] | None = None,
    ) -> None:
        self._check = check
        self._columns = columns
        self._side = side
        self._schema_by_id = schema_by_id
        self._readers: dict[int, _Body | str] = {}

    def read(self, raw: bytes) -> Mapping[str, Any] | None:
        if len(raw) < _FRAME or raw[0]:
            raise RefusedError(
                f"The {self._side} is not in Confluent's wire format: "
                "it has no zero byte and schema id in front."
            )
        schema_id = int.from_bytes(raw[1:_FRAME])
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._reader(schema_id)
        if isinstance(reader, str):
            raise UnsureError(reader)
        return reader(raw[_FRAME:])

    def _reader(self, schema_id: int) -> _Body | str:
        text = self._schema_by_id(schema_id)
        if text is None:
            # It may have it later: not remembered.
            raise RefusedError(f"The registry has no schema with id {schema_id}.")
        try:
            why = "" if self._check is None else self._check(columns_of(text))
            return why or row_reader(text, self._columns)
        except HeadraceError as error:
            return f"schema {schema_id}: {error.message}"


class Texts:
    """Malformed UTF-8 is replaced, in Java as in Python."""

    def read(self, raw: bytes) -> str:
        return raw.decode("utf-8", "replace")


class _Bytes:
    def read(self, raw: bytes) -> bytes:
        return raw


class _Unsure:
    def __init__(self, reason: str) -> None:
        self._reason = reason

    def read(self, raw: bytes) -> Any:  # noqa: ARG002
        raise UnsureError(self._reason)


class _JsonValues:
    def __init__(self, columns: Struct, *, is_strict: bool = False) -> None:
        self._columns = columns
        self._is_strict = is_strict

    def read(self, raw: bytes) -> Mapping[str, Any]:
        return json_row(raw, self._columns, is_strict=self._is_strict)


class _OneColumn:
    """Values without fields, in a column of their own."""

    def __init__(self, inner: SideValues, columns: Struct, kind: Simple) -> None:
        self._inner = inner
        self._kind = kind
        self._column: Field | None = columns.find(VALUE)

    def read(self, raw: bytes) -> Mapping[str, Any]:
        if self._column is None or self._column.type is not self._kind:
            raise UnsureError(f"the table has no column {VALUE} of the type {self._kind.value}")
        return {self._column.name: self._inner.read(raw)}
