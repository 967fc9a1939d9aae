"""Times read and written by a pattern of Java's SimpleDateFormat, in UTC, as TimestampConverter has them.

What patterns mean is in `pipeline/sink_records/simple_date_patterns.py`. Texts of the exact width are read by
Spark's own parser, which is fast; others by a regular expression.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.expressions.functions.time_formats import NOTHING, Kind, joined
from headrace.pipeline.expressions.functions.time_printing import MONTHS
from headrace.pipeline.sink_records.simple_date_patterns import (
    TimeReader,
    read_pattern,
    time_reader,
    written_run,
)

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_EXACT: Final = frozenset(("yyyy", "MM", "dd", "HH", "mm", "ss", "SSS"))
_TWO_DIGITS: Final = 2

# The text, or the number, of the group of a letter.
_Group = Callable[[str], Column]


def written(moment: Column, pattern: str) -> Column:
    """A TIMESTAMP as text. Raises ValueError if the pattern is not supported."""
    parts = [written_run(run) for run in read_pattern(pattern)]
    # Empty optional parts keep letters and quotes apart.
    runs = [each for part in parts for each in (*NOTHING, part)]
    return F.date_format(moment, joined(tuple(runs[len(NOTHING) :])))


# Reading.


def milliseconds(text: Column, pattern: str) -> Column:
    """Milliseconds since 1970 that the text says; null if it says none.

    Raises ValueError if the pattern is not supported.
    """
    runs = read_pattern(pattern)
    lenient = _lenient(text, time_reader(runs))
    letters = [run.text for run in runs if run.kind is Kind.LETTERS]
    is_exact = "yyyy" in letters and len(set(letters)) == len(letters) and set(letters) <= _EXACT
    if not is_exact:
        return lenient
    width = sum(len(run.text) for run in runs)
    form = joined(tuple(each for run in runs for each in (*NOTHING, run))[len(NOTHING) :])
    exact = F.when(F.length(text) == F.lit(width), F.unix_millis(F.try_to_timestamp(text, F.lit(form))))
    return F.coalesce(exact, lenient)


def _lenient(text: Column, reader: TimeReader) -> Column:
    def group(letter: str) -> Column:
        return F.regexp_extract(text, reader.expression, reader.groups[letter])

    def number(letter: str) -> Column:
        return group(letter).try_cast("bigint")

    found = reader.groups
    month = F.lit(1).cast("bigint")
    if "M" in found:
        month = _month_number(group("M")) if reader.has_names else number("M")
    parts = [F.unix_date(_first_of_month(_year(group, number, reader), month)).cast("bigint") * F.lit(DAY_MS)]
    if "d" in found:
        parts.append((number("d") - F.lit(1)) * F.lit(DAY_MS))
    hour = _hour(group, number, found)
    if hour is not None:
        parts.append(hour * F.lit(_HOUR_MS))
    for letter, unit in {"m": _MINUTE_MS, "s": 1000, "S": 1}.items():
        if letter in found:
            parts.append(number(letter) * F.lit(unit))
    for letter in ("X", "Z", "z"):
        if letter in found:
            parts.append(-_offset_ms(group(letter)))
    return F.when(text.rlike(reader.expression), reduce(add, parts))


def _year(group: _Group, number: _Group, reader: TimeReader) -> Column:
    if "y" not in reader.groups:
        return F.lit(1970).cast("bigint")
    if not reader.two_digits:
        return number("y")
    # Java takes two digits for a year from 80 years ago on.
    start = datetime.now(UTC).year - 80
    year = number("y")
    century = F.lit(start // 100 * 100) + F.when(year < F.lit(start % 100), F.lit(100)).otherwise(F.lit(0))
    return year + F.when(F.length(group("y")) == F.lit(_TWO_DIGITS), century).otherwise(F.lit(0))


def _hour(group: _Group, number: _Group, found: dict[str, int]) -> Column | None:
    whole = next((letter for letter in "Hk" if letter in found), "")
    half = next((letter for letter in "hK" if letter in found), "")
    if whole and not (half and "a" in found and found[whole] < max(found[half], found["a"])):
        hour = number(whole)
        return F.when(hour == F.lit(24), F.lit(0)).otherwise(hour) if whole == "k" else hour
    if not half and "a" not in found:
        return None
    hour = number(half) if half else F.lit(0).cast("bigint")
    if half == "h":
        hour = F.when(hour == F.lit(12), F.lit(0)).otherwise(hour)
    if "a" in found:
        hour = hour + F.when(F.lower(group("a")) == F.lit("pm"), F.lit(12)).otherwise(F.lit(0))
    return hour


def _month_number(name: Column) -> Column:
    """From the first three letters."""
    names = F.array(*(F.lit(each[:3].lower()) for each in MONTHS))
    return F.array_position(names, F.lower(F.substring(name, 1, 3)))


def _first_of_month(year: Column, month: Column) -> Column:
    """A DATE; months beyond the year are carried over. Null outside the years 1 to 9999."""
    months = year * F.lit(12) + month - F.lit(1)
    first = F.floor(months / F.lit(12))
    text = F.concat(
        F.lpad(first.cast("string"), 4, "0"),
        F.lit("-"),
        F.lpad((months - first * F.lit(12) + F.lit(1)).cast("string"), 2, "0"),
        F.lit("-01"),
    )
    return F.when(first.between(F.lit(1), F.lit(9999)), text.try_cast("date"))


def _offset_ms(zone: Column) -> Column:
    parts = r"([+-])([0-9]{1,2}):?([0-9]{2})?"
    hours = F.coalesce(F.regexp_extract(zone, parts, 2).try_cast("bigint"), F.lit(0))
    minutes = F.coalesce(F.regexp_extract(zone, parts, 3).try_cast("bigint"), F.lit(0))
    size = hours * F.lit(_HOUR_MS) + minutes * F.lit(_MINUTE_MS)
    return F.when(F.contains(zone, F.lit("-")), -size).otherwise(size)
