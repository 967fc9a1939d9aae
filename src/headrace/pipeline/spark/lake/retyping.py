"""From one type of a column to another: for values that were transformed, or that an older table holds
otherwise.

The rules for single values are those of `fitting.py`.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column

from headrace.lake.column_names import within
from headrace.lake.types import Array, Map, Struct, Type, ddl
from headrace.pipeline.spark.lake.fitting import (
    SAME,
    Expression,
    Fit,
    absent,
    elements,
    fields,
    map_values,
    misfit,
    single,
)


def fitted(source: Type, target: Type, path: str) -> Fit:
    """How values of one type become those of another; `path` is for the problems."""
    if source == target:
        return SAME
    match source, target:
        case Struct(), Struct():
            return _struct(source, target, path)
        case Array(), Array():
            return elements(fitted(source.element, target.element, f"{path}[]"))
        case Map(), Map():
            return map_values(fitted(source.value, target.value, f"{path}[]"))
        case (Struct() | Array() | Map(), _) | (_, Struct() | Array() | Map()):
            return misfit(path, ddl(source), target)
        case _:
            return single(source, target, path)


def _struct(source: Struct, target: Struct, path: str) -> Fit:
    parts: list[tuple[str, Expression, Fit]] = []
    for column in target.fields:
        field = source.find(column.name)
        if field is None:
            parts.append((column.name, lambda value: value, absent(column.type)))
            continue
        fit = fitted(field.type, column.type, within(path, column.name))
        parts.append((column.name, partial(_field, name=field.name), fit))
    return fields(parts, target)


def _field(value: Column, *, name: str) -> Column:
    return value.getField(name)
