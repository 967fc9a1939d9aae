"""Dates and times read from text by a format: as Spark SQL, and in Python.

Spark's reader is Java's in its strict mode: 2021-06-31 is not a date. Letters match in either case, fractions
of a second may have fewer digits than the format, and what the format lacks is 1970-01-01 00:00. Days of the
week are skipped in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain, takewhile
from typing import Final

from headrace.pipeline.expressions.functions.refusing import refused
from headrace.pipeline.expressions.functions.spark_text import string_literal
from headrace.pipeline.expressions.functions.time_formats import (
    NOTHING,
    ZONE_LETTERS,
    Kind,
    Letters,
    Run,
    is_format,
    is_supported,
    joined,
    letters,
    read,
    rewritten,
    supported,
    without_quotes,
)
from headrace.pipeline.expressions.functions.time_printing import WEEKDAYS, template
from headrace.pipeline.expressions.functions.time_reading import Reader
from headrace.pipeline.expressions.functions.zones import MOVABLE, Zone, movable, within

# A format needs all letters of one alternative, of each text any letter.
Needed = tuple[tuple[str, ...], ...]
ANYTHING: Final[Needed] = ((),)
FULL_DATE: Final[Needed] = (("yu", "D"), ("yu", "d", "ML"))
FULL_TIME: Final[Needed] = (("Hk",), ("a", "hK"))

_LONG_YEAR: Final = 6
# Letters that Spark does not read.
_UNREAD: Final = frozenset("FqQ")
_DAY_NAMES: Final = "|".join([*WEEKDAYS, *(name[:3] for name in WEEKDAYS)]).lower()
_WEEKDAYS: Final = f"(?i)(?<![a-z])(?:{_DAY_NAMES})(?![a-z])"
_WEEKDAY: Final = re.compile(_WEEKDAYS, re.ASCII)


def _has(found: Letters, needed: Needed) -> bool:
    return any(all(found & frozenset(some) for some in each) for each in needed)


def _without_weekdays(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple(chain.from_iterable(NOTHING if run.letter == "E" else (run,) for run in runs))


# In Python.


def parsed(
    text: str, pattern: str, allowed: Letters, needed: Needed, zone: Zone | None = None
) -> datetime | None:
    """The moment that the text says, in the zone or in UTC if the format has none; None if it says none.

    Raises ValueError and OverflowError for what is not in the calendar.
    """
    made = _reader(pattern, allowed, needed)
    if made is None:
        return None
    reader, found = made
    moment = reader.read(_WEEKDAY.sub("", text) if "E" in found else text)
    if moment is None or zone is None or found & ZONE_LETTERS:
        return moment
    return zone.moment(movable(moment).replace(tzinfo=None))


@lru_cache(maxsize=256)
def _reader(pattern: str, allowed: Letters, needed: Needed) -> tuple[Reader, Letters] | None:
    runs = read(pattern)
    if runs is None or not is_supported(runs):
        return None
    found = letters(runs)
    if not found <= allowed - _UNREAD or not _has(found, needed):
        return None
    return Reader(_without_weekdays(runs)), found


# In Spark SQL.


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFormat:
    """How Spark reads texts of a constant format.

    `skipped` is a regular expression for what is removed from a text before it is read; texts that contain
    `overflow` make Spark fail, so they count as unreadable. Both may be empty.
    """

    format: str
    skipped: str
    overflow: str


def why_unreadable(pattern: str) -> str | None:
    """Why Spark cannot read texts by this format; None if it can."""
    runs = read(pattern)
    if runs is None:
        return "is not a valid format"
    unknown = [run.text for run in runs if not is_supported((run,)) or run.letter in _UNREAD]
    return f"has {unknown[0]!r}, which Spark does not read" if unknown else None


def spark_format(pattern: str) -> SparkFormat:
    """Of a format that Spark can read."""
    runs = read(pattern)
    assert runs is not None, pattern
    skipped = _WEEKDAYS if "E" in letters(runs) else ""
    return SparkFormat(format=joined(_without_weekdays(runs)), skipped=skipped, overflow=_overflow(runs))


def parsed_in_spark(pattern: str | None, allowed: Letters, needed: Needed, zone: str | None) -> str:
    """Spark SQL of the TIMESTAMP that `{value}` says.

    The pattern is that of a constant format; without one the format is `{format}`. `zone` is Spark SQL of the
    zone that is meant if the format has none.
    """
    if pattern is None:
        return _parsed_by_column(allowed - _UNREAD, needed, zone)
    runs = read(pattern)
    if runs is None or not letters(runs) <= allowed or not _has(letters(runs), needed):
        return "CAST(NULL AS TIMESTAMP)"
    if letters(supported(runs, pattern)) & _UNREAD:
        raise refused(f"The format {pattern!r} has letters that Spark does not read.")
    form = spark_format(pattern)
    value = f"regexp_replace({{value}}, r'{form.skipped}', '')" if form.skipped else "{value}"
    found = f"try_to_timestamp({value}, {template(string_literal(form.format))})"
    if form.overflow:
        found = f"CASE WHEN NOT {{value}} RLIKE r'{template(form.overflow)}' THEN {found} END"
    if zone is None:
        return found
    return _if_zone(zone, found) if letters(runs) & ZONE_LETTERS else _in_zone(zone, found)


def _overflow(runs: tuple[Run, ...]) -> str:
    """A regular expression that finds years of six digits and more: Spark fails on the largest of them."""
    found = []
    for place, run in enumerate(runs):
        if run.letter == "y" and len(run.text) != 2:
            before, depth = "".join(map(_roughly, runs[:place])), _depth(runs[:place])
            sharing = takewhile(_has_fixed_width, runs[place + 1 :])
            digits = _LONG_YEAR + sum(len(each.text) for each in sharing)
            sign = "[+-]" if len(run.text) > 3 else "-?"
            found.append(f"^{before}{sign}[0-9]{{{digits},}}{')' * depth}")
    return "|".join(found)


def _roughly(run: Run) -> str:
    """A regular expression for what the run stands for."""
    if run.kind is Kind.LITERAL:
        return f"(?s:.{{{len(run.text)}}})"
    if run.kind is not Kind.LETTERS:
        return "(?:" if run.kind is Kind.OPEN else ")?"
    if run.letter in ZONE_LETTERS:
        return "(?s:.+?)"
    is_name = run.letter in ("G", "a") or (run.letter in ("M", "L") and len(run.text) > 2)
    if is_name:
        return "[^0-9]+?"
    width = len(run.text)
    return "[+-]?[0-9]+?" if width == 1 else f"[0-9]{{{width},{3 if run.letter == 'D' else width}}}+"


def _depth(runs: tuple[Run, ...]) -> int:
    return sum((run.kind is Kind.OPEN) - (run.kind is Kind.CLOSE) for run in runs)


def _has_fixed_width(run: Run) -> bool:
    """Whether a number before leaves these digits alone."""
    return run.text in ("DDD", "S") or (len(run.text) == 2 and run.letter in tuple("yMLdhHkKms"))


def _if_zone(zone: str, found: str) -> str:
    """A zone that is none gives null, even if the format has another."""
    return f"CASE WHEN {zone} IS NOT NULL THEN {found} END"


def _in_zone(zone: str, local: str) -> str:
    return f"to_utc_timestamp({within(local, MOVABLE)}, {zone})"


def _parsed_by_column(allowed: Letters, needed: Needed, zone: str | None) -> str:
    bare = without_quotes("{format}")
    value = (
        f"CASE WHEN {bare} RLIKE 'E' THEN regexp_replace({{value}}, r'{_WEEKDAYS}', '') ELSE {{value}} END"
    )
    form = rewritten("{format}", lambda part: f"regexp_replace({part}, 'E+', '[]')")
    found = f"try_to_timestamp({value}, {form})"
    if zone is not None:
        local = _in_zone(zone, found)
        has_zone = f"{bare} RLIKE '[{''.join(sorted(ZONE_LETTERS))}]'"
        found = f"CASE WHEN {has_zone} THEN {_if_zone(zone, found)} ELSE {local} END"
    enough = " OR ".join(
        "(" + " AND ".join(f"{bare} RLIKE '[{some}]'" for some in each) + ")" for each in needed if each
    )
    # Spark loses count of quotes side by side and at the end if the format has fractions of a second.
    misread = """{format} RLIKE "'''|''$" AND {format} LIKE '%S%'"""
    # Spark fails on the largest years, those with a sign or of formats such as `y`.
    start = "CASE WHEN {format} RLIKE '^[uy]' THEN '^' ELSE '' END"
    long = f"[0-9]{{{{{_LONG_YEAR},}}}}"
    overflow = (
        f"{bare} RLIKE '[uy]' AND {{value}} RLIKE concat({start}, '[+-]{long}')"
        f" OR {bare} RLIKE '(?<![uy])([uy]|[uy]{{{{3}}}})(?![uy])'"
        f" AND {{value}} RLIKE concat({start}, '{long}')"
    )
    conditions = [is_format("{format}", allowed), f"NOT ({misread})", f"NOT ({overflow})"]
    conditions += [f"({enough})"] if enough else []
    return f"CASE WHEN {' AND '.join(conditions)} THEN {found} END"
