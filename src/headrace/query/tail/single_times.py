"""Times read and written by a pattern of SimpleDateFormat, as `pipeline/spark/lake/simple_date_formats.py`
does it in Spark. What patterns mean is in `pipeline/sink_records/simple_date_patterns.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.pipeline.expressions.functions.time_formats import ALL_LETTERS, NOTHING, joined
from headrace.pipeline.expressions.functions.time_printing import MONTHS, printed
from headrace.pipeline.sink_records.simple_date_patterns import (
    TimeReader,
    read_pattern,
    time_reader,
    written_run,
)
from headrace.query.tail.outcomes import UnsureError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_DAY_MS: Final = 86_400_000
_UNITS: Final = {"m": 60_000, "s": 1_000, "S": 1}
_HOUR_MS: Final = 3_600_000
_TWO_DIGITS: Final = 2
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?", re.ASCII)
_MONTHS: Final = tuple(each[:3].lower() for each in MONTHS)


def writer(pattern: str) -> Callable[[int], str]:
    """What writes a moment within the years 1 to 9999. Raises ValueError, and lake_unsupported for a pattern
    that only Spark knows.
    """
    runs = [written_run(run) for run in read_pattern(pattern)]
    form = joined(tuple(each for run in runs for each in (*NOTHING, run))[len(NOTHING) :])

    def write(moment: int) -> str:
        text = printed(form, ALL_LETTERS, _EPOCH + timedelta(milliseconds=moment))
        if text is None:
            raise HeadraceError("lake_unsupported", f"Only the lake writes times as {pattern!r}.")
        return text

    write(0)
    return write


def reader(pattern: str) -> Callable[[str], int | None]:
    """What reads a moment; None if there is none. Raises ValueError."""
    made = time_reader(read_pattern(pattern))
    expression = re.compile(made.expression, re.ASCII)

    def read(text: str) -> int | None:
        found = expression.match(text)
        if found is None:
            return None
        groups = {letter: found[number] for letter, number in made.groups.items()}
        return _moment(groups, made)

    return read


def _moment(groups: dict[str, str], made: TimeReader) -> int | None:
    month = 1
    if "M" in groups:
        name = groups["M"][:3].lower()
        month = _MONTHS.index(name) + 1 if made.has_names else int(groups["M"])
    months = 12 * _year(groups, made) + month - 1
    year, rest = divmod(months, 12)
    if not 1 <= year <= 9999:
        return None
    moment = (date(year, rest + 1, 1) - _FIRST_DAY).days * _DAY_MS
    if "d" in groups:
        moment += (int(groups["d"]) - 1) * _DAY_MS
    moment += _hour(groups, made) * _HOUR_MS
    moment += sum(int(groups[letter]) * unit for letter, unit in _UNITS.items() if letter in groups)
    return moment - sum(_offset_ms(groups[letter]) for letter in "XZz" if letter in groups)


def _year(groups: dict[str, str], made: TimeReader) -> int:
    text = groups.get("y", "1970")
    if not made.two_digits or len(text) != _TWO_DIGITS or "y" not in groups:
        return int(text)
    # Java takes two digits for a year from 80 years ago on. Spark counts from when its query was started.
    start = datetime.now(UTC).year - 80
    years = {_from_two_digits(int(text), each) for each in (start - 1, start)}
    if len(years) > 1:
        raise UnsureError("a year of two digits is now another one than last year")
    return years.pop()


def _from_two_digits(year: int, start: int) -> int:
    return year + start // 100 * 100 + (100 if year < start % 100 else 0)


def _hour(groups: dict[str, str], made: TimeReader) -> int:
    places = made.groups
    whole = next((letter for letter in "Hk" if letter in groups), "")
    half = next((letter for letter in "hK" if letter in groups), "")
    if whole and not (half and "a" in groups and places[whole] < max(places[half], places["a"])):
        hour = int(groups[whole])
        return 0 if whole == "k" and hour == 24 else hour
    hour = int(groups[half]) if half else 0
    if half == "h" and hour == 12:
        hour = 0
    return hour + (12 if groups.get("a", "").lower() == "pm" else 0)


def _offset_ms(zone: str) -> int:
    found = _OFFSET.search(zone)
    size = 0 if found is None else int(found[2]) * _HOUR_MS + int(found[3] or 0) * _UNITS["m"]
    return -size if "-" in zone else size
