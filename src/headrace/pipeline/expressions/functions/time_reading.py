"""Java's DateTimeFormatter as a reader, in Python: strict, without regard to case, as Spark sets it up.

A format becomes elements that each read at a position. Numbers that stand side by side share their digits, as
Java's builder arranges it (`yyyyMMdd`). `time_fields` says what the fields mean together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from headrace.pipeline.expressions.functions.time_fields import Element, Fields, digits_at, resolved, starts
from headrace.pipeline.expressions.functions.time_formats import Kind, Run, letters
from headrace.pipeline.expressions.functions.time_printing import MONTHS
from headrace.pipeline.expressions.functions.zone_reading import zone_element

_FIELDS: Final = {
    **{"D": "day_of_year", "M": "month", "L": "month", "d": "day", "a": "half", "m": "minute", "s": "second"},
    **{"H": "hour", "k": "clock_hour", "K": "hour_of_half", "h": "clock_hour_of_half"},
}
_MOST_DIGITS: Final = 19
_FULL: Final = 4


@dataclass(frozen=True, slots=True)
class _Number:
    """`following` are the digits of numbers of fixed width right after this one."""

    name: str
    least: int
    most: int
    sign: str
    is_reduced: bool = False
    following: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most and self.sign == "none"

    def __call__(self, text: str, start: int, fields: Fields) -> int | None:
        sign = text[start : start + 1]
        if sign and sign in "+-":
            if self.sign == "none" or (sign == "+" and self.sign == "negative"):
                return None
            start += 1
        else:
            sign = ""
        digits = digits_at(text, start, self.most + max(self.following, 0))
        if self.following > 0:
            digits = digits[: max(self.least, len(digits) - self.following)]
        if len(digits) < self.least or (sign == "-" and not int(digits)):
            return None
        if self.sign == "exceeds" and sign != "-" and (len(digits) > self.least) != (sign == "+"):
            return None
        number = int(sign + digits) + (2000 if self.is_reduced else 0)
        return fields.set(self.name, number, start + len(digits))


@dataclass(frozen=True, slots=True)
class _Fraction:
    most: int
    following: int = 0
    is_fixed: bool = True

    def __call__(self, text: str, start: int, fields: Fields) -> int | None:
        digits = digits_at(text, start, self.most)
        return fields.set("nano", int(digits.ljust(9, "0")), start + len(digits)) if digits else None


@dataclass(frozen=True, slots=True)
class _Optional:
    elements: tuple[Element, ...]

    def __call__(self, text: str, start: int, fields: Fields) -> int | None:
        inner = Fields(dict(fields.values), fields.zone)
        end = _read_all(self.elements, text, start, inner)
        if end is None:
            return start
        fields.values, fields.zone = inner.values, inner.zone
        return end


def _read_all(elements: tuple[Element, ...], text: str, start: int, fields: Fields) -> int | None:
    place: int | None = start
    for element in elements:
        if place is None:
            break
        place = element(text, place, fields)
    return place


def _literal(expected: str) -> Element:
    return lambda text, start, _: start + len(expected) if starts(text, start, expected) else None


def _names(name: str, names: dict[str, int]) -> Element:
    longest_first = sorted(names, key=len, reverse=True)

    def read(text: str, start: int, fields: Fields) -> int | None:
        for each in longest_first:
            if starts(text, start, each):
                return fields.set(name, names[each], start + len(each))
        return None

    return read


def _fixed(name: str, width: int) -> _Number:
    return _Number(name, width, width, "none")


def _element(run: Run, *, has_era: bool) -> Element:  # noqa: PLR0911 - one for each kind
    letter, count = run.letter, len(run.text)
    match letter:
        case "G":
            names = ("BC", "AD") if count < _FULL else ("Before Christ", "Anno Domini")
            return _names("era", {name: number for number, name in enumerate(names)})
        case "y":
            name = "year_of_era" if has_era else "year"
            if count == 2:
                return replace(_fixed(name, 2), is_reduced=True)
            return _Number(name, count, _MOST_DIGITS, "negative" if count < _FULL else "exceeds")
        case "D" if count > 1:
            return _Number("day_of_year", count, 3, "none")
        case "M" | "L" if count > 2:
            cut = None if count == _FULL else 3
            return _names("month", {name[:cut]: number for number, name in enumerate(MONTHS, start=1)})
        case "a":
            return _names("half", {"AM": 0, "PM": 1})
        case "S":
            return _Fraction(count)
        case "V" | "z" | "O" | "X" | "x" | "Z":
            return zone_element(letter, count)
        case _:
            name = _FIELDS[letter]
            return _Number(name, 1, _MOST_DIGITS, "negative") if count == 1 else _fixed(name, count)


class Reader:
    """Reads texts of one format."""

    def __init__(self, runs: tuple[Run, ...]) -> None:
        self._elements = _elements(runs)

    def read(self, text: str) -> datetime | None:
        """The moment, in UTC if the text has no zone. None or ValueError if the text does not fit."""
        fields = Fields()
        if _read_all(self._elements, text, 0, fields) != len(text):
            return None
        return resolved(fields)


def _elements(runs: tuple[Run, ...]) -> tuple[Element, ...]:
    """Elements as Java's builder makes them: a number notes how many digits the fixed ones after it take."""
    has_era = "G" in letters(runs)
    levels: list[list[Element]] = [[]]
    base: int | None = None
    for run in runs:
        if run.kind is Kind.OPEN:
            levels.append([])
            base = None
        elif run.kind is Kind.CLOSE:
            _close(levels)
            base = None
        else:
            made = _literal(run.text) if run.kind is Kind.LITERAL else _element(run, has_era=has_era)
            base = _append(levels[-1], made, base)
    while len(levels) > 1:
        _close(levels)
    return tuple(levels[0])


def _close(levels: list[list[Element]]) -> None:
    inner = levels.pop()
    if inner:
        levels[-1].append(_Optional(tuple(inner)))


def _append(elements: list[Element], made: Element, base: int | None) -> int | None:
    """Where the number is that later ones of fixed width shorten, if any."""
    elements.append(made)
    if not (isinstance(made, _Number) or (isinstance(made, _Fraction) and made.most == 1)):
        return None
    if base is None:
        return len(elements) - 1
    before = elements[base]
    assert isinstance(before, _Number | _Fraction)
    if made.is_fixed:
        elements[base] = replace(before, following=before.following + made.most)
        return base
    return len(elements) - 1
