"""ISO 8601 periods (`PT1H`, `P3M`) and intervals (`2000-01-01/P1D`).

A period has two parts: months, and an exact rest of days and microseconds. A bucket, into which times are
rounded, must have only one of them, because a month has no fixed length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.query.druid.errors import DruidSqlError
from headrace.query.druid.zones import Zone

_PERIOD: Final = re.compile(
    r"P(?:(\d{1,6})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?:(\d{1,7})H)?(?:(\d{1,7})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.IGNORECASE,
)
_INSTANT: Final = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,9}))?)?)?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    months: int = 0
    weeks: int = 0
    days: int = 0
    microseconds: int = 0

    @property
    def all_days(self) -> int:
        return 7 * self.weeks + self.days

    @property
    def is_calendar(self) -> bool:
        """Whether its length depends on the zone and the date: everything from a day up."""
        return bool(self.months or self.all_days)

    @property
    def is_bucket(self) -> bool:
        return bool(self.months) != bool(self.all_days or self.microseconds)

    def calendar_sql(self) -> str:
        return f"INTERVAL '{self.months} months {self.all_days} days'"

    def exact_sql(self) -> str:
        return f"INTERVAL '{self.microseconds} microseconds'"

    def sql(self) -> str:
        return f"INTERVAL '{self.months} months {self.all_days} days {self.microseconds} microseconds'"

    def added_to(self, time: datetime, sign: int) -> datetime:
        months = time.year * 12 + time.month - 1 + sign * self.months
        year, month = divmod(months, 12)
        day = min(time.day, _days_in(year, month + 1))
        shifted = time.replace(year=year, month=month + 1, day=day)
        return shifted + sign * timedelta(days=self.all_days, microseconds=self.microseconds)


def period_of(text: str) -> Period:
    """Raises DruidSqlError if it is none, or empty."""
    found = _PERIOD.fullmatch(text)
    if found is None or not any(found.groups()):
        raise DruidSqlError(
            f"'{text[:50]}' is no ISO 8601 period", remedy="Write one such as 'PT1H' or 'P1M'."
        )
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:7])
    fraction = int(f"{found[8] or '0':0<6}"[:6])
    period = Period(
        months=12 * years + months,
        weeks=weeks,
        days=days,
        microseconds=((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction,
    )
    if period == Period():
        raise DruidSqlError(f"The period '{text[:50]}' is empty")
    return period


def interval_of(text: str, zone: Zone) -> tuple[datetime, datetime]:
    """The beginning and the end, exclusive, as times of UTC. Raises DruidSqlError."""
    one, separator, other = text.partition("/")
    try:
        if not separator:
            raise ValueError("it has no slash")
        if one[:1] in "Pp":
            end = _local(other, zone)
            start = period_of(one).added_to(end, -1)
        else:
            start = _local(one, zone)
            end = period_of(other).added_to(start, 1) if other[:1] in "Pp" else _local(other, zone)
        return _utc(start, zone), _utc(end, zone)
    except (ValueError, OverflowError) as error:
        raise DruidSqlError(
            f"'{text[:80]}' is no ISO 8601 interval: {error}",
            remedy="Write one such as '2000-01-01/P1D' or '2000-01-01T12:00/2000-01-02'.",
        ) from error


def instant_of(text: str, zone: Zone) -> datetime:
    """A literal timestamp as a time of UTC. ValueError if it is none."""
    return _utc(_local(text, zone), zone)


def _local(text: str, zone: Zone) -> datetime:
    found = _INSTANT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text[:50]}' is no time")
    year, month, day, hour, minute, second = (
        int(part) if part else default
        for part, default in zip(found.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    )
    time = datetime(year, month, day, hour, minute, second, int(f"{found[7] or '0':0<6}"[:6]))
    offset = found[8]
    if offset is None:
        return time
    digits = offset[1:].replace(":", "")
    minutes = 0 if offset in "Zz" else int(digits[:2]) * 60 + int(digits[2:] or 0)
    return _zoned(time - timedelta(minutes=-minutes if offset[0] == "-" else minutes), zone)


def _zoned(utc: datetime, zone: Zone) -> datetime:
    return utc.replace(tzinfo=UTC).astimezone(zone.tzinfo).replace(tzinfo=None)


def _utc(local: datetime, zone: Zone) -> datetime:
    return local.replace(tzinfo=zone.tzinfo).astimezone(UTC).replace(tzinfo=None)


def _days_in(year: int, month: int) -> int:
    following = datetime(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day
