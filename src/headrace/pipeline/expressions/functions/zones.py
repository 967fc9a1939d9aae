"""Time zones by name, as Java's ZoneId reads and writes them.

A zone is `Z`, an offset (`+5`, `+05:30`, `-053000`), `UTC`, `GMT` or `UT` with or without an offset, or a
region such as `Europe/London`. Names are case-sensitive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from headrace.pipeline.expressions.functions.function import Call

_OFFSET: Final = re.compile(r"([+-])(?:(\d)|(\d\d)(?:(\d\d)(\d\d)?|:(\d\d)(?::(\d\d))?)?)", re.ASCII)
_LARGEST_OFFSET: Final = 18 * 3600
_CERTAIN: Final = re.compile(r"UTC|GMT|Z|[+-](?:0\d|1[0-7]):[0-5]\d", re.ASCII)
# Names in the database that Java does not know.
_NOT_IN_JAVA: Final = frozenset(("EST", "HST", "MST", "ROC", "Factory", "localtime", "GMT+0", "GMT-0"))


@dataclass(frozen=True, slots=True)
class Zone:
    """`name` is what the format letter V writes."""

    name: str
    rules: tzinfo

    def offset_at(self, moment: datetime) -> timedelta:
        found = moment.astimezone(self.rules).utcoffset()
        assert found is not None
        return found

    def local(self, moment: datetime) -> datetime:
        """What clocks in the zone show, without a zone."""
        return moment.astimezone(self.rules).replace(tzinfo=None)

    def moment(self, local: datetime) -> datetime:
        """When clocks show that; if they skip it or show it twice, by the offset before the change."""
        return local.replace(tzinfo=self.rules, fold=0).astimezone(UTC)


GMT: Final = Zone("GMT", UTC)
_FIRST_MOVABLE: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOVABLE: Final = datetime(9999, 12, 30, tzinfo=UTC)
MOVABLE: Final = ("TIMESTAMP'0001-01-02 00:00:00'", "TIMESTAMP'9999-12-30 00:00:00'")


def movable(moment: datetime) -> datetime:
    """The moment. Raises ValueError if it could be outside the years 1 to 9999 in another zone."""
    if not _FIRST_MOVABLE <= moment <= _LAST_MOVABLE:
        raise ValueError(f"{moment} is at the end of the calendar")
    return moment


def within(value: str, bounds: tuple[object, object]) -> str:
    """Spark SQL: the value, or null outside the bounds."""
    if value.startswith("{"):
        return f"CASE WHEN {value} BETWEEN {bounds[0]} AND {bounds[1]} THEN {value} END"
    return f"get(filter(array({value}), __hr_b -> __hr_b BETWEEN {bounds[0]} AND {bounds[1]}), 0)"


@lru_cache(maxsize=256)
def zone(name: str) -> Zone:
    """Raises ValueError if Java knows no such zone."""
    if name == "Z":
        return Zone("Z", UTC)
    prefix = next((each for each in ("UTC", "GMT", "UT", "") if name.startswith(each)), "")
    rest = name[len(prefix) :]
    if (prefix and not rest) or rest[:1] in ("+", "-"):
        offset = offset_seconds(rest) if rest else 0
        return Zone(prefix + offset_name(offset, zero="" if prefix else "Z"), of_offset(offset))
    if name not in regions():
        raise ValueError(f"no zone {name!r}")
    return Zone(name, ZoneInfo(name))


def of_offset(seconds: int) -> tzinfo:
    if abs(seconds) > _LARGEST_OFFSET:
        raise ValueError(f"an offset of {seconds} s is too large")
    return timezone(timedelta(seconds=seconds))


def offset_seconds(text: str) -> int:
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise ValueError(f"no offset {text!r}")
    hours, minutes, seconds = (
        int(next((part for part in parts if part), "0"))
        for parts in (found.group(2, 3), found.group(4, 6), found.group(5, 7))
    )
    if minutes > 59 or seconds > 59:
        raise ValueError(f"no offset {text!r}")
    total = hours * 3600 + minutes * 60 + seconds
    return -total if found[1] == "-" else total


def offset_name(seconds: int, *, zero: str) -> str:
    if not seconds:
        return zero
    minutes, rest = divmod(abs(seconds), 60)
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


@cache
def regions() -> frozenset[str]:
    return frozenset(available_timezones() - _NOT_IN_JAVA)


def zone_in_spark(call: Call, name: str) -> str:
    """Spark SQL: the zone's name, or null if there is no such zone. Java decides where we cannot."""
    constant = call.string(name)
    if constant is not None and (_CERTAIN.fullmatch(constant) or _is_certain_region(constant)):
        return f"{{{name}}}"
    return f"try_reflect('java.time.ZoneId', 'of', {{{name}}})"


def _is_certain_region(name: str) -> bool:
    return "/" in name and not name.startswith("Etc/") and name in regions()
