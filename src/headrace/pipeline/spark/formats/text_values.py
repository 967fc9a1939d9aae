"""Values from their text in JSON and DELIMITED, and back to values for JSON.

Everything is a Spark expression; nothing raises on bad data. `value_of` is null if a text does not fit its
type, and `is_unfit` distinguishes such a null from one that was written as null. As in ksqlDB, dates, times
and timestamps are numbers (days, milliseconds of the day, milliseconds), bytes are Base64, and numbers may be
quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.catalogue.catalogue import Column as SourceColumn
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructType,
)

# The years 1 to 9999, which is what Spark promises to handle, and all that Python and Parquet's readers know.
_DAYS: Final = (-719_162, 2_932_896)
_MILLISECONDS: Final = (-62_135_596_800_000, 253_402_300_799_999)
_MILLISECONDS_OF_A_DAY: Final = (0, 86_399_999)


def value_of(text: Column, kind: DataType) -> Column:
    """The value of a text; null if the text is not a value of that type."""
    match kind:
        case ScalarType():
            return _scalar(text, kind)
        case DecimalType():
            return text.try_cast(spark_type(kind))
        case ArrayType():
            return F.transform(elements_of(text), lambda element: value_of(element, kind.element))
        case MapType():
            return F.transform_values(members_of(text), lambda _, value: value_of(value, kind.value))
        case StructType():
            return _once(
                fields_of(text),
                lambda fields: F.struct(
                    *(
                        value_of(field_of(fields, each.name), each.type).alias(each.name)
                        for each in kind.fields
                    )
                ),
            )
        case _:
            raise TypeError(f"{kind} has no text form")


def is_unfit(text: Column, kind: DataType) -> Column:
    """Whether there is a text that is not a value of the type, at any depth."""
    match kind:
        case ScalarType.VARCHAR:
            return F.lit(False)
        case ArrayType():
            found = elements_of(text)
            inside = F.exists(found, lambda element: is_unfit(element, kind.element))
        case MapType():
            found = members_of(text)
            inside = F.exists(F.map_values(found), lambda value: is_unfit(value, kind.value))
        case StructType():
            found = fields_of(text)
            inside = F.lit(False)
            for each in kind.fields:
                inside = inside | is_unfit(field_of(found, each.name), each.type)
        case _:
            return text.isNotNull() & value_of(text, kind).isNull()
    return text.isNotNull() & (found.isNull() | F.coalesce(inside, F.lit(False)))


def unfit(text: Column, column: SourceColumn, *, side: str) -> tuple[Column, Column]:
    """Whether the text of a column does not fit its type, and the reason for the dead letter."""
    reason = F.concat(
        F.lit(f"Column {column.name} of the {side} is not of type {column.type}: "),
        F.substring(text, 1, 100),
        F.lit("."),
    )
    return is_unfit(text, column.type), reason


def fields_of(text: Column) -> Column:
    """The fields of a JSON object as texts, by upper-case name, as field names are case-insensitive in
    ksqlDB.
    """
    return F.transform_keys(members_of(text), lambda name, _: F.upper(name))


def field_of(fields: Column, name: str) -> Column:
    return F.try_element_at(fields, F.lit(name.upper()))


def members_of(text: Column) -> Column:
    return F.from_json(text, "map<string,string>")


def elements_of(text: Column) -> Column:
    return F.from_json(text, "array<string>")


def as_json_value(value: Column, kind: DataType) -> Column:  # noqa: PLR0911 - one for each type
    """A value as `to_json` should see it: dates and times as ksqlDB's numbers."""
    if not _has(kind, {ScalarType.DATE, ScalarType.TIMESTAMP}):
        return value
    match kind:
        case ScalarType.DATE:
            return F.unix_date(value)
        case ScalarType.TIMESTAMP:
            return F.unix_millis(value)
        case ArrayType():
            return F.transform(value, lambda element: as_json_value(element, kind.element))
        case MapType():
            return F.transform_values(value, lambda _, each: as_json_value(each, kind.value))
        case StructType():
            fields = [as_json_value(value[each.name], each.type).alias(each.name) for each in kind.fields]
            return F.when(value.isNotNull(), F.struct(*fields))
        case _:
            return value


def is_out_of_range(value: Column, kind: DataType) -> Column | None:
    """Whether a date or timestamp in the value lies outside the years 1 to 9999, or a time outside the day.

    None if the type has none of them.
    """
    if not _has(kind, {ScalarType.DATE, ScalarType.TIME, ScalarType.TIMESTAMP}):
        return None
    match kind:
        case ScalarType.TIME:
            found = ~value.between(*_MILLISECONDS_OF_A_DAY)
        case ScalarType.DATE:
            found = ~F.unix_date(value).between(*_DAYS)
        case ScalarType.TIMESTAMP:
            found = ~F.unix_millis(value).between(*_MILLISECONDS)
        case ArrayType():
            found = F.exists(value, lambda element: _out_of_range(element, kind.element))
        case MapType():
            found = F.exists(F.map_values(value), lambda each: _out_of_range(each, kind.value))
        case StructType():
            found = F.lit(False)
            for field in kind.fields:
                found = found | _out_of_range(value[field.name], field.type)
        case _:
            return None
    return F.coalesce(found, F.lit(False))


def _out_of_range(value: Column, kind: DataType) -> Column:
    found = is_out_of_range(value, kind)
    return F.lit(False) if found is None else found


def _has(kind: DataType, wanted: Set[DataType]) -> bool:
    """Whether it is one of these types, or contains one. Keys of maps do not count."""
    match kind:
        case ArrayType():
            return _has(kind.element, wanted)
        case MapType():
            return _has(kind.value, wanted)
        case StructType():
            return any(_has(field.type, wanted) for field in kind.fields)
        case _:
            return kind in wanted


def _scalar(text: Column, kind: ScalarType) -> Column:  # noqa: PLR0911 - one for each type
    match kind:
        case ScalarType.VARCHAR:
            return text
        case ScalarType.BOOLEAN:
            lower = F.lower(text)
            return F.when(lower == "true", F.lit(True)).when(lower == "false", F.lit(False))
        case ScalarType.DOUBLE:
            return text.try_cast("double")
        case ScalarType.INTEGER:
            return _whole(text, "int")
        case ScalarType.BIGINT:
            return _whole(text, "bigint")
        case ScalarType.TIME:
            time = _whole(text, "int")
            return F.when(time.between(*_MILLISECONDS_OF_A_DAY), time)
        case ScalarType.DATE:
            days = _whole(text, "int")
            return F.when(days.between(*_DAYS), F.date_from_unix_date(days))
        case ScalarType.TIMESTAMP:
            return _moment(_whole(text, "bigint"))
        case ScalarType.BYTES:
            return F.try_to_binary(text, F.lit("base64"))


def _moment(milliseconds: Column) -> Column:
    return F.when(milliseconds.between(*_MILLISECONDS), F.timestamp_millis(milliseconds))


def _whole(text: Column, kind: str) -> Column:
    """Truncates fractions, as in ksqlDB."""
    return F.coalesce(text.try_cast(kind), text.try_cast("double").try_cast(kind))


def _once(value: Column, result: Callable[[Column], Column]) -> Column:
    """`result` of a value that is computed only once, however often the result uses it; null for null."""
    made = F.transform(F.array(value), result)
    return F.when(value.isNotNull(), F.element_at(made, 1))
