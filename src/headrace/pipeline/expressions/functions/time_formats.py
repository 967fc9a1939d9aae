"""Formats of dates and times in Java's letters, as far as Spark can follow them.

A format is read into runs: letters, literal text and the brackets of optional parts. `time_printing` and
`time_parsing` give both forms, Spark SQL and Python, of what a format means. A constant format that Java
refuses makes every call null, as in ksqlDB. One that Java takes and Spark does not is refused before the
query runs. A format that is not a constant is checked for each row, and gives null in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.pipeline.expressions.functions.refusing import refused

Letters = frozenset[str]

DATE_LETTERS: Final = frozenset("GuyDMLdQqYwWEecF")
TIME_LETTERS: Final = frozenset("aBhKkHmsSAnN")
ZONE_LETTERS: Final = frozenset("VvzOXxZ")
ALL_LETTERS: Final = DATE_LETTERS | TIME_LETTERS | ZONE_LETTERS

_UP_TO_FIVE: Final = frozenset(range(1, 6))
# How many of a letter Java takes in a row.
_COUNTS_IN_JAVA: Final = {
    **dict.fromkeys("GMLQqEecXxZ", _UP_TO_FIVE),
    **dict.fromkeys("uyYAnN", frozenset(range(1, 20))),
    **dict.fromkeys("dhHkKmsw", frozenset((1, 2))),
    **dict.fromkeys("FaW", frozenset((1,))),
    **dict.fromkeys("Ov", frozenset((1, 4))),
    "B": frozenset((1, 4, 5)),
    "D": frozenset((1, 2, 3)),
    "S": frozenset(range(1, 10)),
    "V": frozenset((2,)),
    "z": frozenset((1, 2, 3, 4)),
}
# How many of a letter Spark takes at most; letters that it does not know are missing.
_MOST_IN_SPARK: Final = {
    **dict.fromkeys("GMLQqEOz", 4),
    **dict.fromkeys("dhHkKmsV", 2),
    **dict.fromkeys("XxZ", 5),
    **dict.fromkeys("Fa", 1),
    "D": 3,
    "S": 9,
    "y": 6,
}
_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", re.DOTALL)


class Kind(Enum):
    LETTERS = "letters"
    LITERAL = "literal"
    OPEN = "["
    CLOSE = "]"


@dataclass(frozen=True, slots=True)
class Run:
    """Equal letters in a row, literal text without its quotes, or a bracket."""

    text: str
    kind: Kind

    @property
    def letter(self) -> str:
        return self.text[0] if self.kind is Kind.LETTERS else ""


# An optional part that is empty: it keeps equal letters apart.
NOTHING: Final = (Run("[", Kind.OPEN), Run("]", Kind.CLOSE))


def read(pattern: str) -> tuple[Run, ...] | None:
    """The runs of a format, or None if Java refuses it."""
    runs: list[Run] = []
    depth = 0
    for found in _TOKEN.finditer(pattern):
        text = found[0]
        if found[1]:
            if len(text) not in _COUNTS_IN_JAVA.get(text[0], ()):
                return None
            # The year of the era is the year of the calendar for the dates that DATE and TIMESTAMP hold.
            run = Run(text.replace("u", "y"), Kind.LETTERS)
            if runs and runs[-1].letter == run.letter:
                runs.extend(NOTHING)
            runs.append(run)
        elif text in ("'", "{", "}", "#"):
            return None
        elif text in ("[", "]"):
            depth += 1 if text == "[" else -1
            if depth < 0:
                return None
            runs.append(Run(text, Kind(text)))
        else:
            _add_literal(runs, (text[1:-1].replace("''", "'") or "'") if text[0] == "'" else text)
    return tuple(runs)


def _add_literal(runs: list[Run], text: str) -> None:
    if runs and runs[-1].kind is Kind.LITERAL:
        text = runs.pop().text + text
    runs.append(Run(text, Kind.LITERAL))


def letters(runs: tuple[Run, ...]) -> Letters:
    return frozenset(run.letter for run in runs if run.kind is Kind.LETTERS)


def is_supported(runs: tuple[Run, ...]) -> bool:
    """Whether Spark knows all the letters."""
    return all(len(run.text) <= _MOST_IN_SPARK.get(run.letter, 0) for run in runs if run.kind is Kind.LETTERS)


def supported(runs: tuple[Run, ...], pattern: str) -> tuple[Run, ...]:
    """The runs, if Spark knows all the letters; refused otherwise."""
    for run in runs:
        if not is_supported((run,)):
            raise refused(f"The format {pattern!r} has {run.text!r}, which Spark does not support.")
    return runs


def joined(runs: tuple[Run, ...]) -> str:
    """The runs as a format for Spark."""
    return "".join(_quoted(run.text) if run.kind is Kind.LITERAL else run.text for run in runs)


def _quoted(text: str) -> str:
    """Spark loses count of quotes side by side and at the end: empty optional parts keep them apart."""
    return "".join("[]''[]" if part == "'" else f"'{part}'" for part in re.split("(')", text) if part)


# Spark SQL for formats that are not constants.


def is_format(spark: str, allowed: Letters) -> str:
    """Spark SQL: whether Java and Spark both take the format, and it has only the letters allowed."""
    bare = without_quotes(spark)
    most = {letter: _MOST_IN_SPARK.get(letter.replace("u", "y"), 0) for letter in sorted(allowed)}
    known = "".join(letter for letter in most if most[letter])
    long = "|".join(f"{letter}{{{{{most[letter] + 1},}}}}" for letter in known)
    return (
        f"(NOT {bare} RLIKE '[A-Za-z&&[^{known}]]' AND NOT {bare} RLIKE '{long}'"
        f" AND try_reflect('java.time.format.DateTimeFormatter', 'ofPattern', {spark}) IS NOT NULL)"
    )


def without_quotes(spark: str) -> str:
    """Spark SQL: the format with a space for each quoted part."""
    return f"""regexp_replace({spark}, r"'[^']*'", ' ')"""


def rewritten(spark: str, rewrite: Callable[[str], str]) -> str:
    """Spark SQL: the format with its parts outside quotes rewritten, and years as `read` has them."""
    apart = "regexp_replace(__hr_p, '(?<=u)(?=y)|(?<=y)(?=u)', '[]')"
    part = rewrite(f"replace({apart}, 'u', 'y')")
    return (
        f"""array_join(transform(split({spark}, "'", -1),"""
        f""" (__hr_p, __hr_i) -> CASE WHEN __hr_i % 2 = 0 THEN {part} ELSE __hr_p END), "'")"""
    )
