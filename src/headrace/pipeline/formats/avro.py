"""AVRO in Confluent's wire format: a zero byte, the schema's id, the record.

The schema of columns is ksqlDB's (`avro_types.py`). Records of other writers are read with the schema of
their id; field names are case-insensitive, and fields without a column are ignored.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import fastavro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.values import ValueProblemError, fitting_decimal
from headrace.pipeline.formats.avro_fit import Definitions, default_value, has_default
from headrace.pipeline.formats.json_text import read, text_of
from headrace.pipeline.statements.types import (
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

_PREFIX: Final = struct.Struct(">bI")


@lru_cache(maxsize=512)
def _definitions(text: str) -> Definitions:
    return Definitions(json.loads(text))


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def serialized(
    values: list[Any], columns: tuple[Column, ...], schema: tuple[int, str], *, wrapped: bool
) -> bytes:
    schema_id, text = schema
    parsed = _parsed(text)
    given = {column.name: value for column, value in zip(columns, values, strict=True)}
    content: Any = _fitting(given if wrapped else values[0], json.loads(text), _definitions(text))
    output = io.BytesIO()
    output.write(_PREFIX.pack(0, schema_id))
    try:
        fastavro.schemaless_writer(output, parsed, content)
    except Exception as error:
        # The library raises ValueError, TypeError, KeyError, and its own types.
        raise ValueProblemError(f"the row does not fit the schema {schema_id}: {error}") from error
    return output.getvalue()


def _fitting(content: Any, schema: Any, known: Definitions) -> Any:
    """The value as a schema wants it, which others may have registered: `id` for ID, entries for a map."""
    branch, _ = known.branch(schema)
    if content is None or not isinstance(branch, dict):
        return content
    match branch["type"]:
        case "array" if isinstance(content, dict):
            entries = [{"key": key, "value": value} for key, value in content.items()]
            return [_fitting(entry, branch["items"], known) for entry in entries]
        case "array":
            return [_fitting(element, branch["items"], known) for element in content]
        case "map":
            return {key: _fitting(element, branch["values"], known) for key, element in content.items()}
        case "record":
            return dict(_fields(content, branch, known))
        case _:
            return _number(content, branch) if isinstance(content, Decimal) else content


def _number(number: Decimal, schema: Any) -> Decimal:
    """With as many digits as the schema has. Raises ValueProblemError if the number would change."""
    kind = DecimalType(schema["precision"], schema.get("scale", 0))
    found = fitting_decimal(number, kind)
    if found != number:
        raise ValueProblemError(f"{number} does not fit {kind}")
    return found


def _fields(content: dict[str, Any], record: Any, known: Definitions) -> Iterator[tuple[str, Any]]:
    by_upper = {name.upper(): value for name, value in content.items()} | content
    for field in record["fields"]:
        name = field["name"]
        if name in by_upper or name.upper() in by_upper:
            yield name, _fitting(by_upper.get(name, by_upper.get(name.upper())), field["type"], known)
        elif has_default(field):
            yield name, default_value(known, field)


def deserialized(
    data: bytes,
    columns: tuple[Column, ...],
    schema_by_id: Callable[[int], str | None],
    *,
    wrapped: bool,
) -> list[Any]:
    content = decoded(data, schema_by_id)
    if not wrapped:
        return [_read(content, columns[0].type)]
    if not isinstance(content, dict):
        raise ValueProblemError("not an Avro record")
    fields = {name.upper(): value for name, value in content.items()} | content
    return [
        _read(fields.get(column.name, fields.get(column.name.upper())), column.type) for column in columns
    ]


def decoded(data: bytes, schema_by_id: Callable[[int], str | None]) -> Any:
    """The content of the bytes, by the schema with their id. Raises ValueProblemError."""
    if len(data) < _PREFIX.size or data[0] != 0:
        raise ValueProblemError("not in Confluent's wire format")
    _, schema_id = _PREFIX.unpack_from(data)
    text = schema_by_id(schema_id)
    if text is None:
        raise ValueProblemError(f"the registry has no schema {schema_id}")
    try:
        return fastavro.schemaless_reader(io.BytesIO(data[_PREFIX.size :]), _parsed(text), None)
    except Exception as error:
        # The library raises any kind of error for damaged bytes.
        raise ValueProblemError(f"not a record of schema {schema_id}: {error}") from error


def _read(content: Any, kind: DataType) -> Any:
    if isinstance(kind, ArrayType) and isinstance(content, list):
        return [_read(element, kind.element) for element in content]
    if isinstance(kind, MapType) and isinstance(content, list):
        # Connect writes maps whose keys may be null as arrays of entries.
        return {_read(entry["key"], kind.key): _read(entry["value"], kind.value) for entry in content}
    if isinstance(kind, MapType) and isinstance(content, dict):
        return {_read(key, kind.key): _read(element, kind.value) for key, element in content.items()}
    if isinstance(kind, StructType) and isinstance(content, dict):
        fields = {name.upper(): value for name, value in content.items()} | content
        return {
            field.name: _read(fields.get(field.name, fields.get(field.name.upper())), field.type)
            for field in kind.fields
        }
    if kind is VARCHAR and content is not None and not isinstance(content, str):
        return text_of(content)
    return read(content, kind)
