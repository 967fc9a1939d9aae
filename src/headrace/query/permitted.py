"""Which statements are allowed: a single query over the lake's tables that touches nothing else.

Decides from DuckDB's own parse of the statement, never from its text, and by allow lists: a kind of
statement, table or table function that is not listed is rejected, so that whatever a newer DuckDB adds stays
out until someone has considered it (2.0, for example, lets a common table expression INSERT or COPY TO a
file). This is the inner of two barriers: DuckDB itself is configured without access to files outside the
lake. Never runs the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import HeadraceError
from headrace.query.references.moments import table_of
from headrace.query.statement_tables.plan import TABLE_SCHEMA
from headrace.query.topic_tables.plan import TOPIC_SCHEMA

if TYPE_CHECKING:
    import duckdb

LONGEST_STATEMENT: Final = 1_000_000

_QUERY_NODES: Final = {"CTE_NODE", "RECURSIVE_CTE_NODE", "SELECT_NODE", "SET_OPERATION_NODE"}
_TABLES: Final = {
    "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION",
}  # fmt: skip
_OTHER_PARTS: Final = {"DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"}
_ORDERS: Final = {"ASCENDING", "DESCENDING", "ORDER_DEFAULT"}
_TABLE_FUNCTIONS: Final = {
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types", "duckdb_views",
    "generate_series", "json_each", "json_tree", "pg_timezone_names", "range", "repeat", "repeat_row",
    "unnest",
}  # fmt: skip
# A sleep cannot be interrupted; a log entry outlives the query.
_REFUSED_FUNCTIONS: Final = {"sleep_ms", "write_log"}
_CATALOG_SCHEMAS: Final = {"information_schema", "pg_catalog"}

_EXPLAIN: Final = re.compile(r"explain\b\s*(analy[sz]e\b)?\s*(\([\w\s,']*\))?\s*", re.IGNORECASE)
_PLAIN_NAME: Final = re.compile(r"[\w$ -]+")

_REMEDY: Final = "Send one query: SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN."


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """A permitted statement: the text that is explained or run, and which tables (case-folded) it reads.

    With `catalogue`, it or an error in it can only be answered by who knows all tables. `moments` are the
    tables at versions that it reads, by their names in it; `topics` and `statement_tables` are
    in schemas of their own, and `unknown` names without a schema may mean some of the latter. `explain` are
    the words before an explained statement.
    """

    kind: str
    text: str
    tables: frozenset[str]
    catalogue: bool
    explain: str = ""
    moments: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    statement_tables: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()


def check_permitted(connection: duckdb.DuckDBPyConnection, sql: str, tables: set[str]) -> Permitted:
    """What a statement reads of `tables` (case-folded). Raises HeadraceError if it is not permitted."""
    if len(sql) > LONGEST_STATEMENT:
        raise _refused(f"The statement is longer than {LONGEST_STATEMENT} characters.")
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise _refused(
            "There is no statement." if not statements else f"These are {len(statements)} statements."
        )
    statement = statements[0]
    kind, text = statement.type.name, statement.query
    outer, head = kind, ""
    if kind == "EXPLAIN":
        text = _explained(text)
        head = statement.query[: len(statement.query) - len(text)]
        inner = connection.extract_statements(text)
        kind = inner[0].type.name if len(inner) == 1 else "EXPLAIN"
    if kind != "SELECT":
        raise _refused(f"{kind} is not allowed here: SQL over the lake is read-only.")
    rows = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [text]).fetchall()
    try:
        tree = json.loads(rows[0][0])
    except RecursionError as error:
        raise HeadraceError(
            "query_failed",
            "The statement is nested too deeply.",
            remedy="Put its innermost parts into common table expressions (WITH).",
        ) from error
    if tree["error"]:
        raise _refused(f"The statement could not be checked: {tree.get('error_message', 'no reason given')}.")
    found = _Named()
    found.read(tree["statements"], tables)
    unknown = found.names - found.expressions - tables
    return Permitted(
        kind=outer,
        text=text,
        tables=frozenset(found.names & tables),
        catalogue=found.shows or bool(unknown),
        explain=head,
        moments=frozenset(found.moments),
        topics=frozenset(found.topics),
        statement_tables=frozenset(found.statement_tables),
        unknown=frozenset(name for name in found.plain if name.casefold() not in found.expressions | tables),
    )


def _explained(text: str) -> str:
    match = _EXPLAIN.match(text)
    if match is None:
        raise _refused("This form of EXPLAIN is not allowed here.")
    return text[match.end() :]


class _Named:
    """The names in a statement: of tables (with common table expressions), and of those expressions."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.expressions: set[str] = set()
        self.moments: set[str] = set()
        self.topics: set[str] = set()
        self.statement_tables: set[str] = set()
        # As they are written, without a schema.
        self.plain: set[str] = set()
        # Whether it shows or describes tables, other than by reading them.
        self.shows = False

    def read(self, tree: Any, tables: set[str]) -> None:
        for part in _parts(tree):
            kind = part["type"]
            self.expressions.update(_expressions(part))
            if "class" in part:
                _check_function(part)
            elif kind == "BASE_TABLE":
                self._read_table(part, tables)
            elif kind == "SHOW_REF":
                self.shows = True
                _check_shown(part["table_name"])
            elif kind == "TABLE_FUNCTION":
                name = _check_table_function(part["function"])
                self.shows = self.shows or name.startswith("duckdb_")
            elif kind not in _QUERY_NODES | _TABLES | _OTHER_PARTS | _ORDERS and not kind.endswith(
                "_TYPE_INFO"
            ):
                raise _refused(f"{kind} is not allowed here.")

    def _read_table(self, part: dict[str, Any], tables: set[str]) -> None:
        *qualifiers, name = [str(each) for each in part["qualified_name"]["path"]]
        schema = [each.casefold() for each in qualifiers]
        if schema == [TOPIC_SCHEMA]:
            self.topics.add(name)
        elif schema == [TABLE_SCHEMA]:
            self.statement_tables.add(name)
        elif table_of(name, tables) is not None:
            self.moments.add(name)
        else:
            self.names.add(_check_table(part, tables))
            if not qualifiers:
                self.plain.add(name)


