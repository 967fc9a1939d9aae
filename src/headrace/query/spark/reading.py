"""How a statement for Spark is read: DuckDB's SQL by sqlglot, with every name resolved.

sqlglot's knowledge of functions is taken away, as for Druid's SQL: every call becomes a plain call by its
name, so that `functions.py` alone decides what one means. Invariants: a statement is limited in length and
nesting before it is parsed, because the parser is recursive; afterwards every column has its table, every
`*` is written out, and every column of the answer has a name. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from headrace.core.errors import HeadraceError
from headrace.query.spark.kinds import differs

# The parser takes some 30 microseconds for each.
MOST_TOKENS: Final = 20_000
MOST_NESTED: Final = 24
_MOST_PREFIXES: Final = 48

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_PREFIXES: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_TYPED: Final = frozenset({"CAST", "TRY_CAST", "EXTRACT"})


class _Parser(DuckDBParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in DuckDBParser.FUNCTION_PARSERS.items() if name in _TYPED
    }

    # They may be parsed more than once, and not in their order.
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        **DuckDBParser.PLACEHOLDER_PARSERS,
        TokenType.PLACEHOLDER: lambda self: self.expression(exp.Placeholder(this=f"?{self._prev.start}")),
    }


class _Dialect(DuckDB):
    Parser = _Parser


def read(statement: str) -> exp.Expr:
    """The tree of one query. Raises HeadraceError."""
    # What it does not know it would write to the process's log.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        dialect = _Dialect()
        tokens = dialect.tokenize(statement)
        _check_size(tokens)
        trees = _Parser(dialect=dialect).parse(tokens, statement)
    except (ParseError, TokenError) as error:
        raise differs("it is not understood", str(error).partition("\n")[0].rstrip(".")) from error
    except RecursionError as error:
        raise _too_deep() from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Query):
        raise differs("it is no query", "only SELECT, WITH and FROM are translated")
    return tree


def resolved(tree: exp.Expr, tables: Mapping[str, Mapping[str, str]]) -> exp.Expr:
    """The same with names resolved; names of columns are lower case. Raises HeadraceError."""
    try:
        return qualify(
            tree.copy(),
            dialect=_Dialect,
            schema={table: dict(columns) for table, columns in tables.items()},
            validate_qualify_columns=True,
        )
    except (OptimizeError, ParseError, ValueError, KeyError) as error:
        raise differs("its names are not resolved", str(error).partition("\n")[0].rstrip(".")) from error
    except RecursionError as error:
        raise _too_deep() from error


def written(node: exp.Expr) -> str:
    """A part of the statement, for messages."""
    text = node.sql(dialect="duckdb", comments=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _check_size(tokens: list[Token]) -> None:
    if len(tokens) > MOST_TOKENS:
        raise differs("it is too long", f"it has more than {MOST_TOKENS} words and signs")
    depth = prefixes = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if depth > MOST_NESTED or prefixes > _MOST_PREFIXES:
            raise _too_deep()


def _too_deep() -> HeadraceError:
    return differs("it is nested too deeply", f"more than {MOST_NESTED} levels")
