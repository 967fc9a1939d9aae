"""Statements as DuckDB's own parse, in the JSON of `json_serialize_sql`: reading, making, and asking of them.

What is made is parsed from SQL, so that it always has the form that this DuckDB gives it. Never runs a
question: it binds statements, which reads no data, and computes constants. Belongs to one connection.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import duckdb

Tree = dict[str, Any]

# Functions that are macros, and as good as scalar ones.
_PLAIN_MACROS: Final = frozenset({"nullif"})
_WITHIN_QUERY: Final = "CONSISTENT_WITHIN_QUERY"
# Names without brackets that stand for a function.
NOW_NAMES: Final = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
_OF_STAR: Final = frozenset(
    {"relation_name", "exclude_list", "replace_list", "expr", "qualified_exclude_list", "rename_list"}
)
_NULL_LITERAL: Final = "NULL_LITERAL"


class Trees:
    """Of one connection. `parameters` are those of the question at hand."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._templates: dict[str, Tree] = {}
        self.parameters: Sequence[object] = ()
        rows = connection.execute(
            "SELECT lower(function_name), function_type, stability FROM duckdb_functions()"
        ).fetchall()
        self.aggregates = frozenset(name for name, kind, _ in rows if kind == "aggregate")
        unstable = {
            name
            for name, kind, stability in rows
            if kind != "scalar" or stability not in ("CONSISTENT", _WITHIN_QUERY)
        }
        self.within_query = frozenset(name for name, _, stability in rows if stability == _WITHIN_QUERY)
        self.scalars = frozenset(name for name, _, _ in rows if name not in unstable) | _PLAIN_MACROS

    def parsed(self, sql: str) -> Tree:
        """Of a statement that was permitted."""
        rows = self._connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
        tree: Tree = json.loads(rows[0][0])
        return tree

    def text(self, statements: Tree) -> str:
        rows = self._connection.execute(
            "SELECT json_deserialize_sql($1::JSON)", [json.dumps(statements)]
        ).fetchall()
        return str(rows[0][0])

    def text_of_node(self, node: Tree) -> str:
        return self.text({"error": False, "statements": [{"node": node, "named_param_map": []}]})

    def made(self, template: str, *parts: Tree) -> Tree:
        """An expression in which `_0`, `_1` … are these trees."""
        known = self._templates.get(template)
        if known is None:
            node = self.parsed(f"SELECT {template}")["statements"][0]["node"]
            known = self._templates[template] = node["select_list"][0]
        found: Tree = _filled(known, {f"_{number}": part for number, part in enumerate(parts)})
        return found

    def source(self, relation: str) -> Tree:
        """What stands behind FROM for a view of this name."""
        node = self.parsed(f"SELECT 1 FROM {relation}")["statements"][0]["node"]
        source: Tree = node["from_table"]
        return source

    def bound(self, node: Tree) -> tuple[list[str], list[str]]:
        """The names and types of a query's columns. Raises duckdb.Error."""
        relation = self._connection.sql(self.text_of_node(node), params=self._used(node))
        return list(relation.columns), [str(kind) for kind in relation.types]

    def type_of(self, expression: Tree, source: Tree) -> str:
        """Of an expression over a relation. Raises duckdb.Error."""
        node = copy.deepcopy(self.parsed("SELECT 1")["statements"][0]["node"])
        node["select_list"], node["from_table"] = [expression], source
        return self.bound(node)[1][0]

    def computed(self, expression: Tree, wanted: str) -> tuple[object, ...]:
        """Columns `wanted` of a constant, which is called `v` there. Raises duckdb.Error."""
        node = copy.deepcopy(self.parsed("SELECT 1")["statements"][0]["node"])
        node["select_list"] = [expression]
        inner = self.text_of_node(node)
        rows = self._connection.execute(
            f"SELECT {wanted} FROM ({inner}) AS constants(v)", self._used(expression)
        ).fetchall()
        return tuple(rows[0])

    def uses_now(self, tree: Tree) -> bool:
        """Whether it depends on the moment of its transaction."""
        return any(
            str(part.get("function_name", "")).lower() in self.within_query
            or (is_column(part) and part["column_names"][-1].lower() in NOW_NAMES)
            for part in parts(tree)
        )

    def _used(self, tree: Tree) -> dict[str, object]:
        names = {part["identifier"] for part in parts(tree) if part.get("class") == "PARAMETER"}
        return {name: self.parameters[int(name) - 1] for name in names}


def parts(tree: Any) -> Iterator[Tree]:
    """Every object in the tree, with itself. Not recursive: a statement may be deeply nested."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def is_column(tree: Any) -> bool:
    return isinstance(tree, dict) and tree.get("class") == "COLUMN_REF"


def is_function(tree: Any, *names: str) -> bool:
    return (
        isinstance(tree, dict)
        and tree.get("class") == "FUNCTION"
        and str(tree.get("function_name", "")).lower() in names
    )


def is_all_columns(tree: Any) -> bool:
    """`*` or `ALL`, without exceptions."""
    return (
        isinstance(tree, dict)
        and tree.get("class") == "STAR"
        and not any(value for key, value in tree.items() if key in _OF_STAR)
    )


def arguments(function: Tree) -> list[Tree]:
    return [each["expression"] for each in function["arguments"]]


def text_constant(tree: Tree) -> str | None:
    """The text of a literal; None for everything else."""
    if tree.get("class") == "CONSTANT" and tree.get("literal", {}).get("kind") == "STRING":
        return str(tree["literal"]["text"])
    return None


def is_null(tree: Any) -> bool:
    return isinstance(tree, dict) and tree.get("class") == "CONSTANT" and _kind(tree) == _NULL_LITERAL


def is_zero(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and tree.get("class") == "CONSTANT"
        and (_kind(tree) == "INTEGER" and tree["literal"].get("text") == "0")
    )


def cast_type(tree: Tree) -> str:
    """The name of the type of a CAST, in small letters; empty for everything else."""
    if tree.get("class") != "CAST":
        return ""
    kind = tree["type_expr"]
    return "" if kind.get("children") else str(kind.get("type_name", "")).lower()


def _kind(tree: Tree) -> str:
    return str(tree.get("literal", {}).get("kind", ""))


def _filled(tree: Any, values: Mapping[str, Tree]) -> Any:
    if isinstance(tree, list):
        return [_filled(each, values) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if is_column(tree) and tree["column_names"][0] in values:
        return copy.deepcopy(values[tree["column_names"][0]])
    return {key: _filled(each, values) for key, each in tree.items()}