def _expressions(part: dict[str, Any]) -> Iterator[str]:
    """The names of the common table expressions that a query node defines."""
    defined = part.get("cte_map")
    entries = defined.get("map", ()) if isinstance(defined, dict) else ()
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            yield entry["key"].casefold()


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in the tree that states its kind. Not recursive: a statement may be deeply nested."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if isinstance(part.get("type"), str):
                yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def _check_function(expression: dict[str, Any]) -> None:
    name = str(expression.get("function_name", "")).lower()
    if name in _REFUSED_FUNCTIONS:
        raise _refused(f"The function {name} is not allowed here.")


def _check_table(table: dict[str, Any], tables: set[str]) -> str:
    """A name that is not a table of ours could be a file path: only plain names reach DuckDB."""
    *qualifiers, name = [str(part) for part in table["qualified_name"]["path"]]
    folded = name.casefold()
    if qualifiers and qualifiers[-1].lower() in _CATALOG_SCHEMAS:
        return folded
    if folded not in tables and (qualifiers or not _PLAIN_NAME.fullmatch(name)):
        raise _refused(f"`{'.'.join([*qualifiers, name])}` is not a table of the lake.")
    return folded


def _check_shown(name: str) -> None:
    if not _PLAIN_NAME.fullmatch(name.strip('"') or "all"):
        raise _refused(f"`{name}` is not a table of the lake.")


def _check_table_function(function: dict[str, Any]) -> str:
    name = str(function.get("function_name", "")).lower()
    if name not in _TABLE_FUNCTIONS:
        raise _refused(f"The table function {name} is not allowed here: only the lake can be read.")
    return name


def _refused(message: str) -> HeadraceError:
    return HeadraceError("query_failed", message, remedy=_REMEDY)
