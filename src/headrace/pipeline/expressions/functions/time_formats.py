"""Java's formats of dates and times, as far as Spark can follow them.

A format is read into runs of letters and literal text. Spark knows most of Java's letters; those of zones are
written out here instead, since Spark knows the session's zone only. A constant format that Java would not
take makes every call null, as in ksqlDB; one that Java takes and Spark cannot is refused. A format that is no
constant is checked when the query runs, and is null where Spark cannot follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.pipeline.expressions.functions.refusing import refused

DATE_LETTERS: Final = frozenset("GuyDMLdQqYwWEecF")
TIME_LETTERS: Final = frozenset("aBhKkHmsSAnN")
ZONE_LETTERS: Final = frozenset("VvzOXxZ")
_JAVA_LETTERS: Final = DATE_LETTERS | TIME_LETTERS | ZONE_LETTERS | frozenset("p")
# How many of a letter may follow one another, of those that Spark knows.
_LONGEST: Final = {
    **dict.fromkeys("GMLQqE", 4),
    "y": 6,
    "D": 3,
    **dict.fromkeys("dhHkKms", 2),
    "F": 1,
    "a": 1,
    "S": 9,
    "V": 2,
    "z": 4,
    "O": 4,
    **dict.fromkeys("XxZ", 5),
}
_WEEKDAYS: Final = (
    r"(?i)\b(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|mon|tue|wed|thu|fri|sat|sun)\b"
)
# In UTC or GMT, by letter and how many of it.
_ZERO: Final = {"X": "Z", "x": ("+00", "+0000", "+00:00", "+0000", "+00:00")}


@dataclass(frozen=True, slots=True)
class Run:
    """Letters that follow one another, or literal text as the format writes it (with its quotes)."""

    text: str
    is_letters: bool

    @property
    def letter(self) -> str:
        return self.text[0] if self.is_letters else ""


def read(pattern: str) -> tuple[Run, ...] | None:
    """The runs of a format, or None where Java knows none such."""
    runs: list[Run] = []
    depth = 0
    for found in re.finditer(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", pattern, re.DOTALL):
        text = found[0]
        if found[1]:
            if found[1] not in _JAVA_LETTERS:
                return None
            # The year of the era is that of the calendar for all dates that events have.
            runs.append(Run(text.replace("u", "y"), True))
            continue
        if text in ("'", "{", "}", "#"):
            return None
        depth += (text == "[") - (text == "]")
        if depth < 0:
            return None
        runs.append(Run(text, False))
    if any(run.is_letters and len(run.text) > _LONGEST.get(run.letter, 99) for run in runs):
        return None
    return tuple(runs)


def letters(runs: tuple[Run, ...]) -> frozenset[str]:
    return frozenset(run.letter for run in runs if run.is_letters)


def supported(runs: tuple[Run, ...], pattern: str) -> tuple[Run, ...]:
    """The runs, if Spark knows all their letters."""
    for run in runs:
        if run.is_letters and run.letter not in _LONGEST:
            raise refused(f"The format {pattern!r} has {run.text!r}, which Spark cannot follow.")
    return runs


def joined(runs: tuple[Run, ...]) -> str:
    return "".join(run.text for run in runs)


def without_weekdays(runs: tuple[Run, ...], value: str) -> tuple[str, str]:
    """Format and text without the day of the week, which Spark does not read."""
    if "E" not in letters(runs):
        return joined(runs), value
    bare = tuple(run for run in runs if run.letter != "E")
    return joined(bare), f"regexp_replace({value}, r'{_WEEKDAYS}', '')"


def zone_text(run: Run, zone: str | None, offset: str) -> str:
    """Spark SQL of a zone: `zone` is Spark SQL of its name, or None for GMT; `offset` that of its minutes."""
    letter, count = run.letter, len(run.text)
    if zone is None:
        return f"'{_of_gmt(letter, count)}'"
    if letter == "V":
        return zone
    if letter in "zv":
        raise refused(
            f"The format letter {letter} (the name of a zone) cannot be had in zones other than GMT."
        )
    sign = f"CASE WHEN {offset} < 0 THEN '-' ELSE '+' END"
    hours, minutes = f"abs({offset}) DIV 60", f"abs({offset}) % 60"
    two_hours, two_minutes = (
        f"lpad(CAST({hours} AS STRING), 2, '0')",
        f"lpad(CAST({minutes} AS STRING), 2, '0')",
    )
    if letter == "O" or (letter == "Z" and count == 4):
        shown = hours if letter == "O" and count == 1 else two_hours
        rest = f"concat(':', {two_minutes})"
        if letter == "O" and count == 1:
            rest = f"CASE WHEN {minutes} <> 0 THEN {rest} ELSE '' END"
        return f"CASE WHEN {offset} = 0 THEN 'GMT' ELSE concat('GMT', {sign}, {shown}, {rest}) END"
    if letter in "Xx" and count == 1:
        rest = f"CASE WHEN {minutes} <> 0 THEN {two_minutes} ELSE '' END"
    elif (letter in "Xx" and count in (3, 5)) or (letter == "Z" and count == 5):
        rest = f"concat(':', {two_minutes})"
    else:
        rest = two_minutes
    number = f"concat({sign}, {two_hours}, {rest})"
    has_z = letter == "X" or (letter == "Z" and count == 5)
    return f"CASE WHEN {offset} = 0 THEN 'Z' ELSE {number} END" if has_z else number


def _of_gmt(letter: str, count: int) -> str:
    if letter == "X" or (letter == "Z" and count == 5):
        return "Z"
    if letter == "x":
        return _ZERO["x"][count - 1]
    if letter == "Z" and count < 4:
        return "+0000"
    return "Greenwich Mean Time" if letter == "z" and count == 4 else "GMT"


def is_format(spark: str, allowed: frozenset[str]) -> str:
    """Spark SQL: whether Java and Spark both take the format, and it has no letters but those allowed."""
    bare = f"""regexp_replace({spark}, r"'[^']*'", '')"""
    known = "".join(sorted(letter for letter in allowed if letter in _LONGEST))
    long = "|".join(f"{letter}{{{{{_LONGEST[letter] + 1},}}}}" for letter in known)
    return (
        f"(NOT {bare} RLIKE '[A-Za-z&&[^{known}]]' AND NOT {bare} RLIKE '{long}'"
        f" AND try_reflect('java.time.format.DateTimeFormatter', 'ofPattern', {spark}) IS NOT NULL)"
    )
