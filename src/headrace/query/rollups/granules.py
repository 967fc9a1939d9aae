"""Which functions of a time, and which bounds, are the same for all times of a bucket. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.lake.rollups.definition import DAY_US, UNITS, Bucket

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Units of the calendar, and those that consist of whole ones.
_WITHIN: Final[Mapping[str, frozenset[str]]] = {
    "week": frozenset({"week"}),
    "month": frozenset({"month", "quarter", "year"}),
    "quarter": frozenset({"quarter", "year"}),
    "year": frozenset({"year"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Granule:
    """A stretch of time in which something does not change: as `Bucket`, of any width."""

    unit: str = ""
    width_us: int = 0


def of_unit(unit: str) -> Granule:
    width = UNITS[unit]
    return Granule(unit=unit) if width is None else Granule(width_us=width)


_YEAR, _QUARTER, _MONTH, _WEEK = map(of_unit, ("year", "quarter", "month", "week"))
_DAY, _HOUR, _MINUTE, _SECOND = map(of_unit, ("day", "hour", "minute", "second"))

# What `date_trunc` takes.
TRUNCATED: Final[Mapping[str, Granule]] = {
    "millennium": _YEAR, "century": _YEAR, "decade": _YEAR, "year": _YEAR, "isoyear": _WEEK,
    "quarter": _QUARTER, "month": _MONTH, "week": _WEEK, "yearweek": _WEEK, "day": _DAY,
    "hour": _HOUR, "minute": _MINUTE, "second": _SECOND,
}  # fmt: skip
# What `date_part` takes, and functions of the same names.
PARTS: Final[Mapping[str, Granule]] = {
    "era": _YEAR, "millennium": _YEAR, "century": _YEAR, "decade": _YEAR, "year": _YEAR,
    "quarter": _QUARTER, "month": _MONTH, "monthname": _MONTH, "last_day": _MONTH,
    "isoyear": _WEEK, "yearweek": _WEEK, "week": _WEEK, "weekofyear": _WEEK,
    "day": _DAY, "dayofmonth": _DAY, "dow": _DAY, "isodow": _DAY, "doy": _DAY, "dayofweek": _DAY,
    "dayofyear": _DAY, "weekday": _DAY, "dayname": _DAY,
    "hour": _HOUR, "minute": _MINUTE, "second": _SECOND,
}  # fmt: skip
_FORMATS: Final[Mapping[str, Granule]] = {
    **dict.fromkeys("Yy", _YEAR),
    **dict.fromkeys("mbB", _MONTH),
    **dict.fromkeys("djaAwu", _DAY),
    **dict.fromkeys("HIp", _HOUR),
    "M": _MINUTE,
    "S": _SECOND,
}


def formatted(pattern: str) -> Granule | None:
    """Of `strftime`; None if the pattern has something that changes within a second, or is not known."""
    found = _YEAR
    letters = iter(pattern)
    for letter in letters:
        if letter != "%":
            continue
        kind = next(letters, "")
        if kind == "-":
            kind = next(letters, "")
        if kind == "%":
            continue
        granule = _FORMATS.get(kind)
        if granule is None:
            return None
        # A bucket that is within each of them is within all.
        found = _finer(found, granule)
    return found


def _finer(one: Granule, other: Granule) -> Granule:
    order = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _YEAR)
    return min(one, other, key=order.index)


def is_constant_in(bucket: Bucket, granule: Granule) -> bool:
    """Whether each bucket lies within one granule."""
    if bucket.unit:
        return granule.unit in _WITHIN[bucket.unit]
    # Buckets divide the day, and all units of the calendar consist of days.
    return bool(granule.unit) or granule.width_us % bucket.width_us == 0


def begins_bucket(bucket: Bucket, micros: int) -> bool:  # noqa: PLR0911 - one for each unit
    """Whether a bucket begins at this moment, in microseconds since 1970."""
    if not bucket.unit:
        return micros % bucket.width_us == 0
    if micros % DAY_US:
        return False
    try:
        day = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return False
    match bucket.unit:
        case "week":
            return day.weekday() == 0
        case "month":
            return day.day == 1
        case "quarter":
            return day.day == 1 and day.month in (1, 4, 7, 10)
        case _:
            return day.day == 1 and day.month == 1
