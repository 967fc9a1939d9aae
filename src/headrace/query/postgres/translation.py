"""PostgreSQL's SQL to DuckDB's.

The statement is parsed by sqlglot, rewritten as a tree where the two differ, and printed for DuckDB. If
printing it for PostgreSQL and for DuckDB gives the same text, nothing differs: then the statement goes on
as it was written, and the engine's errors keep their position. What PostgreSQL's parser does not know goes
on unchanged too, with `guessed` set, which the door tells the client.

Where a meaning differs and cannot be kept, the statement is refused (0A000): it never gets another meaning
silently. Parameters become names (`placeholder`), which `with_parameters` replaces by literals. Never runs
anything.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from headrace.query.postgres.catalogue.relations import Catalogue
from headrace.query.postgres.catalogue.rewriting import CatalogueRewriting
from headrace.query.postgres.command_reading import read_only
from headrace.query.postgres.differences import rewrite_differences
from headrace.query.postgres.divisions import Numbers
from headrace.query.postgres.lexer import Kind, StatementText
from headrace.query.postgres.naming import column_names
from headrace.query.postgres.parameter_types import inferred_types
from headrace.query.postgres.protocol.errors import (
    FEATURE_NOT_SUPPORTED,
    SYNTAX_ERROR,
    TOO_COMPLEX,
    UNDEFINED_PARAMETER,
    PostgresError,
)

MOST_PARAMETERS: Final = 32_767
# A name that nobody can guess: a text in a statement must never be taken for a parameter.
_SECRET: Final = secrets.token_hex(8)
_PLACEHOLDER: Final = re.compile(rf'"headrace parameter {_SECRET} (\d+)"')
# Statements of DuckDB that no PostgreSQL has.
_DUCKDB_ONLY: Final = frozenset({"DESCRIBE", "SUMMARIZE", "SHOW"})
# Words that sqlglot does not take for a column's name where PostgreSQL does.
_LABELS: Final = frozenset({"NOT", "SELECT"})
_OID_TYPES: Final = frozenset({"OID", "REGCLASS", "REGTYPE", "REGPROC"})
_CHANGES: Final = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop)
_QUERIES: Final = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery, exp.Paren)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a statement can ask about the session it is in."""

    user: str
    process: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A statement for the engine. `names` has PostgreSQL's name of each column that has none of its own.

    `types` are the parameters' oids: as declared, else as the statement shows them, else 0.
    """

    sql: str
    types: tuple[int, ...] = ()
    names: tuple[str | None, ...] = ()
    unchanged: bool = False
    guessed: bool = False


def placeholder(number: int) -> str:
    return f"headrace parameter {_SECRET} {number}"


def with_parameters(sql: str, literals: Sequence[str]) -> str:
    """The statement with a literal for each parameter."""
    return _PLACEHOLDER.sub(lambda match: literals[int(match[1]) - 1], sql) if literals else sql


def translate(
    statement: StatementText, catalogue: Catalogue, session: Session, declared: Sequence[int] = ()
) -> Translation:
    """Raises PostgresError for a statement that is refused or is no SQL."""
    text, count = _with_placeholders(statement)
    count = max(count, len(declared))
    if statement.tokens[0].word in _DUCKDB_ONLY:
        return _untranslated(statement, count, guessed=False)
    try:
        return _translated(statement, text, count, catalogue, session, declared)
    except RecursionError as error:
        raise PostgresError(TOO_COMPLEX, "the statement is nested too deeply") from error


def _translated(  # noqa: PLR0917 - split off `translate`
    statement: StatementText,
    text: str,
    count: int,
    catalogue: Catalogue,
    session: Session,
    declared: Sequence[int],
) -> Translation:
    try:
        trees = sqlglot.parse(text, read="postgres", error_level=ErrorLevel.RAISE)
    except (ParseError, TokenError):
        return _untranslated(statement, count, guessed=True)
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or not isinstance(tree, _QUERIES):
        return _untranslated(statement, count, guessed=True)
    _refuse_changes(tree)
    types = {placeholder(number): oid for number, oid in enumerate(declared, start=1)}
    missing = {placeholder(number): 0 for number in range(1, count + 1) if not types.get(placeholder(number))}
    types |= missing
    numbers = Numbers(tree, catalogue.tables, types)
    types |= {name: oid for name, oid in inferred_types(tree, numbers, missing).items() if oid}
    names = column_names(tree, types)
    before = tree.sql(dialect="postgres")
    rewriting = CatalogueRewriting(
        catalogue, user=session.user, process=session.process, version=session.version
    )
    tree = rewriting.rewritten(tree)
    tree = rewrite_differences(tree, numbers)
    sql = tree.sql(
        dialect="duckdb", unsupported_level=ErrorLevel.IGNORE, normalize_functions=False, copy=False
    )
    unchanged = count == 0 and not rewriting.relations and sql == before
    if unchanged:
        sql = statement.text
    elif rewriting.relations:
        sql = _with_relations(sql, rewriting.relations)
    oids = tuple(types[placeholder(number)] for number in range(1, count + 1))
    return Translation(sql=sql, types=oids, names=names, unchanged=unchanged)


def _with_relations(sql: str, relations: Mapping[str, str]) -> str:
    """The statement with more common table expressions, before its own: those may refer to these."""
    listed = ", ".join(f'"{name}" AS ({query})' for name, query in relations.items())
    for beginning in ("WITH RECURSIVE ", "WITH "):
        if sql.startswith(beginning):
            return f"{beginning}{listed}, {sql.removeprefix(beginning)}"
    return f"WITH {listed} {sql}"


def _untranslated(statement: StatementText, count: int, *, guessed: bool) -> Translation:
    if count:
        raise PostgresError(
            FEATURE_NOT_SUPPORTED if not guessed else SYNTAX_ERROR,
            "this statement is not PostgreSQL's SQL as it is known here, so it cannot have parameters",
        )
    return Translation(sql=statement.text, unchanged=True, guessed=guessed)


def _with_placeholders(statement: StatementText) -> tuple[str, int]:
    """The text with parameters as quoted names, which stand wherever a value can, and the highest number."""
    parts: list[str] = []
    at = highest = 0
    for index, token in enumerate(statement.tokens):
        if token.word in _OID_TYPES and _is_array(statement, index):
            parts += (statement.text[at : token.start], "_oid")
            at = statement.tokens[index + 2].end
        elif token.kind is Kind.PARAMETER:
            number = int(token.text[1:]) if len(token.text) < 8 else 0
            if not 1 <= number <= MOST_PARAMETERS:
                raise PostgresError(
                    UNDEFINED_PARAMETER, f"there is no parameter {token.text}", position=token.start + 1
                )
            parts += (statement.text[at : token.start], f'"{placeholder(number)}"')
            at, highest = token.end, max(highest, number)
        elif token.word in _LABELS and _is_label(statement, index):
            parts += (statement.text[at : token.start], f'"{token.text.lower()}"')
            at = token.end
    return "".join(parts) + statement.text[at:], highest


def _is_label(statement: StatementText, index: int) -> bool:
    """Whether this reserved word names a column, as every word does behind AS and behind a table's name."""
    before = statement.tokens[index - 1] if index else None
    if before is None or not (before.word == "AS" or before.text == "."):
        return False
    after = statement.tokens[index + 1].word if index + 1 < len(statement.tokens) else ""
    return after != "MATERIALIZED"


def _is_array(statement: StatementText, index: int) -> bool:
    """Whether `[]` follows: sqlglot knows the types of oids, but not arrays of them."""
    return [token.text for token in statement.tokens[index + 1 : index + 3]] == ["[", "]"]


def _refuse_changes(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, _CHANGES):
            raise read_only(type(node).__name__.upper())
        if isinstance(node, exp.Into):
            raise read_only("SELECT INTO")
        if isinstance(node, exp.Lock):
            raise read_only("SELECT FOR UPDATE")
