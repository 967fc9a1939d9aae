"""sqlglot reads a statement as DuckDB does: with brackets everywhere, DuckDB makes the same tree of it."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import duckdb
from sqlglot import exp

from headrace.core.errors import HeadraceError
from headrace.query.spark.reading import read

BETWEEN_TWO = (
    "+", "-", "*", "/", "//", "%", "^", "**", "||", "=", "<>", "<", ">=", "AND", "OR", "IS DISTINCT FROM",
    "BETWEEN 1 AND",
)  # fmt: skip
BEHIND = (
    "IS NULL",
    "IS NOT NULL",
    "IN (1, 2)",
    "NOT IN (1, 2)",
    "LIKE 'x'",
    "NOT LIKE 'x'",
    "IS TRUE",
    "::INT",
)
# Here the two differ; the translation refuses it, since a truth value is no number and no text.
REFUSED_BY_TYPE = re.compile(r"(TRUE|NULL) *(\*\*|[-+*/%^]|::|\|\|)")
OPERATIONS = (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In, exp.Is)


def test_precedence_is_duckdbs() -> None:
    connection = duckdb.connect()
    chance = random.Random(30)
    compared = 0
    while compared < 1500:
        statement = f"SELECT {_expression(chance)} FROM t"
        expected = _tree(connection, statement)
        if expected is None or REFUSED_BY_TYPE.search(statement):
            continue
        try:
            tree = read(statement)
        except HeadraceError:
            continue
        compared += 1
        bracketed = _bracketed(tree).sql(dialect="duckdb")
        assert _tree(connection, bracketed) == expected, (statement, bracketed)


def _expression(chance: random.Random) -> str:
    text = f"{chance.choice(('', '- ', 'NOT '))}a"
    for name in "bcd"[: chance.randint(2, 3)]:
        if chance.random() < 0.35:
            text += f" {chance.choice(BEHIND)}"
        else:
            text += f" {chance.choice(BETWEEN_TWO)} {chance.choice(('', '', '- '))}{name}"
    return text


def _bracketed(tree: exp.Expr) -> exp.Expr:
    for node in [each for each in tree.walk() if isinstance(each, OPERATIONS)]:
        parent, place, index = node.parent, str(node.arg_key), node.index
        if parent is None or isinstance(parent, exp.Paren):
            continue
        brackets = exp.Paren(this=node)
        if index is None:
            parent.set(place, brackets)
        else:
            listed = list(parent.args[place])
            listed[index] = brackets
            parent.set(place, listed)
    return tree


def _tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Any:
    rows = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [statement]).fetchall()
    content = json.loads(rows[0][0])
    return None if content["error"] else _plain(content["statements"])


def _plain(tree: Any) -> Any:
    """Without places and names, and with one form for what has two."""
    if isinstance(tree, list):
        return [_plain(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    kind = tree.get("type")
    if tree.get("function_name") in ("**", "^", "pow", "power"):
        return {"power": _plain(tree.get("arguments", tree.get("children")))}
    plain = {
        name: _plain(value)
        for name, value in tree.items()
        if name not in ("query_location", "query_location_length", "alias")
    }
    match kind:
        case "OPERATOR_IS_NOT_NULL":
            plain = {"not": {"is null": plain["children"]}}
        case "OPERATOR_IS_NULL":
            plain = {"is null": plain["children"]}
        case "OPERATOR_NOT":
            plain = {"not": plain["children"][0]}
        case "COMPARE_NOT_IN":
            plain = {"not": {**plain, "type": "COMPARE_IN"}}
        case "CONJUNCTION_AND" | "CONJUNCTION_OR":
            parts = [
                part
                for each in plain["children"]
                for part in (each["children"] if each.get("type") == kind else [each])
            ]
            plain = {"type": kind, "children": parts}
    return plain
