r"""Patterns of Java's SimpleDateFormat, as TimestampConverter has them: what they write, and how they read.

SimpleDateFormat is lenient: it ignores what follows the time, takes any number of digits, and carries over
(32 January is 1 February). `S` is a number of milliseconds, not a fraction: `.5` is 5 ms.

Differences from Java: dates before 15 October 1582 are in today's calendar, not in the Julian one; years are
1 to 9999; numbers have no sign; zones are offsets, UTC and GMT; names are English. Letters for weeks are not
supported. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.pipeline.expressions.functions.time_formats import Kind, Run
from headrace.pipeline.expressions.functions.time_printing import MONTHS, WEEKDAYS

_TOKEN: Final = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|[^A-Za-z']+", re.DOTALL)
_NAMED_MONTH: Final = 3
_NUMBERS: Final = frozenset("yMLdHkKhmsS")
_TWO_DIGITS: Final = 2
_HOURS: Final = "(?:[01][0-9]|2[0-3])"
_ISO_ZONES: Final = {
    "X": f"Z|[+-]{_HOURS}",
    "XX": f"Z|[+-]{_HOURS}[0-5][0-9]",
    "XXX": f"Z|[+-]{_HOURS}:[0-5][0-9]",
}
_ZONES: Final = f"GMT[+-](?:{_HOURS}|[0-9]):[0-5][0-9]|(?i:UTC|GMT)|[+-]{_HOURS}[0-5][0-9]"


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


def written_run(run: Run) -> Run:
    """As Java's DateTimeFormatter writes it, in UTC. Raises ValueError if it is not supported."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReader:
    """A regular expression and the number of the group of each letter; `two_digits` if years may be short."""

    expression: str
    groups: dict[str, int]
    has_names: bool
    two_digits: bool


def time_reader(runs: tuple[Run, ...]) -> TimeReader:
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
    return TimeReader(
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
