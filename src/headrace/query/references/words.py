"""Cuts a statement into words, names, texts and signs: enough to find the clauses that are ours.

Strings, quoted names and comments are skipped as PostgreSQL and DuckDB skip them. Invariants: pieces do not
overlap and come in order; whatever the text is, cutting ends and takes time linear in it. Never judges the
grammar: DuckDB does, after the clauses have been replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<skipped>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
      | (?P<text>'(?:[^']|'')*(?:'|\Z))
      | (?P<name>"(?:[^"]|"")*(?:"|\Z))
      | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
      | (?P<number>\d[\w.]*)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<sign>=>|.)""",
    re.VERBOSE | re.DOTALL,
)


class Kind(Enum):
    """What a piece is."""

    WORD = "word"
    NAME = "name"
    TEXT = "text"
    NUMBER = "number"
    SIGN = "sign"


_KINDS: Final = {
    "escaped": Kind.SIGN,
    "text": Kind.TEXT,
    "name": Kind.NAME,
    "dollar": Kind.SIGN,
    "number": Kind.NUMBER,
    "word": Kind.WORD,
    "sign": Kind.SIGN,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """`start` counts characters from 0."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """An unquoted word in capitals, or a sign; empty for everything else."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SIGN) else ""

    @property
    def value(self) -> str:
        """What a name or a plain text means: without its quotes."""
        if self.kind is Kind.NAME:
            return self.text[1:-1].replace('""', '"')
        if self.kind is Kind.TEXT:
            return self.text[1:-1].replace("''", "'")
        return self.text


def pieces(sql: str) -> list[Piece]:
    """Without comments and white space."""
    found: list[Piece] = []
    for match in _PIECE.finditer(sql):
        group = match.lastgroup or ""
        kind = _KINDS.get("dollar" if group == "tag" else group)
        if kind is not None:
            found.append(Piece(kind, match[0], match.start()))
    return found
