"""A source's columns in a query: all that can be named, its key, and those that `*` expands to."""

from __future__ import annotations

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.scope import PSEUDO_COLUMNS, WINDOW_COLUMNS, Scope, Visible
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.plan import Read
from headrace.pipeline.rules.draft import Key, StarColumn
from headrace.pipeline.statements.expressions import ColumnReference
from headrace.pipeline.statements.types import BIGINT, DataType


def columns_of(read: Read) -> tuple[Visible, ...]:
    """A source's own columns, those for headers, and pseudo-columns, under its alias."""
    source = read.source
    named: list[tuple[str, DataType]] = [(column.name, column.type) for column in source.columns]
    named += [(column.name, column.type) for column in source.headers]
    named += PSEUDO_COLUMNS.items()
    if source.window is not None:
        named += [(name, BIGINT) for name in WINDOW_COLUMNS]
    return tuple(
        Visible(name=name, source=read.alias, spark=spark_name(f"{read.alias}.{name}"), type=data_type)
        for name, data_type in named
    )


def own_keys(read: Read, scope: Scope, *, is_join: bool) -> tuple[Key, ...]:
    keys = []
    for column in read.source.key:
        reference = ColumnReference(column.name, read.alias if is_join else None, at=read.at)
        keys.append(Key(name=column.name, expressions=(reference,), value=compiled(reference, scope)))
    return tuple(keys)


def star_of(read: Read, *, is_join: bool) -> tuple[StarColumn, ...]:
    """Key columns, then the bounds of windows, then all others."""
    source = read.source
    names = [column.name for column in source.key]
    if source.window is not None:
        names += WINDOW_COLUMNS
    names += [column.name for column in source.value]
    names += [column.name for column in source.headers]
    source_name = read.alias if is_join else None
    return tuple(
        StarColumn(name=name, expression=ColumnReference(name, source_name), source=read.alias)
        for name in names
    )
