"""Equality and order of values in Python, as Spark has them.

Null equals null. NaN equals NaN and is larger than every other DOUBLE, and -0.0 equals 0.0. Texts are in the
order of their UTF-8 bytes, which is that of their code points.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any


def identity(value: Any) -> Hashable:
    """Equal for values that are equal in Spark, and hashable."""
    if isinstance(value, float):
        return ("NaN",) if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(map(identity, value))
    if isinstance(value, dict):
        return tuple((name, identity(each)) for name, each in value.items())
    found: Hashable = value
    return found


def equal(one: Any, other: Any) -> bool:
    return identity(one) == identity(other)


def distinct(values: Iterable[Any]) -> list[Any]:
    """The first of equal values, in their order. Spark makes 0.0 of -0.0 here."""
    found: dict[Hashable, Any] = {}
    for each in values:
        found.setdefault(identity(each), each + 0.0 if isinstance(each, float) else each)
    return list(found.values())


def ordered(value: Any) -> Any:
    """A key to sort values of one type by."""
    if isinstance(value, float):
        return (math.isnan(value), value)
    return value
