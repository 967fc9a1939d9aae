"""Fitting values into columns: the value as the column's type, and what is wrong with one that does not fit.

A `Fit` is made once, from what is stored and the type of the column, and then applied to Spark columns. No
value may fail: a cast that could is `try_cast`, and a value that does not fit is null and has a problem, a
text for the dead letters. A null always fits.

Numbers fit a column of another type if it has them exactly: a BIGINT of 5 fits INT. Dates and times must lie
in the years 1 to 9999, which is what Parquet's readers know. Malformed UTF-8 in texts is replaced, as Java
does, because other readers refuse a whole file with such a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.evolution import holds_some, wider
from headrace.lake.shapes import Leaf, Stored
from headrace.lake.types import Array, Map, Simple, Struct, Type, ddl, quoted

# The years 1 to 9999.
_DAYS: Final = (-719_162, 2_932_896)
_SECONDS: Final = (-62_135_596_800, 253_402_300_799)
_PER_SECOND: Final = {Stored.MILLIS: 1_000, Stored.MICROS: 1_000_000, Stored.NANOS: 1_000_000_000}
_LONGS: Final = (-(2**63), 2**63 - 1)
_SHOWN_CHARACTERS: Final = 100

Expression = Callable[[Column], Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`problem` is None if every value fits; otherwise its text is null for a value that does."""

    value: Expression
    problem: Expression | None = None


SAME: Final = Fit(value=lambda value: value)
TEXT: Final = Fit(value=F.make_valid_utf8)


def spark_ddl(kind: Type) -> str:
    """As Spark takes it in casts, with every name quoted."""
    match kind:
        case Struct():
            return (
                f"struct<{','.join(f'{quoted(each.name)}:{spark_ddl(each.type)}' for each in kind.fields)}>"
            )
        case Array():
            return f"array<{spark_ddl(kind.element)}>"
        case Map():
            return f"map<string,{spark_ddl(kind.value)}>"
        case _:
            return ddl(kind)


def null_of(kind: Type) -> Column:
    return F.lit(None).cast(spark_ddl(kind))


def absent(target: Type) -> Fit:
    """For a column without a field."""
    return Fit(value=lambda _: null_of(target))


def misfit(path: str, field: str, target: Type) -> Fit:
    """No value but null fits."""
    text = F.lit(f"Field {path} is {field}, its column is {ddl(target)}.")
    return Fit(value=lambda _: null_of(target), problem=lambda value: F.when(value.isNotNull(), text))


def then(first: Fit, second: Fit) -> Fit:
    """The second is applied to the value of the first."""
    if second is SAME:
        return first

    def value(given: Column) -> Column:
        return second.value(first.value(given))

    problem = second.problem
    if problem is None:
        return Fit(value=value, problem=first.problem)

    return Fit(
        value=value,
        problem=lambda given: _first(
            [*([] if first.problem is None else [first.problem(given)]), problem(first.value(given))]
        ),
    )


def single(source: Type, target: Type, path: str) -> Fit:
    """From one single type to another."""
    if source == target:
        return TEXT if source is Simple.STRING else SAME
    if wider(source, target) == target:
        return Fit(value=lambda value: value.cast(ddl(target)))
    if not holds_some(target, source):
        return misfit(path, ddl(source), target)

    def is_exact(value: Column) -> Column:
        return F.coalesce(value.try_cast(ddl(target)).try_cast(ddl(source)) == value, F.lit(False))

    return Fit(
        value=lambda value: F.when(is_exact(value), value.try_cast(ddl(target))),
        problem=lambda value: F.when(
            value.isNotNull() & ~is_exact(value),
            shown(f"Field {path} is {ddl(source)}, its column {ddl(target)} cannot hold ", value),
        ),
    )


