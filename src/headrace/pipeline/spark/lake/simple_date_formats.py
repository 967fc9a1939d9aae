r"""Times read and written by a pattern of Java's SimpleDateFormat, in UTC, as TimestampConverter has them.

SimpleDateFormat is lenient: it ignores what follows the time, takes any number of digits, and carries over
(32 January is 1 February). `S` is a number of milliseconds, not a fraction: `.5` is 5 ms. Texts of the exact
width are read by Spark's own parser, which is fast; others by a regular expression.

Differences from Java: dates before 15 October 1582 are in today's calendar, not in the Julian one; years are
1 to 9999; numbers have no sign; zones are offsets, UTC and GMT; names are English. Letters for weeks are not
supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.expressions.functions.time_formats import NOTHING, Kind, Run, joined
from headrace.pipeline.expressions.functions.time_printing import MONTHS, WEEKDAYS

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']+", re.DOTALL)
_NAMED_MONTH: Final = 3
_EXACT: Final = frozenset(("yyyy", "MM", "dd", "HH", "mm", "ss", "SSS"))
_NUMBERS: Final = frozenset("yMLdHkKhmsS")
_TWO_DIGITS: Final = 2
_HOURS: Final = "(?:[01][0-9]|2[0-3])"
_ISO_ZONES: Final = {
    "X": f"Z|[+-]{_HOURS}",
    "XX": f"Z|[+-]{_HOURS}[0-5][0-9]",
    "XXX": f"Z|[+-]{_HOURS}:[0-5][0-9]",
}
_ZONES: Final = f"GMT[+-](?:{_HOURS}|[0-9]):[0-5][0-9]|(?i:UTC|GMT)|[+-]{_HOURS}[0-5][0-9]"


# The text, or the number, of the group of a letter.
_Group = Callable[[str], Column]


def read_pattern(pattern: str) -> tuple[Run, ...]:
    """Raises ValueError if it is not a pattern, or has letters that are not supported."""
    runs: list[Run] = []
    place = 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None:
            raise ValueError("has a quote that is not closed")
        text, place = found[0], found.end()
        if found[1]:
            if text[0] not in "yMLdHkKhmsSaEGDzZX" or (text[0] == "X" and text not in _ISO_ZONES):
                raise ValueError(f"has {text!r}, which is not supported")
            runs.append(Run(text, Kind.LETTERS))
            continue
        if text.startswith("'"):
            text = text[1:-1].replace("''", "'") or "'"
        if runs and runs[-1].kind is Kind.LITERAL:
            text = runs.pop().text + text
        runs.append(Run(text, Kind.LITERAL))
    return tuple(runs)


# Writing.


def written(moment: Column, pattern: str) -> Column:
    """A TIMESTAMP as text. Raises ValueError if the pattern is not supported."""
    parts = [_spark_run(run) for run in read_pattern(pattern)]
    # Empty optional parts keep letters and quotes apart.
    runs = [each for part in parts for each in (*NOTHING, part)]
    return F.date_format(moment, joined(tuple(runs[len(NOTHING) :])))


def _spark_run(run: Run) -> Run:
    letter, count = run.letter, len(run.text)
    literal = {"z": "UTC" if count < 4 else "Coordinated Universal Time", "Z": "+0000", "X": "Z", "G": "AD"}
    if letter in literal:
        return Run(literal[letter], Kind.LITERAL)
    most = {"y": 6, "M": 4, "L": 4, "D": 3, "S": 3}.get(letter, 2)
    match letter:
        case "":
            return run
        case "a":
            return Run("a", Kind.LETTERS)
        case "E":
            return Run("EEEE" if count > _NAMED_MONTH else "E", Kind.LETTERS)
        case _ if count > most or (letter == "S" and count < most):
            raise ValueError(f"has {run.text!r}, which is not supported")
        case _:
            return run


# Reading.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """A regular expression and the number of the group of each letter; `two_digits` if years may be short."""

    expression: str
    groups: dict[str, int]
    has_names: bool
    two_digits: bool


def milliseconds(text: Column, pattern: str) -> Column:
    """Milliseconds since 1970 that the text says; null if it says none.

    Raises ValueError if the pattern is not supported.
    """
    runs = read_pattern(pattern)
    lenient = _lenient(text, _reader(runs))
    letters = [run.text for run in runs if run.kind is Kind.LETTERS]
    is_exact = "yyyy" in letters and len(set(letters)) == len(letters) and set(letters) <= _EXACT
    if not is_exact:
        return lenient
    width = sum(len(run.text) for run in runs)
    form = joined(tuple(each for run in runs for each in (*NOTHING, run))[len(NOTHING) :])
    exact = F.when(F.length(text) == F.lit(width), F.unix_millis(F.try_to_timestamp(text, F.lit(form))))
    return F.coalesce(exact, lenient)


def _reader(runs: tuple[Run, ...]) -> _Reader:
    groups: dict[str, int] = {}
    parts = [r"\A"]
    for run, after in zip(runs, (*runs[1:], None), strict=True):
        if run.kind is Kind.LITERAL:
            parts.append(re.escape(run.text))
            continue
        if run.letter in "GD":
            raise ValueError(f"has {run.text!r}, which is not supported for reading")
        groups[run.letter.replace("L", "M")] = len(groups) + 1
        parts.append(f"[ \\t]*({_expression(run, after)})")
    if len(parts) - 1 - sum(run.kind is Kind.LITERAL for run in runs) != len(groups):
        raise ValueError("has a letter twice")
    return _Reader(
        expression="".join(parts),
        groups=groups,
        has_names=any(_is_month_name(run) for run in runs),
        two_digits=any(run.letter == "y" and len(run.text) <= _TWO_DIGITS for run in runs),
    )


def _is_month_name(run: Run) -> bool:
    return run.letter in ("M", "L") and len(run.text) >= _NAMED_MONTH


def _is_number(run: Run | None) -> bool:
    return run is not None and run.letter in _NUMBERS and not _is_month_name(run) and run.letter != ""


def _expression(run: Run, after: Run | None) -> str:
    if _is_month_name(run):
        return _names(MONTHS)
    if run.letter == "E":
        return _names(WEEKDAYS)
    if run.letter == "a":
        return "(?i:AM|PM)"
    if run.letter in ("z", "Z"):
        return _ZONES
    if run.letter == "X":
        return _ISO_ZONES[run.text]
    # A number right before another has as many digits as letters.
    return f"[0-9]{{1,{len(run.text)}}}+" if _is_number(after) else "[0-9]{1,9}+(?![0-9])"


def _names(names: Iterable[str]) -> str:
    found = list(names)
    return "(?i:" + "|".join([*found, *(each[:3] for each in found)]) + ")"


def _lenient(text: Column, reader: _Reader) -> Column:
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


def _year(group: _Group, number: _Group, reader: _Reader) -> Column:
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
