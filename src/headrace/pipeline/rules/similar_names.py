"""Refuses names that differ only in case: Spark resolves names of columns and fields regardless of case.

In ksqlDB names in back-quotes keep their case, so `` `id` `` and `ID` are two columns. Reading them would be
ambiguous anyway: fields of JSON and Avro match columns regardless of case.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.catalogue.catalogue import Column, HeaderColumn
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import ArrayType, DataType, MapType, StructType


def check_names(columns: Iterable[Column | HeaderColumn], at: Position) -> None:
    """Raises UnsupportedError if two columns, or two fields of a STRUCT, differ only in case."""
    found = tuple(columns)
    _check((column.name for column in found), "columns", at)
    for column in found:
        _check_fields(column.type, at)


def check_aliases(aliases: Iterable[str], at: Position) -> None:
    _check(aliases, "sources", at)


def _check(names: Iterable[str], what: str, at: Position) -> None:
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.upper(), name)
        if other != name:
            raise UnsupportedError(
                f"The {what} {written(other)} and {written(name)} differ only in case, which Spark cannot "
                "tell apart.",
                at,
                remedy="Rename one of them.",
            )


def _check_fields(data_type: DataType, at: Position) -> None:
    match data_type:
        case ArrayType(element):
            _check_fields(element, at)
        case MapType(key, value):
            _check_fields(key, at)
            _check_fields(value, at)
        case StructType(fields):
            _check((field.name for field in fields), "fields", at)
            for field in fields:
                _check_fields(field.type, at)
        case _:
            pass
