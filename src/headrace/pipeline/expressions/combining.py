"""Combines the Python forms of an expression's parts: three-valued logic, CASE, elements, fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.pipeline.expressions.comparisons import same
from headrace.pipeline.expressions.computed import Evaluate, Row


def both(left: Evaluate, right: Evaluate) -> Evaluate:
    return _decided(left, right, by=False)


def either(left: Evaluate, right: Evaluate) -> Evaluate:
    return _decided(left, right, by=True)


def _decided(left: Evaluate, right: Evaluate, *, by: bool) -> Evaluate:
    """A side with the value `by` decides; otherwise null on either side gives null."""

    def python(row: Row) -> Any:
        one = left(row)
        if one is by:
            return by
        other = right(row)
        if other is by:
            return by
        return None if one is None or other is None else not by

    return python


def opposite(operand: Evaluate) -> Evaluate:
    def python(row: Row) -> Any:
        value = operand(row)
        return None if value is None else not value

    return python


def one_of(operand: Evaluate, others: Sequence[Evaluate]) -> Evaluate:
    def python(row: Row) -> Any:
        value = operand(row)
        return value is not None and any(same(value, other(row)) for other in others)

    return python


def first_true(branches: Sequence[tuple[Evaluate, Evaluate]], otherwise: Evaluate) -> Evaluate:
    """CASE: the value of the first branch whose condition is true."""

    def python(row: Row) -> Any:
        for holds, value in branches:
            if holds(row) is True:
                return value(row)
        return otherwise(row)

    return python


def field_of(base: Evaluate, name: str) -> Evaluate:
    def python(row: Row) -> Any:
        struct = base(row)
        return None if struct is None else struct.get(name)

    return python


def element_of(base: Evaluate, index: Evaluate) -> Evaluate:
    """From 1, or from the end with a negative index; null outside of the array."""

    def python(row: Row) -> Any:
        array, place = base(row), index(row)
        if array is None or not place or abs(place) > len(array):
            return None
        return array[place - 1 if place > 0 else place]

    return python


def entry_of(base: Evaluate, key: Evaluate) -> Evaluate:
    def python(row: Row) -> Any:
        entries, wanted = base(row), key(row)
        return None if entries is None or wanted is None else entries.get(wanted)

    return python
