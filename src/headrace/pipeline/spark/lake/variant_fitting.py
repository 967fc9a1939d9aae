"""Fitting values of JSON into columns: Spark's variants, which know the type of every value.

A JSON value fits a column of its own kind only: a quoted number is no number. Texts hold everything, as JSON
if it is not a text. A number fits if the column has it exactly, or as the nearest DOUBLE or FLOAT; bytes are
Base64, dates and times texts as in ISO 8601. A field with null is as one that is absent.

Names of fields are compared without case, and with the characters that a column's name cannot have replaced
(`lake/column_names.py`); of two fields that are equal then, either may win.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.column_names import within
from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.pipeline.spark.lake.fitting import Expression, Fit, fields_of, null_of, shown

_MEMBERS: Final = "map<string,variant>"
_ELEMENTS: Final = "array<variant>"
_REFUSED_CHARACTERS: Final = r"[ ,;{}()\n\t=]"
_FIRST_DAY: Final = "0001-01-01"
_LAST_DAY: Final = "9999-12-31"


def is_present(value: Column) -> Column:
    """Whether it is something else than null."""
    return value.isNotNull() & ~F.is_variant_null(value)


def members_of(value: Column) -> Column:
    """The fields of an object by name; null for everything else."""
    return value.try_cast(_MEMBERS)


def by_column(members: Column) -> Column:
    """The fields by the name that `field_of` looks for."""
    return F.transform_keys(members, lambda name, _: _key(name))


def _key(name: Column) -> Column:
    replaced = F.regexp_replace(name, _REFUSED_CHARACTERS, "_")
    return F.upper(F.when(replaced == "", F.lit("_")).otherwise(replaced))


def field_of(fields: Column, column: str) -> Column:
    return F.try_element_at(fields, F.upper(F.lit(column)))


def is_column(name: Column, columns: Sequence[str]) -> Column:
    """Whether the field of that name is in one of the columns."""
    found = F.lit(False)
    for each in columns:
        found = found | (_key(name) == F.upper(F.lit(each)))
    return found


def variant_fit(target: Type, path: str) -> Fit:
    match target:
        case Struct():
            parts = [(each.name, variant_fit(each.type, within(path, each.name))) for each in target.fields]
            return object_fit(parts, target, path)
        case Array():
            return array_fit(variant_fit(target.element, f"{path}[]"), target, path)
        case Map():
            return map_fit(variant_fit(target.value, f"{path}[]"), target, path)
        case Simple.STRING:
            return Fit(value=_text)
        case _:
            return _single(path, target, lambda value: _converted(value, target))


def object_fit(parts: Sequence[tuple[str, Fit]], target: Type, path: str) -> Fit:
    """An object with these fields."""
    getters: list[tuple[str, Expression, Fit]] = [(name, _getter(name), fit) for name, fit in parts]
    return container_fit(fields_of(getters), lambda value: by_column(members_of(value)), target, path)


def array_fit(inner: Fit, target: Type, path: str) -> Fit:
    made = Fit(
        value=lambda found: F.transform(found, inner.value),
        problem=None if inner.problem is None else lambda found: _first_of(found, inner.problem),
    )
    return container_fit(made, elements_of, target, path)


def map_fit(inner: Fit, target: Type, path: str) -> Fit:
    made = Fit(
        value=lambda found: F.transform_values(found, lambda _, each: inner.value(each)),
        problem=None
        if inner.problem is None
        else lambda found: _first_of(F.map_values(found), inner.problem),
    )
    return container_fit(made, members_of, target, path)


def elements_of(value: Column) -> Column:
    """The elements of an array; null for everything else."""
    return value.try_cast(_ELEMENTS)


def single_fit(path: str, kind: str, null: Column, converted: Expression) -> Fit:
    """A single value; `converted` is null for one that does not fit."""
    return Fit(
        value=lambda value: F.coalesce(converted(value), null),
        problem=lambda value: F.when(
            is_present(value) & converted(value).isNull(), shown(f"Field {path} is not {kind}: ", value)
        ),
    )


def _single(path: str, target: Type, converted: Expression) -> Fit:
    return single_fit(path, ddl(target), null_of(target), converted)


def _getter(name: str) -> Expression:
    return lambda fields: field_of(fields, name)


def container_fit(inner: Fit, opened: Expression, target: Type, path: str) -> Fit:
    """Opens the value once, and fits what is in it."""

    def value(given: Column) -> Column:
        return once(opened(given), lambda found: F.when(found.isNotNull(), inner.value(found)))

    def problem(given: Column) -> Column:
        closed = shown(f"Field {path} is not {ddl(target)}: ", given)
        inside = inner.problem
        return F.when(
            is_present(given),
            once(
                opened(given),
                lambda found: F.when(found.isNull(), closed).otherwise(
                    F.lit(None).cast("string") if inside is None else inside(found)
                ),
            ),
        )

    return Fit(value=value, problem=problem)


def once(value: Column, result: Callable[[Column], Column]) -> Column:
    """`result` of a value that is computed only once, however often the result uses it."""
    return F.element_at(F.transform(F.array(value), result), 1)


def _first_of(values: Column, problem: Expression | None) -> Column:
    assert problem is not None
    return F.get(F.filter(F.transform(values, problem), lambda text: text.isNotNull()), F.lit(0))


def _text(value: Column) -> Column:
    return F.when(is_present(value), value.try_cast("string"))


def _is_number(value: Column) -> Column:
    name = F.schema_of_variant(value)
    return name.isin("BIGINT", "DOUBLE", "FLOAT") | name.startswith("DECIMAL")


def _converted(value: Column, target: Type) -> Column:
    match target:
        case Simple.BOOLEAN:
            return F.when(F.schema_of_variant(value) == "BOOLEAN", value.try_cast("boolean"))
        case Simple.FLOAT | Simple.DOUBLE:
            number = value.try_cast(ddl(target))
            is_finite = ~number.isin(float("inf"), float("-inf"))
            return F.when(_is_number(value) & is_finite, number)
        case Simple.INT | Simple.BIGINT | Decimal():
            return F.when(_is_number(value) & _is_exact(value, ddl(target)), value.try_cast(ddl(target)))
        case Simple.BINARY:
            return F.try_to_binary(string_in(value), F.lit("base64"))
        case Simple.DATE:
            day = string_in(value).try_cast("date")
            return F.when(day.between(F.lit(_FIRST_DAY).cast("date"), F.lit(_LAST_DAY).cast("date")), day)
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            moment = string_in(value).try_cast(ddl(target))
            return F.when(F.year(moment).between(1, 9999), moment)
        case _:
            raise TypeError(f"{target} is not a single type")


def string_in(value: Column) -> Column:
    """A text; null for everything else."""
    return F.when(F.schema_of_variant(value) == "STRING", value.try_cast("string"))


def _is_exact(value: Column, kind: str) -> Column:
    """Decimals are compared as such, and everything as doubles, since decimals have limits at both ends."""
    found = value.try_cast(kind)
    digits = value.try_cast("decimal(38,10)")
    return F.coalesce(
        (found.try_cast("double") == value.try_cast("double"))
        & F.coalesce(digits == found.try_cast("decimal(38,10)"), F.lit(True)),
        F.lit(False),
    )
