"""Records of a source: rows to keys and values, and back.

Invariants: a key of one column is not wrapped, a key of several is a record; a value is a record unless
WRAP_SINGLE_VALUE says otherwise; field names are case-insensitive when reading. A windowed key ends with the
window's start (8 bytes), that of a session with its end and its start, as in Kafka Streams. A row is a dict
by column name, including the pseudo-columns of its record.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Protocol

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, Source
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import avro, avro_types, delimited, json_text, kafka
from headrace.pipeline.statements.tree import SourceKind

_WINDOW_TIME: Final = struct.Struct(">q")
_SESSION_TIMES: Final = struct.Struct(">qq")


class Schemas(Protocol):
    """What is needed from a schema registry; `RegistrySchemas` is one in the same process."""

    def register(self, subject: str, schema: str, /) -> int: ...

    def schema_by_id(self, schema_id: int, /) -> str | None: ...

    def schemas_of(self, subject: str, /) -> dict[int, str]:
        """All schemas of a subject, by id, in the order of their versions."""
        ...

    def why_not(self, subject: str, schema: str, /) -> str | None:
        """Why the subject's compatibility level forbids the schema; None if it would be accepted."""
        ...


class Serializer:
    """Serializes the records of one source. Raises ValueProblemError."""

    def __init__(self, source: Source, schemas: Schemas) -> None:
        self.source = source
        self._schemas = schemas

    def key(self, row: dict[str, Any]) -> bytes | None:
        columns = self.source.key
        if not columns:
            return None
        values = [row.get(column.name) for column in columns]
        if all(value is None for value in values):
            return None
        return self._write(values, columns, self.source.key_encoding, is_key=True, wrapped=len(columns) > 1)

    def value(self, row: dict[str, Any]) -> bytes | None:
        columns, encoding = self.source.value, self.source.value_encoding
        if not columns:
            # For a table without value columns, as a null value would delete the row.
            return b"" if self.source.kind is SourceKind.TABLE else None
        values = [row.get(column.name) for column in columns]
        wrapped = len(columns) > 1 or encoding.wrapped is not False
        return self._write(values, columns, encoding, is_key=False, wrapped=wrapped)

    def _write(
        self,
        values: list[Any],
        columns: tuple[Column, ...],
        encoding: Encoding,
        *,
        is_key: bool,
        wrapped: bool,
    ) -> bytes | None:
        match encoding.format:
            case Format.JSON:
                return json_text.serialized(values, columns, wrapped=wrapped)
            case Format.AVRO:
                schema = self._avro_schema(columns, encoding, is_key=is_key, wrapped=wrapped)
                return avro.serialized(values, columns, schema, wrapped=wrapped)
            case Format.DELIMITED:
                return delimited.serialized(values, columns, encoding.delimiter)
            case Format.KAFKA:
                return kafka.serialized(values, columns)
            case Format.NONE:
                return None

    def _avro_schema(
        self, columns: tuple[Column, ...], encoding: Encoding, *, is_key: bool, wrapped: bool
    ) -> tuple[int, str]:
        if encoding.schema_id is not None:
            found = self._schemas.schema_by_id(encoding.schema_id)
            if found is None:
                raise ValueProblemError(f"the registry has no schema {encoding.schema_id}")
            return encoding.schema_id, found
        text = avro_types.schema_text(columns, wrapped=wrapped, full_name=encoding.schema_name)
        subject = f"{self.source.topic}-{'key' if is_key else 'value'}"
        return self._schemas.register(subject, text), text

    def read_key(self, data: bytes | None) -> dict[str, Any]:
        """The key's columns, and the window if the source has one."""
        window: dict[str, Any] = {}
        if self.source.window is not None:
            data, window = self._split_window(data)
        if data is None:
            return {**dict.fromkeys((column.name for column in self.source.key), None), **window}
        columns = self.source.key
        row = self._read(data, columns, self.source.key_encoding, wrapped=len(columns) > 1)
        return {**row, **window}

    def _split_window(self, data: bytes | None) -> tuple[bytes | None, dict[str, Any]]:
        assert self.source.window is not None
        size = self.source.window.size_ms
        length = _WINDOW_TIME.size if size is not None else _SESSION_TIMES.size
        if data is None or len(data) < length:
            raise ValueProblemError("the key has no window")
        if size is None:
            times = _SESSION_TIMES.unpack(data[-length:])
            start, end = min(times), max(times)
        else:
            (start,) = _WINDOW_TIME.unpack(data[-length:])
            end = start + size
        return data[:-length], {"WINDOWSTART": start, "WINDOWEND": end}

    def read_value(self, data: bytes | None) -> dict[str, Any]:
        columns, encoding = self.source.value, self.source.value_encoding
        if data is None or not columns:
            return dict.fromkeys((column.name for column in columns), None)
        return self._read(data, columns, encoding, wrapped=len(columns) > 1 or encoding.wrapped is not False)

    def _read(
        self, data: bytes, columns: tuple[Column, ...], encoding: Encoding, *, wrapped: bool
    ) -> dict[str, Any]:
        match encoding.format:
            case Format.JSON:
                values = json_text.deserialized(data, columns, wrapped=wrapped)
            case Format.AVRO:
                values = avro.deserialized(data, columns, self._schemas.schema_by_id, wrapped=wrapped)
            case Format.DELIMITED:
                values = delimited.deserialized(data, columns, encoding.delimiter)
            case Format.KAFKA:
                values = kafka.deserialized(data, columns)
            case Format.NONE:
                values = [None for _ in columns]
        return {column.name: value for column, value in zip(columns, values, strict=True)}
