"""Statements: text to tree.

`parse` takes a text of any number of statements, each ending with a semicolon, which is optional after the
last one. DEFINE and UNDEFINE affect the statements after them. Errors give the position, what was expected,
and the nearest valid word. Statements of ksqlDB that are not supported here are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.expression_parser import ExpressionParser
from headrace.pipeline.statements.expressions import Expression
from headrace.pipeline.statements.statement_parser import StatementParser
from headrace.pipeline.statements.tokens import Token, TokenKind, tokens_of
from headrace.pipeline.statements.tree import Define, Parsed, Undefine


def parse(text: str, *, variables: Mapping[str, str] | None = None) -> tuple[Parsed, ...]:
    """All statements of a text. Raises StatementError."""
    known = {name.upper(): value for name, value in (variables or {}).items()}
    found = []
    for piece, offset in split(text):
        parsed = _one(text, piece, offset, known)
        statement = parsed.statement
        if isinstance(statement, Define):
            known[statement.name] = statement.value
        elif isinstance(statement, Undefine):
            known.pop(statement.name, None)
        found.append(parsed)
    return tuple(found)


def parse_expression(text: str) -> Expression:
    """An expression on its own."""
    cursor = Cursor(tokens_of(text, {}))
    expression = ExpressionParser(cursor).expression()
    if cursor.token.kind is not TokenKind.END:
        cursor.fail()
    return expression


def _one(text: str, piece: list[Token], end: int, variables: Mapping[str, str]) -> Parsed:
    # Variables are substituted only now: an earlier DEFINE may have changed them.
    start = piece[0].start
    cursor = Cursor(tokens_of(text, variables, start, end))
    statement = StatementParser(cursor).statement()
    cursor.accept_symbol(";")
    if cursor.token.kind is not TokenKind.END:
        cursor.fail()
    written = text[start:end].strip()
    return Parsed(statement=statement, text=written if written.endswith(";") else f"{written};")


def split(text: str) -> Iterator[tuple[list[Token], int]]:
    """The tokens of each statement, and where its text ends. Ignores variables."""
    piece: list[Token] = []
    for token in tokens_of(text, None):
        if token.kind is TokenKind.END:
            break
        piece.append(token)
        if token.kind is TokenKind.SYMBOL and token.value == ";":
            if len(piece) > 1:
                yield piece, token.end
            piece = []
    if piece:
        yield piece, len(text)
