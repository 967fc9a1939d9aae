"""DELIMITED: a line of fields, quoted if necessary; an empty field is null."""

from __future__ import annotations

import csv
import io
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats.json_text import read, text_of
from headrace.pipeline.statements.types import BOOLEAN, DATE, TIME, TIMESTAMP

_COUNTED: Final = frozenset({DATE, TIME, TIMESTAMP})
_NAMES: Final = {"SPACE": " ", "TAB": "\t"}


def serialized(values: list[Any], columns: tuple[Column, ...], delimiter: str) -> bytes:
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, (list, dict)):
            raise ValueProblemError(f"DELIMITED cannot hold {column.name} of type {column.type}")
    line = io.StringIO()
    writer = csv.writer(line, delimiter=_NAMES.get(delimiter, delimiter), lineterminator="")
    writer.writerow([_text(value) for value in values])
    return line.getvalue().encode()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else text_of(value).strip('"')


def deserialized(data: bytes, columns: tuple[Column, ...], delimiter: str) -> list[Any]:
    try:
        lines = list(csv.reader([data.decode()], delimiter=_NAMES.get(delimiter, delimiter), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueProblemError(f"not delimited text: {error}") from error
    # Of an empty line the reader makes no field at all.
    fields = (lines[0] if lines else []) or [""]
    if len(fields) != len(columns):
        raise ValueProblemError(f"{len(fields)} fields instead of {len(columns)}")
    return [_value(field, column) for field, column in zip(fields, columns, strict=True)]


def _value(field: str, column: Column) -> Any:
    if field == "":
        return None
    if column.type is BOOLEAN:
        return field.strip().lower() == "true"
    # Dates and times are numbers of days and milliseconds.
    return read(_number(field) if column.type in _COUNTED else field, column.type)


def _number(field: str) -> Any:
    try:
        return int(field)
    except ValueError:
        return field
