"""INSERT INTO … VALUES, and rows that clients stream in: one row, one record in the source's formats.

A row is checked against the columns before it is written, and acknowledged once the log has it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Source
from headrace.pipeline.expressions.compiling import typed
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.expressions.values import ValueProblemError, coerced, milliseconds_of
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import (
    ArrayConstructor,
    Cast,
    Expression,
    MapConstructor,
    NullLiteral,
    StructConstructor,
)
from headrace.pipeline.statements.position import NOWHERE, Position
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import InsertValues, SourceKind
from headrace.pipeline.statements.types import (
    BIGINT,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

ROWTIME: Final = Column(name="ROWTIME", type=BIGINT)


class Inserter:
    """Writes rows to one source. Raises StatementError for a row that does not match its columns."""

    def __init__(self, source: Source, cluster: Cluster, schemas: Schemas, at: Position = NOWHERE) -> None:
        self._source = source
        self._cluster = cluster
        self._serializer = Serializer(source, schemas)
        self._at = at
        self._columns = {column.name: column for column in (*source.columns, ROWTIME)}

    def insert(self, row: Mapping[str, Any]) -> None:
        """`row` is by column name; missing columns are null."""
        checked = {name: self._checked(name, value) for name, value in row.items()}
        rowtime = checked.get(ROWTIME.name)
        if self._source.kind is SourceKind.TABLE and all(
            checked.get(column.name) is None for column in self._source.key
        ):
            raise self._failed(
                "Failed to insert values. Value for primary key column(s) "
                f"{', '.join(column.name for column in self._source.key)} is required for tables"
            )
        timestamp = rowtime if rowtime is not None else self._timestamp(checked)
        try:
            key, value = self._serializer.key(checked), self._serializer.value(checked)
        except ValueProblemError as error:
            raise self._failed(f"Could not serialize row: {error}") from error
        self._cluster.produce(
            self._source.topic,
            key,
            value,
            timestamp_ms=timestamp if timestamp is not None else time.time_ns() // 1_000_000,
        )

    def _checked(self, name: str, value: Any) -> Any:
        column = self._columns.get(name)
        if column is None:
            raise self._failed(
                f"Column name `{name}` does not exist. {did_you_mean(name, self._columns)}".strip()
            )
        try:
            return coerced(value, column.type)
        except ValueProblemError as error:
            raise self._failed(f"Column `{name}`: {error}") from error

    def _timestamp(self, row: Mapping[str, Any]) -> int | None:
        """The time in the column that TIMESTAMP names, if it needs no format."""
        named = self._source.timestamp
        if named is None or named.format is not None:
            return None
        value, column = row.get(named.name), self._columns[named.name]
        if value is not None and column.type is TIMESTAMP:
            return milliseconds_of(value)
        return value if column.type is BIGINT else None

    def _failed(self, reason: str) -> StatementError:
        return StatementError(f"Failed to insert values into '{self._source.name}'. {reason}", self._at)


def target_of(name: str, catalogue: Catalogue, at: Position = NOWHERE) -> Source:
    """The source to insert into, if it accepts rows."""
    source = catalogue.sources.get(name)
    if source is None:
        raise StatementError(
            f"Cannot insert values into an unknown stream/table: `{name}` "
            f"{did_you_mean(name, catalogue.sources)}".strip(),
            at,
        )
    if source.window is not None:
        raise StatementError("Cannot insert values into windowed stream/table!", at)
    if source.read_only:
        raise StatementError(f"Cannot insert values into read-only {source.kind.value.lower()}: {name}", at)
    return source


def row_of(statement: InsertValues, source: Source, catalogue: Catalogue) -> dict[str, Any]:
    """The row that the statement gives. Raises StatementError."""
    headers = {column.name for column in source.headers}
    names = statement.columns or tuple(column.name for column in source.columns)
    inserted_headers = [name for name in names if name in headers]
    if inserted_headers:
        raise StatementError(
            f"Cannot insert into HEADER columns: {', '.join(inserted_headers)}", statement.at
        )
    if len(names) != len(statement.values):
        raise StatementError(
            f"Failed to insert values into '{source.name}'. Expected {len(names)} values "
            f"({', '.join(names)}) but got {len(statement.values)}.",
            statement.at,
        )
    if len(set(names)) != len(names):
        raise StatementError(
            f"Failed to insert values into '{source.name}'. A column is named twice.", statement.at
        )
    scope = Scope(types=catalogue.types, clause="VALUES")
    types = {column.name: column.type for column in source.columns}
    return {
        name: typed(_with_typed_nulls(value, types.get(name)), scope).python({})
        for name, value in zip(names, statement.values, strict=True)
    }


def _with_typed_nulls(expression: Expression, kind: DataType | None) -> Expression:
    """A constructor in which NULL has the column's type there, unless another value gives it one."""
    match expression, kind:
        case ArrayConstructor(), ArrayType(element):
            return replace(expression, values=_typed_nulls(expression.values, element))
        case MapConstructor(), MapType(_, value):
            values = _typed_nulls(tuple(each for _, each in expression.entries), value)
            keys = (key for key, _ in expression.entries)
            return replace(expression, entries=tuple(zip(keys, values, strict=True)))
        case StructConstructor(), StructType():
            known = {field.name: field.type for field in kind.fields}
            fields = tuple(
                (name, _typed_nulls((each,), known.get(name, VARCHAR))[0]) for name, each in expression.fields
            )
            return replace(expression, fields=fields)
        case _:
            return expression


def _typed_nulls(values: tuple[Expression, ...], kind: DataType) -> tuple[Expression, ...]:
    if values and all(isinstance(each, NullLiteral) for each in values):
        return tuple(Cast(each, kind, at=each.at) for each in values)
    return tuple(_with_typed_nulls(each, kind) for each in values)
