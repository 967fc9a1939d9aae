"""TimestampConverter: times as text, numbers, dates or timestamps, all in UTC.

Kafka's Time has no type in the lake: it becomes an INT, milliseconds of the day.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Simple, Type
from headrace.pipeline.expressions.moments import FIRST_MS, LAST_MS
from headrace.pipeline.sink_tables import refused
from headrace.pipeline.spark.lake.records import NamedColumn, Record, Typed, shown
from headrace.pipeline.spark.lake.simple_date_formats import DAY_MS, milliseconds, written
from headrace.pipeline.spark.lake.transforms.changes import ChangedSide, refused_type, require_struct, text

_TARGETS: Final[dict[str, Simple]] = {
    "string": Simple.STRING,
    "unix": Simple.BIGINT,
    "Date": Simple.DATE,
    "Time": Simple.INT,
    "Timestamp": Simple.TIMESTAMP,
}
# In a second, of `unix.precision`.
_UNITS: Final = {"seconds": 1, "milliseconds": 1000, "microseconds": 10**6, "nanoseconds": 10**9}
_LARGEST: Final = 2**63 - 1


def timestamp_converter(typed: Typed, step: Transformation, _: Record) -> ChangedSide:
    """Of a field, or of the whole key or value. Null stays null; a field that does not exist is ignored."""
    target = text(step, "target.type")
    if target not in _TARGETS:
        raise refused(step, f"has the target.type {target!r}; it can be {', '.join(_TARGETS)}")
    kind, name = _TARGETS[target], text(step, "field", "")
    if not name:
        column, reason = _converted(typed.column, typed.type, "", target, step)
        return ChangedSide(typed=typed.with_value(kind, column), reason=reason)
    found = require_struct(typed, step).find(name)
    if found is None:
        return ChangedSide(typed=typed)
    column, reason = _converted(found.column, found.field.type, name, target, step)
    new = NamedColumn(field=Field(name=name, type=kind), column=column)
    fields = [new if each.name == name else each for each in typed.fields]
    return ChangedSide(typed=typed.with_fields(fields), reason=reason)


def _converted(
    value: Column, kind: Type, name: str, target: str, step: Transformation
) -> tuple[Column, Column]:
    """The new value, and the reason if there is none."""
    if kind is Simple.TIMESTAMP and target == "Timestamp":
        return value, F.lit(None).cast("string")
    moment = _milliseconds(value, kind, name, step)
    # Other targets cannot have other years; numbers can, but those are mistaken units.
    if target != "unix" or kind is Simple.STRING:
        moment = F.when(moment.between(F.lit(FIRST_MS), F.lit(LAST_MS)), moment)
    column = _target(moment, target, step)
    what = f"the field {name}" if name else f"the {step.side}"
    start = F.lit(f"{step.name} (TimestampConverter) cannot convert {what} to {target}: ")
    fails = value.isNotNull() & moment.isNull()
    return column, F.when(fails, F.concat(start, shown(value), F.lit(".")))


def _milliseconds(value: Column, kind: Type, name: str, step: Transformation) -> Column:
    match kind:
        case Simple.STRING:
            pattern = text(step, "format", "")
            if not pattern.strip():
                raise refused_type(step, name, kind, "needs a format to read")
            try:
                return milliseconds(value, pattern)
            except ValueError as error:
                raise refused(step, f"has the format {pattern!r}, which {error}") from error
        case Simple.BIGINT:
            return _from_unix(value, _precision(step))
        case Simple.DATE:
            return F.unix_date(value).cast("bigint") * F.lit(DAY_MS)
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return F.unix_millis(value.cast("timestamp"))
        case _:
            raise refused_type(step, name, kind, "cannot take for a time")


def _precision(step: Transformation) -> int:
    found = text(step, "unix.precision", "milliseconds")
    if found not in _UNITS:
        raise refused(step, f"has the unix.precision {found!r}; it can be {', '.join(_UNITS)}")
    return _UNITS[found]


def _from_unix(value: Column, units: int) -> Column:
    if units >= 1000:
        return _divided(value, units // 1000)
    return _times(value, 1000 // units)


def _divided(value: Column, divisor: int) -> Column:
    """Without its fraction."""
    return F.call_function("div", value, F.lit(divisor).cast("bigint"))


def _times(value: Column, factor: int) -> Column:
    """As Java's TimeUnit: the largest or smallest number if the product is too large."""
    limit = F.when(value > 0, F.lit(_LARGEST)).when(value < 0, F.lit(-_LARGEST - 1))
    return F.coalesce(F.try_multiply(value, F.lit(factor).cast("bigint")), limit)


def _target(moment: Column, target: str, step: Transformation) -> Column:
    match target:
        case "string":
            pattern = text(step, "format", "")
            if not pattern.strip():
                raise refused(step, "needs a format to write texts")
            try:
                return written(F.timestamp_millis(moment), pattern)
            except ValueError as error:
                raise refused(step, f"has the format {pattern!r}, which {error}") from error
        case "unix":
            units = _precision(step)
            if units >= 1000:
                return _times(moment, units // 1000)
            return _divided(moment, 1000 // units)
        case "Date":
            midnight = moment - F.pmod(moment, F.lit(DAY_MS))
            return F.date_from_unix_date(_divided(midnight, DAY_MS).cast("int"))
        case "Time":
            return F.pmod(moment, F.lit(DAY_MS)).cast("int")
        case _:
            return F.timestamp_millis(moment)
