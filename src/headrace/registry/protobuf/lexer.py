"""Cuts a `.proto` text into tokens. Comments and white space separate tokens and are dropped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.registry.protobuf.model import ProtobufError

NAME: Final = "name"
NUMBER: Final = "number"
TEXT: Final = "text"
SYMBOL: Final = "symbol"
END: Final = "end"

_MOST_TOKENS: Final = 100_000
_TOKEN: Final = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<symbol>[{}\[\]();=,.<>:+\-/])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    place: int


def tokens(text: str) -> list[Token]:
    """Raises ProtobufError."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            line = text.count("\n", 0, place) + 1
            raise ProtobufError(f"line {line}: {text[place : place + 20]!r} is not understood")
        kind = str(match.lastgroup)
        if len(found) >= _MOST_TOKENS:
            raise ProtobufError(f"it has more than {_MOST_TOKENS} words and symbols")
        if kind != "space":
            found.append(Token(kind, match[0], place))
        place = match.end()
    found.append(Token(END, "the end", len(text)))
    return found
