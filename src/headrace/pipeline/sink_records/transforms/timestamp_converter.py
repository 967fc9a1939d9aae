"""TimestampConverter: times as text, numbers, dates or timestamps, all in UTC.

Kafka's Time has no type in the lake: it becomes an INT, milliseconds of the day.
"""

from __future__ import annotations

from typing import Final

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Simple, Type
from headrace.pipeline.expressions.moments import FIRST_MS, LAST_MS
from headrace.pipeline.sink_records.columns import C, Columns
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.changes import ChangedSide, refused_type, require_struct, text
from headrace.pipeline.sink_tables import refused

_TARGETS: Final[dict[str, Simple]] = {
    "string": Simple.STRING,
    "unix": Simple.BIGINT,
    "Date": Simple.DATE,
    "Time": Simple.INT,
    "Timestamp": Simple.TIMESTAMP,
}
# In a second, of `unix.precision`.
_UNITS: Final = {"seconds": 1, "milliseconds": 1000, "microseconds": 10**6, "nanoseconds": 10**9}


def timestamp_converter(typed: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    """Of a field, or of the whole key or value. Null stays null; a field that does not exist is ignored."""
    target = text(step, "target.type")
    if target not in _TARGETS:
        raise refused(step, f"has the target.type {target!r}; it can be {', '.join(_TARGETS)}")
    kind, name = _TARGETS[target], text(step, "field", "")
    if not name:
        column, reason = _converted(typed.made_by, typed.column, typed.type, target, name="", step=step)
        return ChangedSide(typed=typed.with_value(kind, column), reason=reason)
    found = require_struct(typed, step).find(name)
    if found is None:
        return ChangedSide(typed=typed)
    column, reason = _converted(typed.made_by, found.column, found.field.type, target, name=name, step=step)
    new = NamedColumn(field=Field(name=name, type=kind), column=column)
    fields = [new if each.name == name else each for each in typed.fields]
    return ChangedSide(typed=typed.with_fields(fields), reason=reason)


def _converted(
    columns: Columns[C], value: C, kind: Type, target: str, *, name: str, step: Transformation
) -> tuple[C, C]:
    """The new value, and the reason if there is none."""
    if kind is Simple.TIMESTAMP and target == "Timestamp":
        return value, columns.null(Simple.STRING)
    moment = _moment(columns, value, kind, name, step)
    # Other targets cannot have other years; numbers can, but those are mistaken units.
    if target != "unix" or kind is Simple.STRING:
        moment = columns.between(moment, FIRST_MS, LAST_MS)
    column = _target(columns, moment, target, step)
    what = f"the field {name}" if name else f"the {step.side}"
    start = f"{step.name} (TimestampConverter) cannot convert {what} to {target}: "
    fails = columns.both(columns.is_present(value), columns.opposite(columns.is_present(moment)))
    return column, columns.when(fails, columns.problem(start, value))


def _moment(columns: Columns[C], value: C, kind: Type, name: str, step: Transformation) -> C:
    match kind:
        case Simple.STRING:
            pattern = text(step, "format", "")
            if not pattern.strip():
                raise refused_type(step, name, kind, "needs a format to read")
            try:
                return columns.read_time(value, pattern)
            except ValueError as error:
                raise refused(step, f"has the format {pattern!r}, which {error}") from error
        case Simple.BIGINT:
            return columns.from_unix(value, _precision(step))
        case Simple.DATE:
            return columns.midnight(value)
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return columns.moment(value)
        case _:
            raise refused_type(step, name, kind, "cannot take for a time")


def _precision(step: Transformation) -> int:
    found = text(step, "unix.precision", "milliseconds")
    if found not in _UNITS:
        raise refused(step, f"has the unix.precision {found!r}; it can be {', '.join(_UNITS)}")
    return _UNITS[found]


def _target(columns: Columns[C], moment: C, target: str, step: Transformation) -> C:
    match target:
        case "string":
            pattern = text(step, "format", "")
            if not pattern.strip():
                raise refused(step, "needs a format to write texts")
            try:
                return columns.written_time(moment, pattern)
            except ValueError as error:
                raise refused(step, f"has the format {pattern!r}, which {error}") from error
        case "unix":
            return columns.to_unix(moment, _precision(step))
        case "Date":
            return columns.day(moment)
        case "Time":
            return columns.time_of_day(moment)
        case _:
            return columns.timestamp(moment)
