"""Parameters of a statement: each `?` becomes the words of a literal before the statement is parsed.

A value never becomes text that is read as SQL: it is a single word of the parser's, a literal, whatever is in
it. So a parameter may stand wherever a literal may, also where a function wants one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from headrace.query.druid.errors import DruidSqlError, Place

_NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "REAL", "DOUBLE", "DECIMAL"}
)
_TEXTS: Final = frozenset({"CHAR", "VARCHAR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`type` as in java.sql.Types: VARCHAR, BIGINT, TIMESTAMP …"""

    type: str
    value: object


def bound(tokens: Sequence[Token], parameters: Sequence[Parameter]) -> list[Token]:
    """The words with parameters in their places. Raises DruidSqlError if there are too few or too many."""
    wanted = sum(token.token_type is TokenType.PLACEHOLDER for token in tokens)
    if wanted != len(parameters):
        raise DruidSqlError(f"The statement has {wanted} parameters, the request {len(parameters)} values")
    following = iter(parameters)
    found: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.PLACEHOLDER:
            found.extend(_words(next(following), token))
        else:
            found.append(token)
    return found


def _words(parameter: Parameter, token: Token) -> Iterator[Token]:
    kind, value = parameter.type.upper(), parameter.value
    if value is None:
        yield _word(TokenType.NULL, "NULL", token)
    elif kind == "ARRAY" and isinstance(value, list):
        yield _word(TokenType.ARRAY, "ARRAY", token)
        yield _word(TokenType.L_BRACKET, "[", token)
        for index, item in enumerate(value):
            if index:
                yield _word(TokenType.COMMA, ",", token)
            yield from _words(Parameter(type=_type_of(item, token), value=item), token)
        yield _word(TokenType.R_BRACKET, "]", token)
    elif kind == "BOOLEAN" and isinstance(value, bool):
        yield _word(TokenType.TRUE if value else TokenType.FALSE, str(value).upper(), token)
    elif kind in _TEXTS and isinstance(value, str):
        yield _word(TokenType.STRING, value, token)
    elif kind in ("TIMESTAMP", "DATE") and isinstance(value, str | int) and not isinstance(value, bool):
        yield _word(TokenType.TIMESTAMP if kind == "TIMESTAMP" else TokenType.DATE, kind, token)
        yield _word(TokenType.STRING, value if isinstance(value, str) else _from_millis(value, token), token)
    elif kind in _NUMBERS:
        yield from _number(value, kind, token)
    else:
        raise _wrong(parameter, token)


def _number(value: object, kind: str, token: Token) -> Iterator[Token]:
    try:
        number = int(str(value)) if str(value).lstrip("-").isdigit() else float(str(value))
        if isinstance(value, bool) or not math.isfinite(number):
            raise ValueError(str(value))
    except (ValueError, OverflowError) as error:
        raise _wrong(Parameter(type=kind, value=value), token) from error
    if number < 0:
        yield _word(TokenType.L_PAREN, "(", token)
        yield _word(TokenType.DASH, "-", token)
    text = str(abs(number)) if isinstance(number, int) else repr(abs(number))
    yield _word(TokenType.NUMBER, text, token)
    if number < 0:
        yield _word(TokenType.R_PAREN, ")", token)


def _type_of(value: object, token: Token) -> str:
    match value:
        case None | str():
            return "VARCHAR"
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT"
        case float():
            return "DOUBLE"
        case _:
            raise _wrong(Parameter(type="ARRAY", value=value), token)


def _from_millis(value: int, token: Token) -> str:
    try:
        return datetime.fromtimestamp(value / 1000, tz=UTC).isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise _wrong(Parameter(type="TIMESTAMP", value=value), token) from error


def _word(kind: TokenType, text: str, token: Token) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _wrong(parameter: Parameter, token: Token) -> DruidSqlError:
    return DruidSqlError(
        f"The value {str(parameter.value)[:60]} is no {parameter.type[:30]}",
        place=Place(line=token.line, column=max(1, token.col)),
        remedy="Types are VARCHAR, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP, DATE and ARRAY.",
    )
