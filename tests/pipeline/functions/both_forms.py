"""An expression's two forms beside each other: Spark SQL on a real Spark, and Python, on the same rows.

Equal means: the same value of the same type. NaN equals NaN. Doubles may differ by `_ULPS` units in the last
place, as Java's mathematical functions and those of C round differently there; -0.0 is not 0.0. Rows on
which Spark gives a moment outside of the years 1 to 9999 are left out: Python has no value for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from pyspark.sql import Row, SparkSession

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.scope import Scope, Visible
from headrace.pipeline.expressions.types_in_spark import spark_name, spark_type
from headrace.pipeline.expressions.values import EPOCH, days_of, milliseconds_of_day
from headrace.pipeline.statements.parser import parse_expression
from headrace.pipeline.statements.types import (
    DATE,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

_AT_ONCE = 40
_ULPS = 2
_MICROSECONDS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
_DAYS = range(-719_162, 2_932_897)


@dataclass(frozen=True)
class Case:
    """An expression of columns C0, C1, … and the rows to try it with."""

    text: str
    columns: tuple[DataType, ...]
    rows: list[tuple[Any, ...]]

    def compiled(self, prefix: str = "") -> Computed:
        visible = tuple(
            Visible(name=f"C{place}", source=None, spark=spark_name(f"{prefix}C{place}"), type=kind)
            for place, kind in enumerate(self.columns)
        )
        return compiled(parse_expression(self.text), Scope(columns=visible))

    def python(self, row: tuple[Any, ...]) -> Any:
        python = self.compiled().python
        assert python is not None
        return python({f"C{place}": value for place, value in enumerate(row)})


def differences(spark: SparkSession, cases: Sequence[Case]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(cases), _AT_ONCE):
        found += _differences(spark, cases[start : start + _AT_ONCE])
    return found


def _differences(spark: SparkSession, cases: Sequence[Case]) -> list[str]:
    try:
        columns = _in_spark(spark, cases)
    except Exception as error:
        if len(cases) == 1:
            return [f"{cases[0].text} {_types(cases[0])} fails in Spark: {str(error)[:500]}"]
        half = len(cases) // 2
        return [*_differences(spark, cases[:half]), *_differences(spark, cases[half:])]
    found = []
    for case, column in zip(cases, columns, strict=True):
        computed = case.compiled()
        assert computed.python is not None
        for row, expected in zip(case.rows, column, strict=True):
            if _is_outside(expected, computed.type):
                continue
            named = {f"C{place}": value for place, value in enumerate(row)}
            try:
                value = encoded(computed.python(named))
            except Exception as error:
                found.append(f"{case.text} {_types(case)} of {row!r} fails in Python: {error!r}")
                continue
            if not equal(value, expected):
                found.append(f"{case.text} {_types(case)} of {row!r}: Spark {expected!r}, Python {value!r}")
    return found


def _types(case: Case) -> str:
    return f"({', '.join(map(str, case.columns))})"


def _in_spark(spark: SparkSession, cases: Sequence[Case]) -> list[list[Any]]:
    """The values of each case for its rows."""
    fields, received, texts = [], [], []
    for number, case in enumerate(cases):
        for place, kind in enumerate(case.columns):
            name = spark_name(f"{number}_C{place}")
            fields.append(f"{name} {_transported(kind)}")
            received.append(f"map_from_entries({name}) AS {name}" if isinstance(kind, MapType) else name)
        computed = case.compiled(f"{number}_")
        texts.append(f"{_readable(f'({computed.spark})', computed.type)} AS r{number}")
    longest = max(len(case.rows) for case in cases)
    rows = [
        (
            place,
            *(
                list(for_spark(value).items())
                if isinstance(kind, MapType) and value is not None
                else for_spark(value)
                for case in cases
                for value, kind in zip(
                    case.rows[place] if place < len(case.rows) else (None,) * len(case.columns),
                    case.columns,
                    strict=True,
                )
            ),
        )
        for place in range(longest)
    ]
    frame = spark.createDataFrame(rows, ", ".join(["place INT", *fields]), verifySchema=False)
    # In one step: Spark analyzes all columns again for each.
    frame = frame.selectExpr("place", *received)
    # Columns, and no constants that the optimizer would compute otherwise.
    collected = sorted(frame.localCheckpoint().selectExpr("place", *texts).collect())
    return [
        [_plain(row[number + 1]) for row in collected[: len(case.rows)]] for number, case in enumerate(cases)
    ]


def _transported(kind: DataType) -> str:
    """A map would lose the order of its entries on the way to Spark."""
    if isinstance(kind, MapType):
        return f"ARRAY<STRUCT<k: {spark_type(kind.key)}, v: {spark_type(kind.value)}>>"
    return spark_type(kind)


def for_spark(value: Any) -> Any:
    if isinstance(value, time):
        return milliseconds_of_day(value)
    if isinstance(value, list):
        return [for_spark(each) for each in value]
    if isinstance(value, dict):
        return {for_spark(key): for_spark(each) for key, each in value.items()}
    return value


def _readable(spark: str, kind: DataType) -> str:
    """What times are in Python depends on where it runs, and not all of them fit: so they are numbers."""
    if not _has_times(kind):
        return spark
    match kind:
        case ArrayType(element):
            return f"transform({spark}, __t -> {_readable('__t', element)})"
        case MapType(key, value):
            entry = f"named_struct('k', {_readable('__t.key', key)}, 'v', {_readable('__t.value', value)})"
            return f"map_from_entries(transform(map_entries({spark}), __t -> {entry}))"
        case StructType(fields):
            inner = (
                f"'{field.name}', {_readable(f'{spark}.{spark_name(field.name)}', field.type)}"
                for field in fields
            )
            return f"if({spark} is null, null, named_struct({', '.join(inner)}))"
    return f"unix_micros({spark})" if kind is TIMESTAMP else f"unix_date({spark})"


def _has_times(kind: DataType) -> bool:
    match kind:
        case ArrayType(element):
            return _has_times(element)
        case MapType(key, value):
            return _has_times(key) or _has_times(value)
        case StructType(fields):
            return any(_has_times(field.type) for field in fields)
    return kind in (TIMESTAMP, DATE)


def _is_outside(value: Any, kind: DataType) -> bool:
    if value is None:
        return False
    match kind:
        case ArrayType(element):
            return any(_is_outside(each, element) for each in value)
        case MapType(key, entry):
            return any(_is_outside(name, key) or _is_outside(each, entry) for name, each in value.items())
        case StructType(fields):
            return any(_is_outside(value[field.name], field.type) for field in fields)
    return (kind is TIMESTAMP and value not in _MICROSECONDS) or (kind is DATE and value not in _DAYS)


def _plain(value: Any) -> Any:
    match value:
        case Row():
            return {name: _plain(each) for name, each in value.asDict().items()}
        case bytearray():
            return bytes(value)
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {_plain(key): _plain(each) for key, each in value.items()}
        case _:
            return value


def encoded(value: Any) -> Any:
    """A value of the Python form as Spark's come here."""
    match value:
        case datetime():
            difference = value - EPOCH
            return (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds
        case date():
            return days_of(value)
        case time():
            return milliseconds_of_day(value)
        case list():
            return [encoded(each) for each in value]
        case dict():
            return {encoded(key): encoded(each) for key, each in value.items()}
        case _:
            return value


def equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return _equal_doubles(one, other)
        case Decimal():
            return bool(one == other)
        case list():
            return len(one) == len(other) and all(map(equal, one, other))
        case dict():
            # Spark's maps come in any order.
            return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
        case _:
            return bool(one == other)


def _equal_doubles(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return one == other or (math.isnan(one) and math.isnan(other))
    if one == 0 and other == 0:
        return math.copysign(1, one) == math.copysign(1, other)
    return abs(one - other) <= _ULPS * math.ulp(one)
