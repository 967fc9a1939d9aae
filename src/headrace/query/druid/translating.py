"""Druid SQL to DuckDB SQL: a pure function of the statement, the tables and the request's context.

    read(text)                           the words, SET statements and EXPLAIN taken off
    translate(statement, tables, …)      DuckDB SQL, and which tables it reads

Invariants: only one query passes, whose tables are those given; every function, clause and expression in it
has a rule here; its literals are the request's, quoted. Whatever the text is, the outcome is a translation
or a DruidSqlError. Never runs anything, and never depends on the time or on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from headrace.query.druid.calls import Context
from headrace.query.druid.dialect import parsed, put, tokens_of, too_deep, written
from headrace.query.druid.errors import DruidSqlError, place_in
from headrace.query.druid.parameters import Parameter, bound
from headrace.query.druid.queries import Queries
from headrace.query.druid.schema import Catalogue
from headrace.query.druid.tables import DruidTable

_REMEDY: Final = "Send one query: SELECT, WITH, or EXPLAIN PLAN FOR with one of them."
_BEGINNINGS: Final = frozenset({"SELECT", "WITH", "(", "VALUES"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A request's text: `settings` are from SET statements before the query."""

    text: str
    words: tuple[Token, ...]
    explained: bool = False
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """DuckDB SQL of one query, with the names of its columns where the statement gives them."""

    sql: str
    tables: tuple[str, ...]
    explained: bool


def read(text: str) -> Statement:
    """Raises DruidSqlError unless it is one statement, perhaps after some SETs."""
    parts: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    statements = [part for part in parts if part]
    settings: dict[str, str] = {}
    while statements and statements[0][0].text.upper() == "SET":
        name, value = _setting(text, statements.pop(0))
        settings[name] = value
    if len(statements) != 1:
        message = "There is no statement" if not statements else f"These are {len(statements)} statements"
        raise DruidSqlError(message, remedy=_REMEDY)
    words = statements[0]
    explained = words[0].text.upper() == "EXPLAIN"
    if explained:
        words = _after_explain(text, words)
    first = words[0].text.upper()
    if first not in _BEGINNINGS:
        raise DruidSqlError(
            f"{first[:30]} is not allowed: SQL over the lake is read-only",
            place=place_in(text, words[0].start),
            remedy=_REMEDY,
        )
    return Statement(text=text, words=tuple(words), explained=explained, settings=settings)


def translate(
    statement: Statement,
    tables: Sequence[DruidTable],
    *,
    context: Context,
    parameters: Sequence[Parameter] = (),
    catalogue: Catalogue | None = None,
) -> Translation:
    """Raises DruidSqlError."""
    words = bound(statement.words, parameters)
    tree = parsed(statement.text, words)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise DruidSqlError(
            f"{type(tree).__name__.upper()} is not allowed: SQL over the lake is read-only", remedy=_REMEDY
        )
    queries = Queries(statement.text, tables, catalogue or Catalogue(tables), context)
    try:
        queries.translate(tree)
        _keep_spelling(tree)
        sql = written(tree)
    except RecursionError as error:
        raise too_deep() from error
    return Translation(sql=sql, tables=tuple(sorted(queries.read)), explained=statement.explained)


def _keep_spelling(tree: exp.Expr) -> None:
    """DuckDB names a column of the answer as the table does; clients expect what they have written."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    for each in list(tree.expressions):
        if isinstance(each, exp.Column) and not each.is_star:
            named = exp.Alias(alias=exp.to_identifier(each.name, quoted=True))
            put(named, each)
            named.set("this", each)


def _setting(text: str, words: list[Token]) -> tuple[str, str]:
    """`SET name = literal`."""
    literals = {TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE}
    if len(words) != 4 or words[2].text != "=" or words[3].token_type not in literals:
        raise DruidSqlError(
            "SET takes a name and a literal",
            place=place_in(text, words[0].start),
            remedy="SET sqlTimeZone = 'UTC';",
        )
    return words[1].text, words[3].text


def _after_explain(text: str, words: list[Token]) -> list[Token]:
    if [word.text.upper() for word in words[:3]] != ["EXPLAIN", "PLAN", "FOR"] or len(words) < 4:
        raise DruidSqlError(
            "This form of EXPLAIN is not allowed", place=place_in(text, words[0].start), remedy=_REMEDY
        )
    return words[3:]
