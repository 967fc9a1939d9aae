"""Folders by time, as far as the settings tell: which times can name them, and how patterns are written.

Patterns are Joda-Time's, as in Confluent's TimeBasedPartitioner, where Y is the year of the date. Pure.
"""

from __future__ import annotations

from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.sink import TimePartitions
from headrace.pipeline.expressions.functions.time_formats import (
    ALL_LETTERS,
    NOTHING,
    ZONE_LETTERS,
    Kind,
    Run,
    joined,
    read,
    supported,
)
from headrace.pipeline.expressions.functions.zones import Zone, zone
from headrace.pipeline.expressions.moments import FIRST_MS, LAST_MS
from headrace.pipeline.statements.errors import UnsupportedError

# A day from the ends of the calendar, so that it stays inside in every zone. In milliseconds since 1970.
FIRST: Final = FIRST_MS + 86_400_000
LAST: Final = LAST_MS - 86_400_000
# What Joda-Time's ISODateTimeFormat.dateTimeParser reads, but for weeks and days of the year.
ISO_TEXT: Final = (
    r"\A[0-9]{4}(?:-[0-9]{1,2}(?:-[0-9]{1,2}(?:T(?:[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:[.,][0-9]+)?)?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?)?\z"
)
NUMBER_TEXT: Final = r"\A-?[0-9]{1,19}\z"
# Letters of Joda-Time that mean something else in Java, or nothing.
_JODA_ONLY: Final = frozenset("xewC")
LETTERS: Final = ALL_LETTERS - ZONE_LETTERS - _JODA_ONLY


def zone_of(times: TimePartitions) -> Zone:
    """Raises lake_unsupported."""
    try:
        return zone(times.timezone)
    except ValueError as error:
        raise refused_folders(f"in the zone {times.timezone!r}, which does not exist") from error


def java_pattern(pattern: str) -> str:
    """As Java's DateTimeFormatter has it, where Y is the year of the week. Raises lake_unsupported."""
    written = _with_years(pattern)
    runs = read(written)
    try:
        if runs is None or any(run.letter in _JODA_ONLY | ZONE_LETTERS for run in runs if run.letter):
            raise refused_folders(f"by the pattern {pattern!r}, which is not supported")
        supported(runs, pattern)
    except UnsupportedError as error:
        raise refused_folders(f"by the pattern {pattern!r}: {error.message}") from error
    return written


def spark_pattern(pattern: str) -> str:
    """As Spark's date_format takes it. Raises lake_unsupported."""
    runs = read(java_pattern(pattern))
    assert runs is not None
    plain: list[Run] = [run for run in runs if run.kind in (Kind.LETTERS, Kind.LITERAL)]
    return joined(tuple(each for run in plain for each in (*NOTHING, run))[len(NOTHING) :])


def refused_folders(problem: str, remedy: str = "") -> HeadraceError:
    return HeadraceError("lake_unsupported", f"The table cannot be partitioned {problem}.", remedy=remedy)


def _with_years(pattern: str) -> str:
    """Outside of quotes."""
    parts = pattern.split("'")
    return "'".join(part if number % 2 else part.replace("Y", "y") for number, part in enumerate(parts))
