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
    r"""(?P<skipped>\s+|--[^\n\r]*)
      | (?P<comment>/\*)
      | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
      | (?P<text>'(?:[^']|'')*(?:'|\Z))
      | (?P<name>"(?:[^"]|"")*(?:"|\Z))
      | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
      | (?P<number>\d[\w.]*)
      | (?P<word>(?:[^\W\d]|[^\x00-\x7f\s])(?:[\w$]|[^\x00-\x7f\s])*)
      | (?P<sign>=>|.)""",
    re.VERBOSE | re.DOTALL,
)


# Comments may contain comments.
_COMMENT_SIGN: Final = re.compile(r"/\*|\*/")


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
    position = 0
    while (match := _PIECE.match(sql, position)) is not None:
        group = match.lastgroup or ""
        position = match.end() if group != "comment" else _comment_end(sql, match.end())
        kind = _KINDS.get("dollar" if group == "tag" else group)
        if kind is not None:
            found.append(Piece(kind, match[0], match.start()))
    return found


def _comment_end(sql: str, start: int) -> int:
    """Behind the comment whose text begins at `start`."""
    depth = 1
    for sign in _COMMENT_SIGN.finditer(sql, start):
        depth += 1 if sign[0] == "/*" else -1
        if not depth:
            return sign.end()
    return len(sql)
