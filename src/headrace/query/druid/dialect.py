"""How a statement of Druid SQL is read, and how its translation is written.

Reading is sqlglot's, with its knowledge of functions taken away: every call becomes a plain call by its
name, so that the table in `functions/` alone decides which functions there are and what they mean. Only what
has a grammar of its own (CAST, EXTRACT, TRIM, FLOOR ... TO) keeps its parser. Writing is sqlglot's for
DuckDB, with one node more: `Sql`, a piece of DuckDB SQL with places for its arguments.

Invariants: a statement is limited in length and nesting before it is parsed, because the parser is recursive;
identifiers are always quoted; comments never reach DuckDB.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.generators.druid import DruidGenerator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.druid import DruidParser
from sqlglot.tokenizer_core import Token, TokenType

from headrace.query.druid.errors import DruidSqlError, Place, place_in

LONGEST_STATEMENT: Final = 1_000_000
# The parser takes some 30 microseconds for each.
MOST_TOKENS: Final = 50_000
MOST_NESTED: Final = 24
# Chains of NOT and -, of casts, brackets and dots also nest.
MOST_PREFIXES: Final = 48

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_PREFIXES: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_CHAIN_STEP: Final = 3
_POSTFIXES: Final = frozenset({TokenType.DCOLON, TokenType.L_BRACKET, TokenType.DOT})


def put(tree: exp.Expr, place: exp.Expr) -> None:
    """Put a tree where another one is. sqlglot's `replace` takes longer the longer the list that it is in."""
    parent, index, name = place.parent, place.index, str(place.arg_key)
    if parent is None:
        raise ValueError("the root of a tree has no place")
    if index is None:
        parent.set(name, tree)
        return
    parent.args[name][index] = tree
    tree.parent, tree.arg_key, tree.index = parent, name, index


class Sql(exp.Expression):
    """DuckDB SQL in which `{0}`, `{1}` … stand for translated arguments."""

    arg_types: ClassVar[dict[str, Any]] = {"this": True, "expressions": False}


def sql(template: str, *arguments: exp.Expr) -> Sql:
    return Sql(this=template, expressions=list(arguments))


def verbatim(text: str) -> Sql:
    """DuckDB SQL without places for arguments."""
    return sql(text.replace("{", "{{").replace("}", "}}"))


class _Tokenizer(tokens.Tokenizer):
    # No word swallows the rest of the text, as EXPLAIN and others otherwise do.
    COMMANDS: ClassVar[set[TokenType]] = set()
    # DIV is a function here, not an operator.
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if word not in {"DIV"}
    }


class _Parser(DruidParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self._parse_cast(True),
        "CEIL": lambda self: self._parse_ceil_floor(exp.Ceil),
        "CEILING": lambda self: self._parse_ceil_floor(exp.Ceil),
        "EXTRACT": lambda self: self._parse_extract(),
        "FLOOR": lambda self: self._parse_ceil_floor(exp.Floor),
        "JSON_VALUE": lambda self: self._parse_druid_json_value(),
        "POSITION": lambda self: self._parse_druid_position(),
        "SUBSTRING": lambda self: self._parse_substring(),
        "TRIM": lambda self: self._parse_trim(),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse
        for name, parse in DruidParser.NO_PAREN_FUNCTION_PARSERS.items()
        if name in {"ANY", "CASE"}
    }

    def _parse_druid_position(self) -> exp.Expr:
        """POSITION(text IN expr [FROM index])."""
        needle = self._parse_bitwise()
        self._match(TokenType.IN)
        found = [self._parse_bitwise(), needle]
        if self._match(TokenType.FROM):
            found.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this="POSITION", expressions=found))

    def _parse_druid_json_value(self) -> exp.Expr:
        """JSON_VALUE(expr, path [RETURNING type])."""
        value = self._parse_bitwise()
        self._match(TokenType.COMMA)
        path = self._parse_bitwise()
        call = self.expression(exp.Anonymous(this="JSON_VALUE", expressions=[value, path]))
        if self._match(TokenType.RETURNING):
            return self.expression(exp.Cast(this=call, to=self._parse_types()))
        return call


class DruidSql(Dialect):
    """Druid's SQL as it is read here."""

    Tokenizer = _Tokenizer
    Parser = _Parser
    Generator = DruidGenerator


class _Generator(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        Sql: lambda self, node: str(node.this).format(*(self.sql(each) for each in node.expressions)),
    }


class _Output(DuckDB):
    Generator = _Generator


def written(tree: exp.Expr) -> str:
    """The translated tree as DuckDB SQL."""
    return str(tree.sql(dialect=_Output, identify=True, comments=False))


def tokens_of(statement: str) -> list[Token]:
    """Raises DruidSqlError if the statement is too long, too deep, or no text of SQL."""
    if len(statement) > LONGEST_STATEMENT:
        raise DruidSqlError(f"The statement is longer than {LONGEST_STATEMENT} characters")
    if "\0" in statement:
        raise DruidSqlError(
            "The statement contains a null character", place=place_in(statement, statement.index("\0"))
        )
    try:
        found: list[Token] = DruidSql().tokenize(statement)
    except TokenError as error:
        raise DruidSqlError(f"The statement cannot be read: {_first_line(error)}") from error
    if len(found) > MOST_TOKENS:
        raise DruidSqlError(f"The statement has more than {MOST_TOKENS} words and signs")
    _check_nesting(found)
    return found


def parsed(statement: str, found: list[Token]) -> exp.Expr:
    """The tree of one statement; `found` are its tokens. Raises DruidSqlError."""
    try:
        trees = _Parser(dialect=DruidSql()).parse(found, statement)
    except ParseError as error:
        raise _not_parsed(error) from error
    except RecursionError as error:
        raise too_deep() from error
    if len(trees) != 1 or trees[0] is None:
        raise DruidSqlError("There is no statement" if not trees else f"These are {len(trees)} statements")
    return trees[0]


def too_deep() -> DruidSqlError:
    return DruidSqlError(
        f"The statement is nested too deeply: more than {MOST_NESTED} levels",
        remedy="Use a WITH clause, or fewer parentheses.",
    )


def _check_nesting(found: list[Token]) -> None:
    depth = prefixes = postfixes = last = 0
    for number, token in enumerate(found):
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if kind in _POSTFIXES:
            # Of a chain: `a.b.c` or `a::b::c`, not `a.b = c.d`.
            postfixes = postfixes + 1 if number - last <= _CHAIN_STEP else 1
            last = number
        if depth > MOST_NESTED or max(prefixes, postfixes) > MOST_PREFIXES:
            raise too_deep()


def _not_parsed(error: ParseError) -> DruidSqlError:
    details: dict[str, Any] = error.errors[0] if error.errors else {}
    what = str(details.get("description") or _first_line(error)).rstrip(".")
    near = str(details.get("highlight") or "")
    line, column = details.get("line"), details.get("col")
    place = None
    if isinstance(line, int) and isinstance(column, int):
        place = Place(line=line, column=max(1, column - len(near) + 1))
    # sqlglot shows tokens as their representation in Python.
    what = what.partition(" but got <Token")[0]
    return DruidSqlError(
        f"The statement cannot be parsed{f' at `{near[:60]}`' if near else ''}: {what}", place=place
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
