"""A source's key, and what `*` stands for: key columns, then the bounds of windows, then all others."""

from __future__ import annotations

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.query_plan import WINDOW_COLUMNS, Read
from headrace.pipeline.rules.draft import Key, StarColumn
from headrace.pipeline.statements.expressions import ColumnReference


def own_keys(read: Read, scope: Scope, *, is_join: bool) -> tuple[Key, ...]:
    keys = []
    for column in read.source.key:
        reference = ColumnReference(column.name, read.alias if is_join else None, at=read.at)
        keys.append(Key(name=column.name, expressions=(reference,), value=compiled(reference, scope)))
    return tuple(keys)


def star_of(read: Read, *, is_join: bool) -> tuple[StarColumn, ...]:
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