def stored(leaf: Leaf, path: str) -> Fit:
    """From the stored number of a date or a time to its type; other values stay as they are."""
    if leaf.stored is Stored.DATE:
        return _within(path, "days since 1970", _DAYS, lambda days: F.date_from_unix_date(days.cast("int")))
    per_second = _PER_SECOND.get(leaf.stored)
    if per_second is None:
        return SAME
    low, high = _SECONDS[0] * per_second, (_SECONDS[1] + 1) * per_second - 1
    bounds = (max(low, _LONGS[0]), min(high, _LONGS[1]))

    def moment(number: Column) -> Column:
        match leaf.stored:
            case Stored.MILLIS:
                found = F.timestamp_millis(number)
            case Stored.MICROS:
                found = F.timestamp_micros(number)
            case _:
                # As decimals, because other divisions round or go through doubles.
                thousand = F.lit(1_000).cast("decimal(4,0)")
                found = F.timestamp_micros(F.floor(number.cast("decimal(19,0)") / thousand).cast("bigint"))
        return found.cast("timestamp_ntz") if leaf.type is Simple.TIMESTAMP_NTZ else found

    return _within(path, f"{leaf.stored.value} since 1970", bounds, moment)


def _within(path: str, unit: str, bounds: tuple[int, int], converted: Expression) -> Fit:
    text = f"Field {path} lies outside the years 1 to 9999, with these {unit}: "
    return Fit(
        value=lambda value: F.when(value.between(*bounds), converted(value)),
        problem=lambda value: F.when(~value.between(*bounds), shown(text, value)),
    )


def elements(inner: Fit) -> Fit:
    """The elements of an array."""
    if inner is SAME:
        return SAME
    problem = inner.problem
    return Fit(
        value=lambda value: F.transform(value, inner.value),
        problem=None if problem is None else lambda value: _first_of(value, problem),
    )


def map_values(inner: Fit) -> Fit:
    """The values of a map. Its keys are texts."""
    problem = inner.problem

    def value(given: Column) -> Column:
        fitted = given if inner is SAME else F.transform_values(given, lambda _, each: inner.value(each))
        return F.transform_keys(fitted, lambda key, _: F.make_valid_utf8(key))

    return Fit(
        value=value,
        problem=None if problem is None else lambda given: _first_of(F.map_values(given), problem),
    )


def fields(parts: Sequence[tuple[str, Expression, Fit]], target: Struct) -> Fit:
    """A struct of the parts: the name, how it is found in the value, and how it fits.

    Null for null, which `fields_of` makes a struct of nulls.
    """
    made = fields_of(parts)
    return Fit(
        value=lambda value: F.when(value.isNotNull(), made.value(value)).otherwise(null_of(target)),
        problem=made.problem,
    )


def fields_of(parts: Sequence[tuple[str, Expression, Fit]]) -> Fit:
    problems = [(found, fit.problem) for _, found, fit in parts if fit.problem is not None]
    return Fit(
        value=lambda value: F.struct(*(fit.value(found(value)).alias(name) for name, found, fit in parts)),
        problem=(lambda value: _first([problem(found(value)) for found, problem in problems]))
        if problems
        else None,
    )


def alternatives(parts: Sequence[tuple[Expression, Fit]], target: Type) -> Fit:
    """The one part that is not null."""
    problems = [(found, fit.problem) for found, fit in parts if fit.problem is not None]
    return Fit(
        value=lambda value: _first([fit.value(found(value)).cast(spark_ddl(target)) for found, fit in parts]),
        problem=(lambda value: _first([problem(found(value)) for found, problem in problems]))
        if problems
        else None,
    )


def shown(text: str, value: Column) -> Column:
    """A problem's text with the beginning of the value."""
    beginning = F.substring(value.try_cast("string"), 1, _SHOWN_CHARACTERS)
    return F.concat(F.lit(text), F.coalesce(beginning, F.lit("it")), F.lit("."))


def _first(texts: Sequence[Column]) -> Column:
    return texts[0] if len(texts) == 1 else F.coalesce(*texts)


def _first_of(values: Column, problem: Expression) -> Column:
    """The first problem of an array's elements."""
    return F.get(F.filter(F.transform(values, problem), lambda text: text.isNotNull()), F.lit(0))
