"""Functions of DATE, TIME and TIMESTAMP.

TIME is an INT of milliseconds since midnight in Spark. Zones that are not named are UTC, as the session's.
A DATE or TIMESTAMP outside the years 1 to 9999 is null, because Python has no such values. Texts are read
strictly: 2021-06-31 is null (in ksqlDB it is 2021-06-30).
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, Python, Signature, signature
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.refusing import refused
from headrace.pipeline.expressions.functions.time_formats import (
    ALL_LETTERS,
    DATE_LETTERS,
    TIME_LETTERS,
    Letters,
)
from headrace.pipeline.expressions.functions.time_parsing import (
    ANYTHING,
    FULL_DATE,
    FULL_TIME,
    Needed,
    parsed,
    parsed_in_spark,
)
from headrace.pipeline.expressions.functions.time_printing import printed, printed_in_spark
from headrace.pipeline.expressions.functions.zones import MOVABLE, movable, within, zone, zone_in_spark
from headrace.pipeline.expressions.values import (
    MILLISECONDS_OF_DAY,
    date_of,
    days_of,
    milliseconds_of,
    milliseconds_of_day,
    time_of,
    timestamp_of,
)

_DAY: Final = MILLISECONDS_OF_DAY
_UNITS: Final = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY}
_DAYS: Final = (days_of(date.min), days_of(date.max))
_MILLISECONDS: Final = (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1)
_TIMESTAMPS: Final = ("TIMESTAMP'0001-01-01 00:00:00'", "TIMESTAMP'9999-12-31 23:59:59.999999'")

# Now, and not when the batch began, which may have been minutes ago.
_NOW: Final = "TRY_CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)"


def _now() -> int:
    return clock.time_ns() // 1_000_000


def _timestamp(milliseconds: str) -> str:
    return f"timestamp_millis({within(milliseconds, _MILLISECONDS)})"


def _date(days: str) -> str:
    return f"date_from_unix_date(CAST({within(days, _DAYS)} AS INT))"


def _midnight(date: str) -> str:
    inside = within(date, ("DATE'0001-01-01'", "DATE'9999-12-31'"))
    return f"CAST({inside} AS TIMESTAMP)"


def _start_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


# Formats.

_WITH_ZONE: Final = ("", ", VARCHAR zone")


def _formatting(
    parameter: str, value: str, moment: Callable[[Any], datetime], allowed: Letters, *, zones: bool = False
) -> tuple[Signature, ...]:
    """`value` is Spark SQL of a TIMESTAMP; letters that are not allowed have no value in it."""

    def spark(call: Call) -> str:
        name = zone_in_spark(call, "zone") if "zone" in call.texts else None
        shifted = value if name is None else f"from_utc_timestamp({within(value, MOVABLE)}, {name})"
        return printed_in_spark(call.string("format"), allowed, value, shifted, name)

    def python(given: Any, form: str, name: str | None = None) -> str | None:
        if name is None:
            return printed(form, allowed, moment(given))
        return printed(form, allowed, movable(moment(given)), zone(name))

    return tuple(
        signature(f"{parameter}, VARCHAR format{parameter_of_zone} -> VARCHAR", spark, python)
        for parameter_of_zone in (_WITH_ZONE if zones else ("",))
    )


def _parsing(
    returns: str,
    of_parsed: str,
    of_moment: Python,
    allowed: Letters = ALL_LETTERS,
    needed: Needed = ANYTHING,
    *,
    zones: bool = False,
) -> tuple[Signature, ...]:
    """`PARSED` in `of_parsed` is Spark SQL of the TIMESTAMP that the text says; null outside the calendar."""

    def spark(call: Call) -> str:
        name = zone_in_spark(call, "zone") if "zone" in call.texts else None
        found = parsed_in_spark(call.string("format"), allowed, needed, name)
        return of_parsed.replace("PARSED", within(found, _TIMESTAMPS))

    def python(text: str, form: str, name: str | None = None) -> Any:
        found = parsed(text, form, allowed, needed, None if name is None else zone(name))
        return None if found is None else of_moment(found)

    return tuple(
        signature(f"VARCHAR value, VARCHAR format{parameter_of_zone} -> {returns}", spark, python)
        for parameter_of_zone in (_WITH_ZONE if zones else ("",))
    )


def _only_date(moment: datetime) -> date | None:
    return moment.date() if moment.time() == time() else None


def _whole_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


# Moving by an interval.


def _unit(word: str) -> int:
    found = _UNITS.get(word.strip().upper().removesuffix("S"))
    if found is None:
        raise refused(
            f"{word.strip().upper()} is not a unit of time here.",
            "DAYS, HOURS, MINUTES, SECONDS and MILLISECONDS are.",
        )
    return found


def _moved(
    name: str, kind: str, description: str, spark: Callable[[str], str], python: Callable[[Any, int], Any]
) -> Function:
    """Both forms are given how many milliseconds the value moves by."""
    sign = "-" if name.endswith("SUB") else ""

    def template(call: Call) -> str:
        return spark(f"{sign}CAST({{interval}} AS BIGINT) * {_unit(call.texts['unit'])}L")

    def moved(unit: str, interval: int, value: Any) -> Any:
        by = interval * _unit(unit)
        return python(value, -by if sign else by)

    return scalar(
        name, description, signature(f"UNIT unit, INTEGER interval, {kind} value -> {kind}", template, moved)
    )


def _moved_date(by: str) -> str:
    # Java's division goes towards zero, as DIV does.
    return _date(f"(unix_date({{value}}) * {_DAY}L + ({by})) DIV {_DAY}L")


def _date_moved(day: date, by: int) -> date:
    milliseconds = days_of(day) * _DAY + by
    whole = abs(milliseconds) // _DAY
    return date_of(whole if milliseconds >= 0 else -whole)


def _moved_time(by: str) -> str:
    return f"CAST(pmod({{value}} + ({by}), {_DAY}L) AS INT)"


def _time_moved(value: time, by: int) -> time:
    return time_of((milliseconds_of_day(value) + by) % _DAY)


def _moved_timestamp(by: str) -> str:
    moved = f"timestamp_micros(try_add(unix_micros({{value}}), try_multiply({by}, 1000L)))"
    return within(moved, _TIMESTAMPS)


def _timestamp_moved(moment: datetime, by: int) -> datetime:
    return moment + timedelta(milliseconds=by)


def _convert_in_spark(call: Call) -> str:
    target, source = zone_in_spark(call, "target"), zone_in_spark(call, "source")
    value = within("{value}", MOVABLE)
    return (
        f"timestamp_micros(unix_micros(from_utc_timestamp({value}, {target}))"
        f" - unix_micros(from_utc_timestamp({value}, {source})) + unix_micros({{value}}))"
    )


def _convert(moment: datetime, source: str, target: str) -> datetime:
    here = movable(moment)
    return moment + zone(target).offset_at(here) - zone(source).offset_at(here)


_MIDNIGHT: Final = (
    "element_at(transform(array(PARSED), __hr_t ->"
    " CASE WHEN __hr_t = date_trunc('DAY', __hr_t) THEN CAST(__hr_t AS DATE) END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "CONVERT_TZ",
        "Moves a timestamp from one zone to another.",
        signature(
            "TIMESTAMP value, VARCHAR source, VARCHAR target -> TIMESTAMP",
            _convert_in_spark,
            _convert,
        ),
    ),
    _moved("DATEADD", "DATE", "The date that much later.", _moved_date, _date_moved),
    _moved("DATESUB", "DATE", "The date that much earlier.", _moved_date, _date_moved),
    scalar(
        "DATETOSTRING",
        "Days since 1970-01-01 in that format.",
        *_formatting(
            "INTEGER value",
            _midnight("date_from_unix_date({value})"),
            lambda days: _start_of(date_of(days)),
            DATE_LETTERS,
        ),
    ),
    scalar(
        "FORMAT_DATE",
        "A date in that format.",
        *_formatting("DATE value", _midnight("{value}"), _start_of, DATE_LETTERS),
    ),
    scalar(
        "FORMAT_TIME",
        "A time in that format.",
        *_formatting(
            "TIME value",
            "timestamp_millis({value})",
            lambda value: timestamp_of(milliseconds_of_day(value)),
            TIME_LETTERS,
        ),
    ),
    scalar(
        "FORMAT_TIMESTAMP",
        "A timestamp in that format, in UTC or in that zone.",
        *_formatting("TIMESTAMP value", "{value}", lambda value: value, ALL_LETTERS, zones=True),
    ),
    scalar(
        "FROM_DAYS",
        "The date that many days after 1970-01-01.",
        signature("INTEGER days -> DATE", _date("{days}"), date_of),
    ),
    scalar(
        "FROM_UNIXTIME",
        "The timestamp that many milliseconds after 1970-01-01.",
        signature("BIGINT milliseconds -> TIMESTAMP", _timestamp("{milliseconds}"), timestamp_of),
    ),
    scalar(
        "PARSE_DATE",
        "The date that a text in that format says.",
        *_parsing("DATE", _MIDNIGHT, _only_date),
    ),
    scalar(
        "PARSE_TIME",
        "The time that a text in that format says.",
        *_parsing(
            "TIME",
            "CAST(unix_millis(PARSED) AS INT)",
            lambda moment: _whole_milliseconds(moment).time(),
            TIME_LETTERS,
            FULL_TIME,
        ),
    ),
    scalar(
        "PARSE_TIMESTAMP",
        "The timestamp that a text in that format says.",
        *_parsing("TIMESTAMP", "date_trunc('MILLISECOND', PARSED)", _whole_milliseconds, zones=True),
    ),
    scalar(
        "STRINGTODATE",
        "Days since 1970-01-01 of the date that a text in that format says.",
        *_parsing(
            "INTEGER",
            "unix_date(CAST(PARSED AS DATE))",
            lambda moment: days_of(moment.date()),
            needed=FULL_DATE,
        ),
    ),
    scalar(
        "STRINGTOTIMESTAMP",
        "Milliseconds since 1970-01-01 of the timestamp that a text in that format says.",
        *_parsing("BIGINT", "unix_millis(PARSED)", milliseconds_of, zones=True),
    ),
    _moved("TIMEADD", "TIME", "The time that much later, past midnight too.", _moved_time, _time_moved),
    _moved("TIMESTAMPADD", "TIMESTAMP", "The timestamp that much later.", _moved_timestamp, _timestamp_moved),
    _moved(
        "TIMESTAMPSUB", "TIMESTAMP", "The timestamp that much earlier.", _moved_timestamp, _timestamp_moved
    ),
    scalar(
        "TIMESTAMPTOSTRING",
        "Milliseconds since 1970-01-01 in that format, in UTC or in that zone.",
        *_formatting("BIGINT value", _timestamp("{value}"), timestamp_of, ALL_LETTERS, zones=True),
    ),
    _moved("TIMESUB", "TIME", "The time that much earlier, past midnight too.", _moved_time, _time_moved),
    scalar(
        "UNIX_DATE",
        "The days since 1970-01-01, of a date or of today.",
        signature("-> INTEGER", f"CAST({_NOW} DIV {_DAY}L AS INT)", lambda: _now() // _DAY),
        signature("DATE date -> INTEGER", "unix_date({date})", days_of),
    ),
    scalar(
        "UNIX_TIMESTAMP",
        "The milliseconds since 1970-01-01, of a timestamp or of now.",
        signature("-> BIGINT", _NOW, _now),
        signature("TIMESTAMP timestamp -> BIGINT", "unix_millis({timestamp})", milliseconds_of),
    ),
)
