"""Reads `path.format`: the folders of a time-based partitioner, as columns of a table.

The pattern is Joda's, as in Confluent's partitioner: text between apostrophes is taken literally, two
apostrophes are one, letters stand for parts of the time. A folder `'year'=YYYY` is the column `year`; one
without a name gets it from its letters (`YYYY` is `year`, `YYYY-MM-dd` is `date`), since a table needs names.
Invariants: each column has at least one part of the time; its pattern has only letters that Java's
`DateTimeFormatter` and Spark understand the same way, so Joda's year of era (`YYYY`) becomes `yyyy`. What
depends on a locale or on weeks is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Final

# By the letter, from coarse to fine: the unit, and by how often Joda has it what Java calls it.
_LETTERS: Final = {
    "y": ("year", {1: "yyyy", 2: "yy", 4: "yyyy"}),
    "M": ("month", {1: "M", 2: "MM"}),
    "d": ("day", {1: "d", 2: "dd"}),
    "H": ("hour", {1: "H", 2: "HH"}),
    "m": ("minute", {1: "m", 2: "mm"}),
    "s": ("second", {1: "s", 2: "ss"}),
}
_APOSTROPHE: Final = "'"
_ORDER: Final = "".join(_LETTERS)
_DATE: Final = frozenset("yMd")
_NAME: Final = re.compile(r"[^\s/=,;{}()\\]+")
_TOKEN: Final = re.compile(r"''|'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of a folder's name: a literal text, or one letter of the time, so many times."""

    text: str
    letter: str = ""


def read_path_format(pattern: str) -> tuple[tuple[str, str], ...]:
    """The columns with their names and their Java patterns. Raises ValueError with the reason."""
    columns: list[tuple[str, str]] = []
    for folder in _folders(pattern):
        name, value = _split(folder)
        letters = {part.letter for part in value if part.letter}
        shown = "".join(part.text for part in folder)
        if not letters:
            raise ValueError(f"the folder {shown!r} has no part of the time")
        name = name if name is not None else _name_by(letters)
        if not _NAME.fullmatch(name):
            raise ValueError(f"the folder {shown!r} would be a column named {name!r}")
        if name.casefold() in (known.casefold() for known, _ in columns):
            raise ValueError(f"two folders would be the column {name!r}")
        columns.append((name, _in_java(value)))
    if not columns:
        raise ValueError("it names no folder")
    return tuple(columns)


def _folders(pattern: str) -> list[list[_Part]]:
    """The parts of each folder. Slashes at the beginning and the end make no folder."""
    folders: list[list[_Part]] = [[]]
    for part in _parts(pattern):
        if part.letter:
            folders[-1].append(part)
            continue
        first, *others = part.text.split("/")
        folders[-1].append(_Part(text=first))
        folders.extend([_Part(text=text)] for text in others)
    filled = [[part for part in folder if part.text] for folder in folders]
    while filled and not filled[0]:
        filled.pop(0)
    while filled and not filled[-1]:
        filled.pop()
    if not all(filled):
        raise ValueError("it has a folder without a name")
    return filled


def _parts(pattern: str) -> list[_Part]:
    """As Joda reads it: two apostrophes are one wherever they are, and the last one need not be closed."""
    parts: list[_Part] = []
    is_literal = False
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token == _APOSTROPHE:
            is_literal = not is_literal
        elif found["letter"] and not is_literal:
            parts.append(_letters(token))
        else:
            parts.append(_Part(text=_APOSTROPHE if token == 2 * _APOSTROPHE else token))
    return parts


def _letters(run: str) -> _Part:
    letter = "y" if run[0] == "Y" else run[0]
    if letter not in _LETTERS:
        raise ValueError(
            f"the pattern {run!r} is not supported (only Y, y, M, d, H, m and s are; put other text between "
            "apostrophes)"
        )
    java = _LETTERS[letter][1].get(len(run))
    if java is None:
        raise ValueError(f"the pattern {run!r} is not supported, only as many letters as make a number")
    return _Part(text=java, letter=letter)


def _split(folder: list[_Part]) -> tuple[str | None, list[_Part]]:
    """The name before the first `=`, if there is one, and what follows it."""
    name = ""
    for position, part in enumerate(folder):
        if part.letter:
            break
        before, equals, after = part.text.partition("=")
        name += before
        if equals:
            return name, [*([_Part(text=after)] if after else []), *folder[position + 1 :]]
    return None, folder


def _name_by(letters: set[str]) -> str:
    if letters == _DATE:
        return "date"
    finest = max(letters, key=_ORDER.index)
    return _LETTERS[finest][0]


def _in_java(value: list[_Part]) -> str:
    """Texts that follow each other are one: two apostrophes side by side would be an apostrophe."""
    written = ""
    for is_text, parts in groupby(value, key=lambda part: not part.letter):
        text = "".join(part.text for part in parts)
        # Java reserves some characters that are plain in Joda, so all text is between apostrophes but these.
        for is_plain, run in groupby(text, key=lambda character: character in "-_.: "):
            piece = "".join(run)
            written += (
                piece if is_plain or not is_text else f"'{piece.replace(_APOSTROPHE, 2 * _APOSTROPHE)}'"
            )
    return written
