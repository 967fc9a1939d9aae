"""Fields of a text with a date or time, and the moment that they mean.

Fields are Java's (`java.time.temporal.ChronoField`). A field that is read twice must have one value.
`resolved` combines them as Java's strict resolver does, and fills in what is missing as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from headrace.pipeline.expressions.functions import zones
from headrace.pipeline.expressions.functions.zones import Zone

_RANGES: Final = {
    **{"month": (1, 12), "day": (1, 31), "day_of_year": (1, 366), "half": (0, 1)},
    **{"hour": (0, 23), "clock_hour": (1, 24), "hour_of_half": (0, 11), "clock_hour_of_half": (1, 12)},
    **{"minute": (0, 59), "second": (0, 59), "nano": (0, 999_999_999), "year_of_era": (1, 999_999_999)},
}
# Of 400 years, after which the calendar repeats itself.
_CALENDAR_DAYS: Final = 146_097
_DIGITS: Final = "0123456789"


@dataclass(slots=True)
class Fields:
    values: dict[str, int] = field(default_factory=dict)
    zone: Zone | None = None

    def set(self, name: str, value: int, end: int) -> int | None:
        """The end, unless the field has another value already."""
        return end if self.values.setdefault(name, value) == value else None

    def checked(self, name: str) -> int | None:
        """The value, taken out. Raises ValueError if the field cannot have it."""
        value = self.values.pop(name, None)
        if value is not None:
            low, high = _RANGES[name]
            if not low <= value <= high:
                raise ValueError(f"{name} {value}")
        return value


# Reads the text from a position on; gives where it ends, or None if it does not fit.
Element = Callable[[str, int, Fields], int | None]


def digits_at(text: str, start: int, most: int) -> str:
    end = start
    while end < min(start + most, len(text)) and text[end] in _DIGITS:
        end += 1
    return text[start:end]


def starts(text: str, start: int, expected: str) -> bool:
    """Whether the text goes on so; case does not matter."""
    found = text[start : start + len(expected)]
    return len(found) == len(expected) and all(
        one == other or one.upper() == other.upper() or one.lower() == other.lower()
        for one, other in zip(found, expected, strict=True)
    )


def resolved(fields: Fields) -> datetime:
    day, time_of_day = _day(fields), _time(fields)
    offset = fields.values.get("offset")
    where = fields.zone or (zones.GMT if offset is None else Zone("", zones.of_offset(offset)))
    # The calendar repeats itself, so years just outside of it can have a zone's offset too.
    shift = -_CALENDAR_DAYS if day > date.max.toordinal() else _CALENDAR_DAYS if day < 1 else 0
    local = datetime.fromordinal(day + shift) + time_of_day
    return where.moment(local) - timedelta(days=shift)


def _day(fields: Fields) -> int:
    """Days since the year 1 began, counting from 1."""
    values = fields.values
    era, year_of_era = values.get("era"), fields.checked("year_of_era")
    if era is not None and year_of_era is not None:
        values["year"] = year_of_era if era else 1 - year_of_era
    year = values.get("year", 1970)
    in_calendar = {0: 400, 10_000: 9_600}.get(year, year)
    if "day_of_year" not in values:
        found = date(in_calendar, values.get("month", 1), values.get("day", 1))
    else:
        found = date(in_calendar, 1, 1) + timedelta(days=(fields.checked("day_of_year") or 0) - 1)
        if found.year != in_calendar or any(
            values.get(name, part) != part for name, part in (("month", found.month), ("day", found.day))
        ):
            raise ValueError(f"no such day: {values}")
    return found.toordinal() + (year - in_calendar) // 400 * _CALENDAR_DAYS


def _time(fields: Fields) -> timedelta:
    values = fields.values
    for clock, plain, hours in (("clock_hour", "hour", 24), ("clock_hour_of_half", "hour_of_half", 12)):
        value = fields.checked(clock)
        if value is not None:
            _agree(fields, plain, value % hours)
    if "half" in values and "hour_of_half" in values:
        half, rest = fields.checked("half"), fields.checked("hour_of_half")
        _agree(fields, "hour", (half or 0) * 12 + (rest or 0))
    hour, half, rest = (fields.checked(name) for name in ("hour", "half", "hour_of_half"))
    minute, second, nano = (fields.checked(name) for name in ("minute", "second", "nano"))
    if hour is None:
        hour = rest if rest is not None else (half or 0) * 12
    elif _is_time(minute, second, nano) and (half, rest) != (
        None if half is None else hour // 12,
        None if rest is None else hour % 12,
    ):
        raise ValueError(f"the hour {hour} is in the other half of the day")
    return timedelta(hours=hour, minutes=minute or 0, seconds=second or 0, microseconds=(nano or 0) // 1000)


def _is_time(minute: int | None, second: int | None, nano: int | None) -> bool:
    """Whether Java makes a time of these and an hour, and compares other fields with it."""
    return (minute is not None or (second is None and nano is None)) and (second is not None or nano is None)


def _agree(fields: Fields, name: str, value: int) -> None:
    if fields.set(name, value, 0) is None:
        raise ValueError(f"two values of {name}")
