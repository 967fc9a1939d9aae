"""One statement of DuckDB's SQL as Spark's: `translate`. Pure.

Invariants: nothing is sent to Spark that has not a rule of its own in this folder; what the engines answer
differently is refused with the reason; the kinds of the answer's columns are those that DuckDB says. Never
runs anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace.query.spark.kinds import Kind, differs, kind_of
from headrace.query.spark.queries import Queries
from headrace.query.spark.reading import read, resolved

Tables = Mapping[str, Mapping[str, str]]


def translate(statement: str, parameters: Sequence[object], tables: Tables, types: Sequence[str]) -> str:
    """Spark's SQL. `tables` has the DuckDB types of their columns, `types` those of the answer.

    Raises HeadraceError.
    """
    folded = {
        table.casefold(): {column.casefold(): kind for column, kind in columns.items()}
        for table, columns in tables.items()
    }
    tree = with_parameters(read(statement), parameters)
    kinds = {
        table: {column: kind_of(kind) for column, kind in columns.items()}
        for table, columns in folded.items()
    }
    try:
        sql, columns = Queries(kinds).query(resolved(tree, folded))
    except RecursionError as error:
        raise differs("it is nested too deeply", "its tree cannot be walked") from error
    expected = [kind_of(kind) for kind in types]
    found = [kind for _, kind in columns]
    if len(found) != len(expected):
        raise differs("its columns", f"DuckDB finds {len(expected)}, the translation {len(found)}")
    if Kind.INTERVAL in found:
        raise differs("its columns", "intervals are not returned")
    for number, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if wanted is not got and got is not Kind.NULL:
            raise differs(
                f"column {number + 1}", f"for DuckDB it is {wanted.value}, after the translation {got.value}"
            )
    return sql


def with_parameters(tree: exp.Expr, parameters: Sequence[object]) -> exp.Expr:
    """Literals instead of `?` and `$1`."""
    nodes = list(tree.find_all(exp.Placeholder, exp.Parameter))
    places = sorted(int(node.name[1:]) for node in nodes if node.name.startswith("?"))
    for node in nodes:
        number = node.name
        if number.startswith("?"):
            number = str(places.index(int(number[1:])) + 1)
        if not number.isdigit() or not 1 <= int(number) <= len(parameters):
            raise differs(f"the parameter `{number[:30]}`", f"there are {len(parameters)}")
        node.replace(_literal(parameters[int(number) - 1]))
    return tree


def _literal(value: Any) -> exp.Expr:
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            literal: exp.Expr = exp.Literal.number(abs(value))
            return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal
        case float():
            literal = exp.Literal.number(f"{abs(value):e}")
            return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal
        case str():
            return exp.Literal.string(value)
    raise differs("a parameter", "only texts, numbers, truth values and NULL are translated")
