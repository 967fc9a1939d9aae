"""Single values as the types of their columns, as `pipeline/spark/lake/fitting.py` fits them in Spark.

A number fits a column of another type if the column has it exactly. Values are as pyarrow takes them:
numbers, days and microseconds as `int`, decimals as `Decimal`. Where Spark's casts have corners (infinities,
numbers of more than 53 bits in doubles, decimals against doubles), the value is left to the lake.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from headrace.lake.evolution import holds_some
from headrace.lake.shapes import Leaf, Stored
from headrace.lake.types import Decimal, Simple, Type, ddl
from headrace.query.tail.outcomes import RefusedError, UnsureError

# The years 1 to 9999.
_DAYS: Final = (-719_162, 2_932_896)
_SECONDS: Final = (-62_135_596_800, 253_402_300_799)
_PER_SECOND: Final = {Stored.MILLIS: 1_000, Stored.MICROS: 1_000_000, Stored.NANOS: 1_000_000_000}
_WHOLE: Final = {Simple.INT: 2**31, Simple.BIGINT: 2**63}
# Whole numbers below these are exact in floating point.
_EXACT: Final = {Simple.FLOAT: 2**24, Simple.DOUBLE: 2**53}
_MOST_DIGITS: Final = 38
# With room for two numbers of a column.
WIDE: Final = decimal.Context(prec=2 * _MOST_DIGITS)

Conversion = Callable[[Any], Any]


def stored(leaf: Leaf, path: str) -> Conversion:
    """From the stored number of a date or a time to its type; other values stay as they are."""
    if leaf.stored is Stored.DATE:
        return lambda days: _within(days, *_DAYS, path)
    per_second = _PER_SECOND.get(leaf.stored)
    if per_second is None:
        return lambda value: value
    low, high = _SECONDS[0] * per_second, (_SECONDS[1] + 1) * per_second - 1

    def moment(number: int) -> int:
        number = _within(number, low, high, path)
        return number * 1_000 if per_second == 1_000 else number // (per_second // 1_000_000)

    return moment


def single(source: Type, target: Type, path: str) -> Conversion:  # noqa: PLR0911 - one for each pair
    """From one single type to another. A decimal is given as its unscaled number."""
    if isinstance(source, Decimal) and isinstance(target, Decimal):
        return lambda unscaled: _rescaled(unscaled, source, target, path)
    if source == target:
        return lambda value: value
    if not holds_some(target, source):
        return lambda _: _misfit(path, ddl(source), target)
    if isinstance(source, Decimal):
        if target in _WHOLE:
            to_whole = Decimal(precision=_MOST_DIGITS, scale=0)
            return lambda unscaled: _ranged(int(_rescaled(unscaled, source, to_whole, path)), target, path)
        return lambda _: _unsure(path)
    if isinstance(target, Decimal):
        if source in _WHOLE:
            whole = Decimal(precision=_MOST_DIGITS, scale=0)
            return lambda value: _rescaled(value, whole, target, path)
        return lambda _: _unsure(path)
    if source in _WHOLE:
        if target in _WHOLE:
            return lambda value: _ranged(value, target, path)
        return lambda value: float(value) if abs(value) < _EXACT[_simple(target)] else _unsure(path)
    if target in _WHOLE:
        return lambda value: _ranged(_whole(value, path), target, path)
    if target is Simple.DOUBLE:
        return lambda value: value
    return lambda value: _as_float(value, path)


def misfit(field: str, target: Type, path: str) -> Conversion:
    """No value fits."""
    return lambda _: _misfit(path, field, target)


def _misfit(path: str, field: str, target: Type) -> Any:
    raise RefusedError(f"Field {path} is {field}, its column is {ddl(target)}.")


def _unsure(path: str) -> Any:
    raise UnsureError(f"field {path} has another type than its column")


def _within(number: int, low: int, high: int, path: str) -> int:
    if not low <= number <= high:
        raise RefusedError(f"Field {path} lies outside the years 1 to 9999.")
    return number


def _ranged(value: int, target: Type, path: str) -> int:
    limit = _WHOLE[_simple(target)]
    if not -limit <= value < limit:
        raise RefusedError(f"Field {path} has {value}, its column {ddl(target)} cannot hold it.")
    return value


def _whole(value: float, path: str) -> int:
    if not math.isfinite(value) or abs(value) >= _EXACT[Simple.DOUBLE]:
        _unsure(path)
    if not value.is_integer():
        raise RefusedError(f"Field {path} has {value}, which is no whole number.")
    return int(value)


def _as_float(value: float, path: str) -> float:
    if not math.isfinite(value):
        _unsure(path)
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        _unsure(path)
    if found != value:
        raise RefusedError(f"Field {path} has {value}, its column FLOAT cannot hold it.")
    return float(found)


def _rescaled(unscaled: int, source: Decimal, target: Decimal, path: str) -> decimal.Decimal:
    if abs(unscaled) >= 10**_MOST_DIGITS:
        raise UnsureError(f"field {path} has more than {_MOST_DIGITS} digits")
    number, rest = unscaled, 0
    if target.scale >= source.scale:
        number *= 10 ** (target.scale - source.scale)
    else:
        number, rest = divmod(unscaled, 10 ** (source.scale - target.scale))
    if rest or abs(number) >= 10**target.precision:
        raise RefusedError(f"Field {path} has a number that its column {ddl(target)} cannot hold.")
    return decimal.Decimal(number).scaleb(-target.scale, WIDE)


def _simple(kind: Type) -> Simple:
    assert isinstance(kind, Simple)
    return kind
