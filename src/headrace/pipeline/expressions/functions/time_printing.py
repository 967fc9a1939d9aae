"""Dates and times written in a format: as Spark SQL, and in Python.

Spark writes the letters of zones for the session's zone only, so both forms write zones here. Names of zones
(`z`) are known for GMT only. Offsets are written without their seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import chain
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
)
from headrace.pipeline.expressions.functions.zones import GMT, Zone

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS: Final = ("1st", "2nd", "3rd", "4th")
_TEXT_FROM: Final = 3
_FULL: Final = 4
_ZONE_RUNS: Final = tuple(
    Run(letter * count, Kind.LETTERS)
    for letter, counts in {**dict.fromkeys("ZXx", (1, 2, 3, 4, 5)), "O": (1, 4), "V": (2,)}.items()
    for count in counts
)
_ZONE_NAMES: Final = tuple(Run("z" * count, Kind.LETTERS) for count in (1, 2, 3, 4))


# In Python.


def printed(pattern: str, allowed: Letters, value: datetime, zone: Zone | None = None) -> str | None:
    """The moment in that format, in the zone or in GMT; None if the format is not one."""
    runs = read(pattern)
    if runs is None or not letters(runs) <= allowed or not is_supported(runs):
        return None
    if zone is not None and "z" in letters(runs):
        return None
    where = zone or GMT
    local = where.local(value)
    seconds = where.offset_at(value).total_seconds()
    minutes = int(seconds / 60)
    found = (
        run.text if run.kind is Kind.LITERAL else _letters_text(run, local, where, zone is None, minutes)
        for run in runs
        if run.kind in (Kind.LETTERS, Kind.LITERAL)
    )
    return "".join(found)


def _letters_text(run: Run, local: datetime, zone: Zone, is_gmt: bool, offset: int) -> str:
    if run.letter in ZONE_LETTERS:
        if is_gmt:
            return _of_gmt(run.letter, len(run.text))
        return zone.name if run.letter == "V" else _offset_text(run.letter, len(run.text), offset)
    return _TEXTS[run.letter](local, len(run.text))


def _padded(number: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda local, count: str(number(local)).zfill(count)


def _year(local: datetime, count: int) -> str:
    return f"{local.year % 100:02}" if count == 2 else str(local.year).zfill(count)


def _named(
    number: Callable[[datetime], int], names: tuple[str, ...], *, numbers: bool = True
) -> Callable[[datetime, int], str]:
    def text(local: datetime, count: int) -> str:
        if count < _TEXT_FROM and numbers:
            return str(number(local)).zfill(count)
        name = names[number(local) - 1]
        return name if count == _FULL else name[:3]

    return text


def _quarter(local: datetime, count: int) -> str:
    number = (local.month + 2) // 3
    if count < _TEXT_FROM:
        return str(number).zfill(count)
    return f"{_QUARTERS[number - 1]} quarter" if count == _FULL else f"Q{number}"


_MONTH: Final = _named(lambda local: local.month, MONTHS)
_TEXTS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "G": lambda _, count: "Anno Domini" if count == _FULL else "AD",
    "y": _year,
    "D": _padded(lambda local: local.timetuple().tm_yday),
    "M": _MONTH,
    "L": _MONTH,
    "d": _padded(lambda local: local.day),
    "Q": _quarter,
    "q": _quarter,
    "E": _named(lambda local: local.isoweekday(), WEEKDAYS, numbers=False),
    # The place among the days 1 to 7, 8 to 14, …, as in Java before version 19.
    "F": _padded(lambda local: (local.day - 1) % 7 + 1),
    "a": lambda local, _: "AM" if local.hour < 12 else "PM",
    "h": _padded(lambda local: (local.hour - 1) % 12 + 1),
    "K": _padded(lambda local: local.hour % 12),
    "k": _padded(lambda local: (local.hour - 1) % 24 + 1),
    "H": _padded(lambda local: local.hour),
    "m": _padded(lambda local: local.minute),
    "s": _padded(lambda local: local.second),
    "S": lambda local, count: f"{local.microsecond:06}000"[:count],
}


def _offset_text(letter: str, count: int, offset: int) -> str:
    sign, (hours, minutes) = "-" if offset < 0 else "+", divmod(abs(offset), 60)
    if _is_gmt_offset(letter, count):
        if offset == 0:
            return "GMT"
        if count == 1:
            return f"GMT{sign}{hours}" + (f":{minutes:02}" if minutes else "")
        return f"GMT{sign}{hours:02}:{minutes:02}"
    if offset == 0 and _has_z(letter, count):
        return "Z"
    if letter in "Xx" and count == 1:
        return f"{sign}{hours:02}" + (f"{minutes:02}" if minutes else "")
    return f"{sign}{hours:02}{':' if _has_colon(letter, count) else ''}{minutes:02}"


def _is_gmt_offset(letter: str, count: int) -> bool:
    return letter == "O" or (letter == "Z" and count == 4)


def _has_z(letter: str, count: int) -> bool:
    return letter == "X" or (letter == "Z" and count == 5)


def _has_colon(letter: str, count: int) -> bool:
    return (letter in "Xx" and count in (3, 5)) or (letter == "Z" and count == 5)


def _of_gmt(letter: str, count: int) -> str:
    if letter == "V":
        return "GMT"
    if letter == "z":
        return "Greenwich Mean Time" if count == _FULL else "GMT"
    return _offset_text(letter, count, 0)


# In Spark SQL.


def printed_in_spark(
    pattern: str | None, allowed: Letters, value: str, shifted: str, zone: str | None
) -> str:
    """`value` is Spark SQL of a TIMESTAMP, `shifted` what clocks in the zone show then.

    The pattern is that of a constant format; without one the format is `{format}`.
    """
    offset = f"((unix_seconds({shifted}) - unix_seconds({value})) DIV 60)"
    if pattern is None:
        plain = allowed if zone is None else allowed - {"z"}
        name = None if zone is None else "__hr_z.n"
        form = rewritten("{format}", lambda part: _with_zones(part, name, "__hr_z.o"))
        parts = f"struct({shifted} AS s, {zone or 'NULL'} AS n, {offset} AS o)"
        found = f"element_at(transform(array({parts}), __hr_z -> date_format(__hr_z.s, {form})), 1)"
        return f"CASE WHEN {is_format('{format}', plain)} THEN {found} END"
    runs = read(pattern)
    if runs is None or not letters(runs) <= allowed:
        return "CAST(NULL AS STRING)"
    found = _written(supported(runs, pattern), shifted, zone, offset)
    # Null for null, also if the format has nothing of the value.
    return found if "date_format" in found else f"CASE WHEN {shifted} IS NOT NULL THEN {found} END"


def _written(runs: tuple[Run, ...], value: str, zone: str | None, offset: str) -> str:
    parts: list[str] = []
    plain: list[Run] = []

    def flush() -> None:
        if plain:
            parts.append(f"date_format({value}, {template(string_literal(joined(tuple(plain))))})")
            plain.clear()

    for run in runs:
        if run.letter and run.letter in ZONE_LETTERS:
            flush()
            parts.append(_zone_in_spark(run, zone, offset))
        elif run.kind in (Kind.LETTERS, Kind.LITERAL):
            # Everything that is optional has a value: so brackets only keep letters apart.
            plain += [*NOTHING, run] if plain else [run]
    flush()
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})" if parts else "''"


def _with_zones(part: str, zone: str | None, offset: str) -> str:
    """Spark SQL: a part of a format with literal text for the letters of zones.

    The brackets keep the quotes apart from other quotes. No text has a letter that is replaced after it.
    """
    for run in chain(_ZONE_RUNS, () if zone is not None else _ZONE_NAMES):
        letter = run.letter
        alone = f"(?<!{letter}){run.text}(?!{letter})"
        text = _zone_in_spark(run, zone, offset)
        part = f"""regexp_replace({part}, '{alone}', concat("['", {text}, "']"))"""
    return part


def _zone_in_spark(run: Run, zone: str | None, offset: str) -> str:
    """`zone` is Spark SQL of a zone's name, or None for GMT; `offset` that of its minutes."""
    letter, count = run.letter, len(run.text)
    if zone is None:
        return f"'{_of_gmt(letter, count)}'"
    if letter == "V":
        return zone
    if letter == "z":
        raise refused(
            "The format letter z (the name of a zone) is not supported in zones other than GMT.",
            "VV writes the zone's identifier, and XXX its offset.",
        )
    sign = f"CASE WHEN {offset} < 0 THEN '-' ELSE '+' END"
    hours, minutes = f"abs({offset}) DIV 60", f"abs({offset}) % 60"
    two_hours, two_minutes = (f"lpad(CAST({each} AS STRING), 2, '0')" for each in (hours, minutes))
    if _is_gmt_offset(letter, count):
        shown = f"CAST({hours} AS STRING)" if count == 1 else two_hours
        rest = f"concat(':', {two_minutes})"
        if count == 1:
            rest = f"CASE WHEN {minutes} <> 0 THEN {rest} ELSE '' END"
        return f"CASE WHEN {offset} = 0 THEN 'GMT' ELSE concat('GMT', {sign}, {shown}, {rest}) END"
    if letter in "Xx" and count == 1:
        rest = f"CASE WHEN {minutes} <> 0 THEN {two_minutes} ELSE '' END"
    elif _has_colon(letter, count):
        rest = f"concat(':', {two_minutes})"
    else:
        rest = two_minutes
    number = f"concat({sign}, {two_hours}, {rest})"
    return f"CASE WHEN {offset} = 0 THEN 'Z' ELSE {number} END" if _has_z(letter, count) else number


def template(text: str) -> str:
    """Text that stands in a template as it is."""
    return text.replace("{", "{{").replace("}", "}}")
