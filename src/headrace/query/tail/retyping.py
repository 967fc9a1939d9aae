"""From one type of a column to another, as `pipeline/spark/lake/retyping.py` does it in Spark: for values
that were transformed, or that an older table holds otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.lake.column_names import within
from headrace.lake.types import Array, Decimal, Map, Struct, Type, ddl
from headrace.query.tail.fitting import WIDE, misfit, single

Fit = Callable[[Any], Any]


def fitted(source: Type, target: Type, path: str) -> Fit:
    """A null fits everything. The function raises RefusedError and UnsureError."""
    if source == target:
        return lambda value: value
    fit = _fitted(source, target, path)
    return lambda value: None if value is None else fit(value)


def _fitted(source: Type, target: Type, path: str) -> Fit:
    match source, target:
        case Struct(), Struct():
            parts = [
                (field.name, column.name, fitted(field.type, column.type, within(path, column.name)))
                for column in target.fields
                if (field := source.find(column.name)) is not None
            ]
            return lambda value: {name: fit(value.get(old)) for old, name, fit in parts}
        case Array(), Array():
            element = fitted(source.element, target.element, f"{path}[]")
            return lambda value: [element(each) for each in value]
        case Map(), Map():
            inner = fitted(source.value, target.value, f"{path}[]")
            return lambda value: [(key, inner(each)) for key, each in value]
        case (Struct() | Array() | Map(), _) | (_, Struct() | Array() | Map()):
            return misfit(ddl(source), target, path)
        case Decimal(scale=scale), _:
            of_number = single(source, target, path)
            return lambda value: of_number(int(value.scaleb(scale, WIDE)))
        case _:
            return single(source, target, path)
