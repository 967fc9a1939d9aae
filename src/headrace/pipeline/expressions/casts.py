"""CAST: which types convert to which, and the Spark SQL, which gives null for values that do not convert.

`value_casts.py` is the same in Python.

ksqlDB's list, and its forms: a TIMESTAMP as `2020-01-31T10:11:12.123`, a TIME as `10:11` or `10:11:12`, a
MAP as `{a=1}`, a STRUCT as `Struct{A=1}`, BYTES from base64, BOOLEAN from any beginning of `true` or `yes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.pipeline.expressions.computed import Typed
from headrace.pipeline.expressions.literals import text
from headrace.pipeline.expressions.numbers import rank
from headrace.pipeline.expressions.types_in_spark import spark_name, spark_type
from headrace.pipeline.expressions.value_casts import converter
from headrace.pipeline.statements.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

_Cast = Callable[[str], str]
_TRUE: Final = "('t', 'tr', 'tru', 'true', 'y', 'ye', 'yes')"
_TIMESTAMP_FORM: Final = text("yyyy-MM-dd'T'HH:mm:ss.SSS")
# What ksqlDB reads. Spark alone also reads a time without a date (as today), zone names and longer years.
_DATE_FORM: Final = "[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?"
_TIME_FORM: Final = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_ZONE_FORM: Final = "(Z|[+-][0-9]{2}:?[0-9]{2})?"
_MOMENT_FORM: Final = f"{_DATE_FORM}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME_FORM}{_ZONE_FORM}"


def _of_form(value: str, form: str, spark: str) -> str:
    return f"case when trim({value}) rlike r'\\A({form})\\z' then {spark} end"


def _time_from_text(value: str) -> str:
    moment = f"try_cast(concat('1970-01-01T', trim({value})) as TIMESTAMP)"
    return _of_form(value, _TIME_FORM, f"cast(unix_millis({moment}) as INT)")


def _double_from_text(value: str) -> str:
    number = f"try_cast(trim({value}) as DOUBLE)"
    return f"case when abs({number}) < double('Infinity') then {number} end"


_FROM_TEXT: Final[dict[DataType, _Cast]] = {
    BOOLEAN: lambda value: f"(lower(trim({value})) in {_TRUE})",
    BYTES: lambda value: f"try_to_binary(trim({value}), 'base64')",
    DATE: lambda value: _of_form(value, _DATE_FORM, f"try_cast(trim({value}) as DATE)"),
    DOUBLE: _double_from_text,
    TIME: _time_from_text,
    TIMESTAMP: lambda value: _of_form(value, _MOMENT_FORM, f"try_cast(trim({value}) as TIMESTAMP)"),
}
_TO_TEXT: Final[dict[DataType, _Cast]] = {
    BOOLEAN: lambda value: f"cast({value} as STRING)",
    DATE: lambda value: f"cast({value} as STRING)",
    TIME: lambda value: (
        f"date_format(timestamp_millis({value}), if({value} div 1000 % 60 = 0, 'HH:mm', 'HH:mm:ss'))"
    ),
    TIMESTAMP: lambda value: f"date_format({value}, {_TIMESTAMP_FORM})",
}
_TIMES: Final[dict[tuple[DataType, DataType], _Cast]] = {
    (TIMESTAMP, TIME): lambda value: f"cast(pmod(unix_millis({value}), 86400000) as INT)",
    (TIMESTAMP, DATE): lambda value: f"cast({value} as DATE)",
    (DATE, TIMESTAMP): lambda value: f"cast({value} as TIMESTAMP)",
}


def cast_to(value: Typed, wanted: DataType) -> Typed | None:
    """Both forms; None if ksqlDB has no such cast."""
    spark = cast(value.spark, value.type, wanted)
    if spark is None:
        return None
    operand, convert = value.python, converter(value.type, wanted)
    return Typed(spark, wanted, lambda row: convert(operand(row)))


def cast(value: str, source: DataType | None, wanted: DataType) -> str | None:
    """None if ksqlDB has no such cast."""
    if source is None:
        return f"cast({value} as {spark_type(wanted)})"
    if source == wanted:
        return value
    if wanted is VARCHAR:
        return as_text(value, source)
    if source is VARCHAR and wanted in _FROM_TEXT:
        return _FROM_TEXT[wanted](value)
    if rank(wanted) is not None:
        is_castable = source is VARCHAR or rank(source) is not None
        trimmed = f"trim({value})" if source is VARCHAR else value
        return f"try_cast({trimmed} as {spark_type(wanted)})" if is_castable else None
    made = _TIMES.get((source, wanted))
    return made(value) if made is not None else _collection(value, source, wanted)


def _collection(value: str, source: DataType, wanted: DataType) -> str | None:
    match source, wanted:
        case ArrayType(before), ArrayType(after):
            element = cast("__e", before, after)
            return None if element is None else f"transform({value}, __e -> {element})"
        case MapType(), MapType():
            return _map(value, source, wanted)
        case StructType(), StructType():
            return _struct(value, source, wanted)
        case _:
            return None


def _map(value: str, source: MapType, wanted: MapType) -> str | None:
    if source.key == wanted.key:
        entry = cast("__v", source.value, wanted.value)
        return None if entry is None else f"transform_values({value}, (__k, __v) -> {entry})"
    key, entry = cast("__e.key", source.key, wanted.key), cast("__e.value", source.value, wanted.value)
    if key is None or entry is None:
        return None
    return map_of(f"transform(map_entries({value}), __e -> named_struct('k', {key}, 'v', {entry}))")


def map_of(entries: str) -> str:
    """Makes a map from an array of structs with fields k and v.

    The last entry of a key counts, and one without a key does not: Spark's own functions would fail. The
    entries stand inside of lambdas here, so no parameter may have a name that they mean otherwise.
    """
    each, place, other = (_unused(name, entries) for name in ("__e", "__i", "__o"))
    later = f"exists(slice({entries}, {place} + 2, size({entries})), {other} -> {other}.k <=> {each}.k)"
    kept = f"({each}, {place}) -> {each}.k is not null and not {later}"
    return f"map_from_entries(filter({entries}, {kept}))"


def _unused(name: str, spark: str) -> str:
    while name in spark:
        name += "_"
    return name


def _struct(value: str, source: StructType, wanted: StructType) -> str | None:
    """Converts fields by name. Fields that the source does not have are null."""
    parts = []
    for field in wanted.fields:
        before = source.field(field.name)
        if before is None:
            part: str | None = f"cast(null as {spark_type(field.type)})"
        else:
            part = cast(f"{value}.{spark_name(field.name)}", before.type, field.type)
        if part is None:
            return None
        parts.append(f"{text(field.name)}, {part}")
    return f"if({value} is null, null, named_struct({', '.join(parts)}))"


def as_text(value: str, source: DataType) -> str | None:
    """The text that Java prints for the value."""
    if rank(source) is not None:
        return f"cast({value} as STRING)"
    match source:
        case ArrayType(element):
            elements = f"array_join(transform({value}, __e -> {_part('__e', element)}), ', ')"
            return f"concat('[', {elements}, ']')"
        case MapType(key, entry):
            pair = f"concat({_part('__e.key', key)}, '=', {_part('__e.value', entry)})"
            pairs = f"array_join(transform(map_entries({value}), __e -> {pair}), ', ')"
            return f"concat('{{', {pairs}, '}}')"
        case StructType(fields):
            return _struct_text(value, fields)
    made = _TO_TEXT.get(source)
    return made(value) if made is not None else None


def _part(value: str, source: DataType) -> str:
    inner = value if source is VARCHAR else as_text(value, source)
    return f"coalesce({inner if inner is not None else f'base64({value})'}, 'null')"


def _struct_text(value: str, fields: tuple[StructField, ...]) -> str:
    # Like Kafka Connect's Struct, leave out null fields.
    parts = []
    for field in fields:
        name = f"{value}.{spark_name(field.name)}"
        shown = name if field.type is VARCHAR else as_text(name, field.type) or f"base64({name})"
        parts.append(f"concat({text(field.name + '=')}, {shown})")
    return f"if({value} is null, null, concat('Struct{{', concat_ws(',', {', '.join(parts)}), '}}'))"
