"""When the partitions of a table expire: those by time have a date, which is in the values of their columns.

`TimePartitions` (`sink.py`) says which columns have which part of the time, as Java patterns. The date of a
partition is its last day: of a month its last, of an hour its day. A partition without a date, for example
because a value is not one, never expires. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from headrace.lake.sink import Partitioning

_DATE_PATTERN: Final = "yyyy-MM-dd"
_LETTERS: Final = re.compile(r"'[^']*'|([yMdHms])\1*|[^'yMdHms]+")
_DIGITS: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """`columns` have the parts of the date, with their patterns. A partition expires `days` after it."""

    columns: tuple[tuple[str, str], ...]
    days: int
    timezone: str = "UTC"

    def has_passed(self, partition: Mapping[str, str | None], *, now_ms: int) -> bool:
        last_day = partition_date(partition, self.columns)
        if last_day is None:
            return False
        today = datetime.fromtimestamp(now_ms / 1000, tz=UTC).astimezone(ZoneInfo(self.timezone)).date()
        return last_day < today - timedelta(days=self.days)


def expiry_of(partitioning: Partitioning, days: int) -> Expiry | None:
    """None if nothing expires: no number of days, or no partitions by date."""
    time = partitioning.time
    if not days:
        return None
    if time is not None:
        return Expiry(columns=time.columns, days=days, timezone=time.timezone)
    if partitioning.date_fields:
        return Expiry(columns=((partitioning.date_fields[0], _DATE_PATTERN),), days=days)
    return None


def partition_date(partition: Mapping[str, str | None], columns: tuple[tuple[str, str], ...]) -> date | None:
    """The last day of a partition; None if it has none."""
    found: dict[str, int] = {}
    by_name = {name.casefold(): value for name, value in partition.items()}
    for name, pattern in columns:
        value = by_name.get(name.casefold())
        parts = None if value is None else _parts(value, pattern)
        if parts is None:
            return None
        found = parts | found
    try:
        if "y" not in found:
            return None
        if "M" not in found:
            return date(found["y"], 12, 31)
        if "d" in found:
            return date(found["y"], found["M"], found["d"])
        first = date(found["y"], found["M"], 1)
        return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    except (ValueError, OverflowError):
        return None


def _parts(value: str, pattern: str) -> dict[str, int] | None:
    """The numbers in the value by their letters; None if it does not fit the pattern."""
    expression, letters = "", []
    tokens = list(_LETTERS.finditer(pattern))
    for number, token in enumerate(tokens):
        text = token[0]
        if token[1]:
            # Numbers that follow each other directly have as many digits as the pattern has letters.
            is_followed = number + 1 < len(tokens) and bool(tokens[number + 1][1])
            count = f"{{{len(text)}}}" if is_followed else "+"
            expression += f"([0-9]{count})"
            letters.append(token[1])
        else:
            expression += re.escape(text.strip("'"))
    found = re.fullmatch(expression, value)
    if found is None:
        # A column of a number has no leading zeros, whatever its pattern.
        is_number = len(letters) == 1 and _DIGITS.fullmatch(value)
        return {letters[0]: int(value)} if is_number else None
    return {letter: int(text) for letter, text in zip(letters, found.groups(), strict=True)}
