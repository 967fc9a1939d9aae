"""Text to tokens: words, quoted names, texts, numbers, symbols.

Keywords are words like others; those that cannot be names are in `RESERVED`. Comments (`-- …`, `/* … */`) are
skipped. `${name}` is replaced by the tokens of the variable's value, and inside a text by the value itself.
Knows nothing of the structure of statements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from headrace.pipeline.statements.errors import SyntaxProblemError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.suggestions import did_you_mean


class TokenKind(Enum):
    WORD = "word"
    NAME = "quoted name"
    TEXT = "text"
    INTEGER = "whole number"
    DECIMAL = "decimal number"
    DOUBLE = "number with an exponent"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """`value` is a word in upper case, a name or text without its quotes, or another token as written."""

    kind: TokenKind
    value: str
    at: Position
    # Where it begins and ends in the text.
    start: int
    end: int
    # A word as written.
    written: str = ""


# Words that are names only if they are quoted.
# fmt: off
RESERVED: Final = frozenset(
    {
        "ADVANCE", "ALL", "AND", "AS", "AT", "BEGINNING", "BETWEEN", "BY", "CASE", "CAST", "CONNECTOR",
        "CONNECTORS", "CREATE", "DELETE", "DESCRIBE", "DISTINCT", "DROP", "ELSE", "END", "EXISTS", "EXTENDED",
        "FALSE", "FROM", "FULL", "GROUP", "HAVING", "HOPPING", "IN", "INNER", "INSERT", "INTO", "IS", "JOIN",
        "LEFT", "LIKE", "LIMIT", "LIST", "NOT", "NULL", "ON", "OR", "OUTER", "PRINT", "PROPERTIES", "QUERIES",
        "RETENTION", "RIGHT", "RUN", "SAMPLE", "SCRIPT", "SELECT", "SIZE", "STREAM", "STREAMS", "TABLE",
        "TERMINATE", "THEN", "TOPIC", "TOPICS", "TRUE", "TUMBLING", "UNSET", "VALUES", "WHEN", "WHERE",
        "WINDOW", "WITH", "WITHIN",
    }
)
# fmt: on

_PATTERN: Final = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<variable>\$\{[^}]*\})
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>`(?:[^`]|``)*`|"(?:[^"]|"")*")
    | (?P<double>(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+)
    | (?P<decimal>\d+\.\d*|\.\d+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_@]*|\d+[A-Za-z_][A-Za-z0-9_@]*)
    | (?P<integer>\d+)
    | (?P<symbol>->|=>|:=|\|\||<>|!=|<=|>=|/(?!\*)|[-+*%()\[\],;.<>=])
    """,
    re.VERBOSE | re.DOTALL,
)
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNENDED: Final = {
    "'": "The text that begins here has no closing quote.",
    "`": "The name that begins here has no closing back-quote.",
    '"': "The name that begins here has no closing quote.",
    "$": "A variable is written ${name}.",
}
_KINDS: Final = {
    "word": TokenKind.WORD,
    "name": TokenKind.NAME,
    "text": TokenKind.TEXT,
    "double": TokenKind.DOUBLE,
    "decimal": TokenKind.DECIMAL,
    "integer": TokenKind.INTEGER,
    "symbol": TokenKind.SYMBOL,
}


def tokens_of(
    text: str, variables: Mapping[str, str] | None, start: int = 0, stop: int | None = None
) -> list[Token]:
    """All tokens of a part of the text, followed by one of kind END. Raises SyntaxProblemError.

    Without `variables`, references to them are names like others, for callers that only split statements.
    """
    found: list[Token] = []
    place = start
    stop = len(text) if stop is None else stop
    lines = _Lines(text)
    while place < stop:
        at = lines.position(place)
        match = _PATTERN.match(text, place)
        if match is None:
            if text.startswith("/*", place):
                raise SyntaxProblemError("The comment that begins here is not closed.", at, remedy="Add */.")
            character = text[place]
            reason = _UNENDED.get(character, f"{character!r} has no meaning here.")
            raise SyntaxProblemError(reason, at)
        end = match.end()
        kind = str(match.lastgroup)
        if kind == "variable":
            if variables is None:
                found.append(Token(TokenKind.NAME, match.group(), at, place, end))
                place = end
                continue
            value = _value_of(match.group()[2:-1], variables, at)
            # Its tokens get the position of the variable, so that errors point there.
            found.extend(token._replace(at=at, start=place, end=end) for token in tokens_of(value, {})[:-1])
        elif kind in _KINDS:
            found.append(
                Token(_KINDS[kind], _value(kind, match.group(), variables, at), at, place, end, match.group())
            )
        place = end
    found.append(Token(TokenKind.END, "", lines.position(stop), stop, stop))
    return found


def _value(kind: str, written: str, variables: Mapping[str, str] | None, at: Position) -> str:
    if kind == "word":
        return written.upper()
    if kind == "name":
        quote = written[0]
        return written[1:-1].replace(quote * 2, quote)
    if kind == "text":
        text = written[1:-1].replace("''", "'")
        if variables is None:
            return text
        known = variables
        return _VARIABLE.sub(lambda match: _value_of(match.group(1), known, at), text)
    return "<>" if written == "!=" else written


def _value_of(name: str, variables: Mapping[str, str], at: Position) -> str:
    if not _VARIABLE_NAME.fullmatch(name):
        raise SyntaxProblemError(
            f"{name!r} is not a valid variable name.", at, remedy="Use letters, digits and _."
        )
    for known, value in variables.items():
        if known.upper() == name.upper():
            return value
    raise SyntaxProblemError(
        f"The variable {name} is not defined.",
        at,
        remedy=f"{did_you_mean(name.upper(), [known.upper() for known in variables])}"
        f"DEFINE {name} = '…'; defines it.".strip(),
    )


class _Lines:
    """Positions in a text, requested in ascending order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._line_start = 0
        self._seen = 0

    def position(self, place: int) -> Position:
        text = self._text
        while (newline := text.find("\n", self._seen, place)) >= 0:
            self._line += 1
            self._line_start = self._seen = newline + 1
        self._seen = place
        return Position(self._line, place - self._line_start + 1)
