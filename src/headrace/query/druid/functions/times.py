"""Functions of times. They work on the wall clock of a zone: UTC, the one of the context, or an
argument's."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlglot import exp

from headrace.query.druid import joda
from headrace.query.druid.calls import Call, Context, Family, built
from headrace.query.druid.casting import parsed_time, timestamp, utc
from headrace.query.druid.dialect import sql
from headrace.query.druid.errors import DruidSqlError, Place
from headrace.query.druid.kinds import Kind
from headrace.query.druid.periods import Period, interval_of, period_of
from headrace.query.druid.zones import Zone

TIMES: Final = Family(title="Times")

UNITS: Final = {
    "MILLISECOND": "PT0.001S", "SECOND": "PT1S", "MINUTE": "PT1M", "HOUR": "PT1H", "DAY": "P1D",
    "WEEK": "P1W", "MONTH": "P1M", "QUARTER": "P3M", "YEAR": "P1Y",
}  # fmt: skip
_LONG_UNITS: Final = {"DECADE": "P10Y", "CENTURY": "P100Y", "MILLENNIUM": "P1000Y"}
_PARTS: Final = {
    "EPOCH": "CAST(floor(epoch({utc})) AS BIGINT)",
    "MILLISECOND": "extract(millisecond FROM {local}) % 1000",
    "SECOND": "extract(second FROM {local})",
    "MINUTE": "extract(minute FROM {local})",
    "HOUR": "extract(hour FROM {local})",
    "DAY": "extract(day FROM {local})",
    "DOW": "extract(isodow FROM {local})",
    "ISODOW": "extract(isodow FROM {local})",
    "DOY": "extract(doy FROM {local})",
    "WEEK": "extract(week FROM {local})",
    "MONTH": "extract(month FROM {local})",
    "QUARTER": "extract(quarter FROM {local})",
    "YEAR": "extract(year FROM {local})",
    "ISOYEAR": "extract(isoyear FROM {local})",
    "DECADE": "extract(year FROM {local}) // 10",
    "CENTURY": "CAST(ceil(extract(year FROM {local}) / 100) AS BIGINT)",
    "MILLENNIUM": "CAST(ceil(extract(year FROM {local}) / 1000) AS BIGINT)",
}
_UNIX: Final = datetime(1970, 1, 1)
_MONDAY: Final = datetime(1970, 1, 5)


def floored(
    time: exp.Expr, period: Period, zone: Zone, origin: exp.Expr | None, place: Place | None
) -> exp.Expr:
    """The beginning of the time's bucket. `time` and `origin` are timestamps of UTC."""
    if not period.is_bucket:
        raise DruidSqlError(
            "A period of months and shorter units cannot be a bucket here", place=place, unsupported=True
        )
    # Weeks begin on Mondays; longer multiples, like everything else, are counted from 1970-01-01.
    one_week = period == Period(weeks=1)
    start = timestamp(_MONDAY if one_week else _UNIX) if origin is None else origin
    since = "{1}" if origin is None else zone.local("{1}")
    bucket = f"time_bucket({period.sql()}, {zone.local('{0}')}, {since})"
    if period.is_calendar:
        return built(zone.instant(bucket), time, start)
    # The distance from the bucket's start is the same on the zone's clock, which can show an hour twice.
    return (
        built(f"({{0}} - ({zone.local('{0}')} - {bucket}))", time, start)
        if not zone.is_utc
        else built(bucket, time, start)
    )


def ceiled(
    time: exp.Expr, period: Period, zone: Zone, origin: exp.Expr | None, place: Place | None
) -> exp.Expr:
    floor = floored(time, period, zone, origin, place)
    return built(
        "CASE WHEN {1} = {0} THEN {0} ELSE {2} END", time, floor, shifted(floor, period, sql("1"), zone)
    )


def shifted(time: exp.Expr, period: Period, steps: exp.Expr, zone: Zone) -> exp.Expr:
    """Days and months move on the zone's clock, hours and less do not."""
    moved = time
    if period.is_calendar:
        moved = built(zone.instant(f"({zone.local('{0}')} + {period.calendar_sql()} * {{1}})"), moved, steps)
    if period.microseconds:
        moved = built(f"({{0}} + {period.exact_sql()} * {{1}})", moved, steps)
    return moved


def extracted(time: exp.Expr, unit: str, zone: Zone, place: Place | None) -> exp.Expr:
    part = _PARTS.get(unit.upper())
    if part is None:
        raise DruidSqlError(
            f"{unit[:30]} is no part of a time", place=place, remedy=f"There are {', '.join(_PARTS)}."
        )
    return built(f"({part.format(local=zone.local('{0}'), utc='{0}')})", time)


def unit_period(unit: str, place: Place | None) -> Period:
    name = unit.upper().removeprefix("SQL_TSI_")
    if name not in UNITS:
        raise DruidSqlError(
            f"{unit[:30]} is no unit of time", place=place, remedy=f"There are {', '.join(UNITS)}."
        )
    return period_of(UNITS[name])


def _time(call: Call, index: int) -> exp.Expr:
    return utc(call.arguments[index], call.context)


def _period(call: Call, index: int) -> Period:
    try:
        return period_of(call.literal(index, "The period"))
    except DruidSqlError as error:
        if error.place is not None:
            raise
        raise call.error(error.message) from error


def _origin(call: Call) -> exp.Expr | None:
    if len(call) < 3 or isinstance(call.tree(2), exp.Null):
        return None
    return _time(call, 2)


def _time_floor(call: Call) -> exp.Expr:
    return floored(_time(call, 0), _period(call, 1), call.zone(3), _origin(call), call.place)


