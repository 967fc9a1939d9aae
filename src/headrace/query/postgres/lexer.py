"""Cuts PostgreSQL's SQL into tokens: enough to separate statements, find parameters and read short commands.

Invariants: a token knows where it stands; strings, quoted names and nested comments are skipped as PostgreSQL
skips them; an unfinished one is a syntax error at its beginning. Takes time linear in the text. Never judges
the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.query.postgres.protocol.errors import PROGRAM_LIMIT, SYNTAX_ERROR, TOO_COMPLEX, PostgresError

LONGEST_STATEMENT: Final = 1_000_000
MOST_STATEMENTS: Final = 1_000
# Translating takes about 50 microseconds a token. This is room for a list of 12,000 values.
MOST_TOKENS: Final = 25_000
# The parser behind this one needs about ten frames of the stack for each level.
DEEPEST_NESTING: Final = 60

_PIECE: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
      | (?P<comment>/\*)
      | (?P<escaped>[eE]')
      | (?P<text>(?:[bBxXnN]|[uU]&)?')
      | (?P<name>(?:[uU]&)?")
      | (?P<parameter>\$\d+)
      | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
      | (?P<number>\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<symbol>::|<=|>=|<>|!=|.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPENING: Final = frozenset("([")
_CLOSING: Final = frozenset(")]")


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    NAME = "name"
    TEXT = "text"
    NUMBER = "number"
    PARAMETER = "parameter"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`text` is as it was written; `start` counts characters from 0."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """An unquoted word in capitals; empty for every other token."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def value(self) -> str:
        """What a name or a plain string means: without quotes, a word in small letters."""
        if self.kind is Kind.NAME:
            return self.text[1:-1].replace('""', '"')
        if self.kind is Kind.TEXT and self.text.startswith("'"):
            return self.text[1:-1].replace("''", "'")
        return self.text.lower() if self.kind is Kind.WORD else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText:
    """One statement of a longer text, with its tokens; their places are those in `text`.

    `offset` is where the statement begins in the longer text.
    """

    text: str
    tokens: tuple[Token, ...]
    offset: int = 0


def statements(sql: str) -> list[StatementText]:
    """The statements in a text, without those that are empty."""
    if len(sql) > LONGEST_STATEMENT:
        raise PostgresError(PROGRAM_LIMIT, f"the statement is longer than {LONGEST_STATEMENT} characters")
    found: list[StatementText] = []
    pending: list[Token] = []
    depth = 0
    for token in tokens(sql):
        if token.kind is Kind.SYMBOL:
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth > DEEPEST_NESTING:
                raise PostgresError(
                    TOO_COMPLEX,
                    f"the statement is nested more than {DEEPEST_NESTING} levels deep",
                    position=token.start + 1,
                )
            if token.text == ";":
                depth = 0
                if pending:
                    found.append(_statement(sql, pending))
                pending = []
                continue
        pending.append(token)
        if len(pending) > MOST_TOKENS:
            raise PostgresError(PROGRAM_LIMIT, f"the statement has more than {MOST_TOKENS} words and signs")
    if pending:
        found.append(_statement(sql, pending))
    if len(found) > MOST_STATEMENTS:
        raise PostgresError(PROGRAM_LIMIT, f"these are more than {MOST_STATEMENTS} statements")
    return found


def tokens(sql: str) -> Iterator[Token]:
    """The tokens of a text, without blanks and comments."""
    at = 0
    while at < len(sql):
        match = _PIECE.match(sql, at)
        assert match is not None
        kind = match.lastgroup
        end = match.end()
        if kind == "comment":
            end = _end_of_comment(sql, at)
        elif kind in ("text", "escaped"):
            end = _end_of_text(sql, at, end, escapes=kind == "escaped")
        elif kind == "name":
            end = _closing(sql, at, sql.find('"', end), 1)
            while sql.startswith('"', end):
                end = _closing(sql, at, sql.find('"', end + 1), 1)
        elif kind == "dollar":
            end = _closing(sql, at, sql.find(match[0], end), len(match[0]))
        if kind not in ("space", "comment"):
            yield Token(kind=_KINDS[str(kind)], text=sql[at:end], start=at)
        at = end


_KINDS: Final = {
    "escaped": Kind.TEXT,
    "text": Kind.TEXT,
    "dollar": Kind.TEXT,
    "name": Kind.NAME,
    "parameter": Kind.PARAMETER,
    "number": Kind.NUMBER,
    "word": Kind.WORD,
    "symbol": Kind.SYMBOL,
}


def _statement(sql: str, found: list[Token]) -> StatementText:
    start = found[0].start
    return StatementText(
        text=sql[start : found[-1].end],
        tokens=tuple(Token(kind=each.kind, text=each.text, start=each.start - start) for each in found),
        offset=start,
    )


def _closing(sql: str, start: int, found: int, length: int) -> int:
    if found < 0:
        raise PostgresError(
            SYNTAX_ERROR,
            f"unterminated quoted text at or near {sql[start : start + 20]!r}",
            position=start + 1,
        )
    return found + length


def _end_of_text(sql: str, start: int, at: int, *, escapes: bool) -> int:
    while True:
        end = _closing(sql, start, sql.find("'", at), 1)
        if escapes:
            backslashes = end - 1
            while backslashes > at and sql[backslashes - 1] == "\\":
                backslashes -= 1
            if (end - 1 - backslashes) % 2 == 1:
                at = end
                continue
        if not sql.startswith("'", end):
            return end
        at = end + 1


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise PostgresError(SYNTAX_ERROR, "unterminated /* comment", position=start + 1)