def _time_ceil(call: Call) -> exp.Expr:
    return ceiled(_time(call, 0), _period(call, 1), call.zone(3), _origin(call), call.place)


def _date_trunc(call: Call) -> exp.Expr:
    unit = call.literal(0, "The unit").upper()
    known = UNITS | _LONG_UNITS
    found = known.get(unit) or known.get(unit.removesuffix("S"))
    if found is None:
        raise call.error(f"'{unit[:30]}' is no unit of time")
    return floored(_time(call, 1), period_of(found), call.context.zone, None, call.place)


def _time_shift(call: Call) -> exp.Expr:
    return shifted(_time(call, 0), _period(call, 1), call.tree(2), call.zone(3))


def _time_extract(call: Call) -> exp.Expr:
    unit = (call.optional_literal(1, "The unit") or "EPOCH") if len(call) > 1 else "EPOCH"
    return extracted(_time(call, 0), unit, call.zone(2), call.place)


def _time_parse(call: Call) -> exp.Expr:
    pattern, zone = call.optional_literal(1, "The pattern"), call.zone(2)
    if pattern is None:
        return parsed_time(call.arguments[0], Context(zone=zone))
    return built(joda.parsed("{0}", _escaped(pattern), zone), call.tree(0))


def _time_format(call: Call) -> exp.Expr:
    pattern = call.optional_literal(1, "The pattern") or joda.ISO
    template = joda.formatted("{0}", _escaped(pattern), call.zone(2))
    return built(template, _time(call, 0))


def _escaped(pattern: str) -> str:
    if "{" in pattern or "}" in pattern:
        raise DruidSqlError("A time pattern cannot contain braces here", unsupported=True)
    return pattern


def _in_interval(call: Call) -> exp.Expr:
    try:
        start, end = interval_of(call.literal(1, "The interval"), call.context.zone)
    except DruidSqlError as error:
        if error.place is not None:
            raise
        raise call.error(error.message) from error
    # An untouched column can be compared with the statistics of files.
    time = call.tree(0) if call.kind(0) is Kind.INSTANT else _time(call, 0)
    kind, zone = ("TIMESTAMPTZ", "+00") if call.kind(0) is Kind.INSTANT else ("TIMESTAMP", "")
    bounds = [f"{kind} '{each.isoformat(sep=' ')}{zone}'" for each in (start, end)]
    return built(f"({{0}} >= {bounds[0]} AND {{0}} < {bounds[1]})", time)


def _unit(call: Call) -> str:
    """The first argument, a word that was read as a column's name."""
    tree = call.tree(0)
    if isinstance(tree, exp.Column) and not tree.table:
        return tree.name
    return call.literal(0, "The unit")


def _timestampadd(call: Call) -> exp.Expr:
    return shifted(_time(call, 2), unit_period(_unit(call), call.place), call.tree(1), call.context.zone)


def _timestampdiff(call: Call) -> exp.Expr:
    unit = _unit(call).upper().removeprefix("SQL_TSI_")
    period = unit_period(unit, call.place)
    zone = call.context.zone
    clock = zone.local if period.is_calendar else str
    template = f"date_sub('{unit.lower()}', {clock('{0}')}, {clock('{1}')})"
    return built(template, _time(call, 1), _time(call, 2))


def now(context: Context) -> tuple[exp.Expr, Kind]:
    del context
    return sql("timezone('UTC', now())"), Kind.TIMESTAMP


def today(context: Context) -> tuple[exp.Expr, Kind]:
    return sql(f"CAST({context.zone.local('{0}')} AS DATE)", now(context)[0]), Kind.DATE


TIMES.add("TIME_FLOOR(timestamp_expr, period[, origin[, timezone]])", _time_floor, Kind.TIMESTAMP,
          note="months cannot be combined with shorter units")  # fmt: skip
TIMES.add("TIME_CEIL(timestamp_expr, period[, origin[, timezone]])", _time_ceil, Kind.TIMESTAMP,
          note="months cannot be combined with shorter units")  # fmt: skip
TIMES.add("TIME_SHIFT(timestamp_expr, period, step[, timezone])", _time_shift, Kind.TIMESTAMP)
TIMES.add("TIME_EXTRACT(timestamp_expr[, unit[, timezone]])", _time_extract, Kind.LONG)
TIMES.add("TIME_PARSE(string_expr[, pattern[, timezone]])", _time_parse, Kind.TIMESTAMP,
          note="the letters y, Y, M, d, D, E, a, H, h, m, s, S and Z")  # fmt: skip
TIMES.add("TIME_FORMAT(timestamp_expr[, pattern[, timezone]])", _time_format, Kind.STRING,
          note="not the letters C and G; z only for UTC and for offsets")  # fmt: skip
TIMES.add("TIME_IN_INTERVAL(timestamp_expr, interval)", _in_interval, Kind.BOOLEAN)
TIMES.add("DATE_TRUNC(unit, timestamp_expr)", _date_trunc, Kind.TIMESTAMP)
TIMES.add("MILLIS_TO_TIMESTAMP(millis_expr)", "make_timestamp_ms(CAST({0} AS BIGINT))", Kind.TIMESTAMP)
TIMES.add(
    "TIMESTAMP_TO_MILLIS(timestamp_expr)", lambda call: built("epoch_ms({0})", _time(call, 0)), Kind.LONG
)
TIMES.add("TIMESTAMPADD(unit, count, timestamp)", _timestampadd, Kind.TIMESTAMP)
TIMES.add("TIMESTAMPDIFF(unit, timestamp1, timestamp2)", _timestampdiff, Kind.LONG)
