"""Queries of a statement as Spark's SQL: SELECT, set operations, WITH. Any other part of a query is refused.

Invariants: each column of a query has a name, and its kind is known; NULLs are sorted where the statement
says, which Spark is told for every key; nothing is read but the tables that are given. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlglot import exp

from headrace.query.spark.expressions import Columns, Expressions, Scope, has_aggregate, only
from headrace.query.spark.kinds import ORDERED, Kind, Value, differs, name, unified
from headrace.query.spark.reading import written

# The rows of an answer that Spark sorts in memory.
MOST_SORTED: Final = 100_000
# Spark puts a common table expression in wherever it is named: thirty that name each other twice are a
# billion.
MOST_READ: Final = 64

_SIDES: Final[dict[tuple[str, str], str]] = {
    ("", ""): "JOIN", ("", "INNER"): "JOIN", ("", "CROSS"): "CROSS JOIN", ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN", ("RIGHT", ""): "RIGHT JOIN", ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN", ("FULL", "OUTER"): "FULL JOIN",
}  # fmt: skip
_OPERATIONS: Final[dict[type[exp.Expr], str]] = {
    exp.Except: "EXCEPT", exp.Intersect: "INTERSECT", exp.Union: "UNION",
}  # fmt: skip

Named = tuple[str, list[tuple[str, Kind]]]


class Queries:
    """Over these tables, by lower-case name: the kinds of their columns, by lower-case name."""

    def __init__(self, tables: Mapping[str, Columns]) -> None:
        self._tables = tables
        self._expressions = Expressions(self._inside)
        # Common table expressions that are seen at the moment.
        self._common: dict[str, Columns] = {}
        # How many tables were read so far, and how many each common table expression reads.
        self._read = 0
        self._reads: dict[str, int] = {}

    def query(self, node: exp.Expr, outer: Scope | None = None) -> Named:
        """Its SQL, and its columns. Raises HeadraceError."""
        before = dict(self._common)
        try:
            beginning = self._with(node, outer)
            match node:
                case exp.Select():
                    sql, columns = self._select(node, outer)
                case exp.SetOperation():
                    sql, columns = self._operation(node, outer)
                case exp.Subquery():
                    only(node, "this", "with_", "order", "limit", "offset")
                    sql, columns = self.query(node.this, outer)
                    tail = self._tail(node, Scope(sources={}, named=dict(columns), outer=outer))
                    sql = f"({sql}){tail}"
                case _:
                    raise differs(f"`{written(node)}`", "this kind of query is not translated")
        finally:
            self._common = before
        return f"{beginning}{sql}", columns

    def _inside(self, node: exp.Expr, scope: Scope) -> tuple[str, list[Kind]]:
        sql, columns = self.query(node, scope)
        return sql, [kind for _, kind in columns]

    def _with(self, node: exp.Expr, outer: Scope | None) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        only(clause, "expressions")
        parts = []
        for expression in clause.expressions:
            only(expression, "this", "alias", "materialized")
            alias = expression.args["alias"]
            before, self._read = self._read, 0
            sql, columns = self.query(expression.this, outer)
            self._reads[alias.name], self._read = max(1, self._read), before
            columns = _renamed(columns, alias)
            listed = ", ".join(name(each) for each, _ in columns)
            parts.append(f"{name(alias.name)} ({listed}) AS ({sql})")
            self._common[alias.name] = dict(columns)
        return f"WITH {', '.join(parts)} "

    def _select(self, node: exp.Select, outer: Scope | None) -> Named:
        only(
            node, "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having",
            "qualify", "order", "limit", "offset", "kind_",
        )  # fmt: skip
        sources: dict[str, Columns] = {}
        reading = self._from(node, sources, outer)
        scope = Scope(sources=sources, outer=outer)
        values = [
            (each.alias_or_name, self._expressions.value(each.unalias(), scope)) for each in node.expressions
        ]
        columns = [(alias, value.kind) for alias, value in values]
        shown = [f"{value.sql} AS {name(alias)}" for alias, value in values]
        distinct = node.args.get("distinct")
        if distinct is not None:
            only(distinct)
            _check_ordered("DISTINCT", columns)
        where = self._condition(node, "where", scope)
        group = self._group(node, scope)
        having = self._condition(node, "having", scope)
        named = Scope(sources=sources, named=dict(columns), outer=outer)
        qualify = node.args.get("qualify")
        beginning = f"SELECT {'DISTINCT ' if distinct is not None else ''}"
        if qualify is None:
            tail = self._tail(node, named)
            return f"{beginning}{', '.join(shown)}{reading}{where}{group}{having}{tail}", columns
        condition = self._expressions.condition(qualify.this, scope)
        if len({alias for alias, _ in columns}) < len(columns):
            raise differs("QUALIFY", "two columns have the same name")
        inner = (
            f"SELECT {', '.join(shown)}, {condition} AS `headrace qualifies`{reading}{where}{group}{having}"
        )
        outer_names = ", ".join(name(alias) for alias, _ in columns)
        # What is ordered by must be a column of the answer now.
        tail = self._tail(node, Scope(sources={}, named=dict(columns), outer=outer))
        return f"{beginning}{outer_names} FROM ({inner}) WHERE `headrace qualifies`{tail}", columns

    def _from(self, node: exp.Select, sources: dict[str, Columns], outer: Scope | None) -> str:
        clause = node.args.get("from_")
        if clause is None:
            return ""
        only(clause, "this")
        text = f" FROM {self._source(clause.this, sources, outer)}"
        for join in node.args.get("joins") or ():
            only(join, "this", "on", "side", "kind")
            how = _SIDES.get((str(join.args.get("side") or ""), str(join.args.get("kind") or "")))
            if how is None:
                raise differs(f"`{written(join)}`", "this kind of join is not translated")
            source = self._source(join.this, sources, outer)
            condition = join.args.get("on")
            if condition is None:
                if how not in ("JOIN", "CROSS JOIN"):
                    raise differs(f"`{written(join)}`", "it has no condition")
                text += f" CROSS JOIN {source}"
            else:
                scope = Scope(sources=sources, outer=outer)
                text += f" {how} {source} ON {self._expressions.condition(condition, scope)}"
        return text

    def _source(self, node: exp.Expr, sources: dict[str, Columns], outer: Scope | None) -> str:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table):
            only(node, "this", "alias")
            columns = self._common.get(node.name)
            columns = self._tables.get(node.name) if columns is None else columns
            if columns is None:
                raise differs(f"`{written(node)}`", "only tables of the lake are read")
            self._read += self._reads.get(node.name, 1) if node.name in self._common else 1
            if self._read > MOST_READ:
                raise differs("WITH", f"Spark would read tables more than {MOST_READ} times")
            sql, listed = name(node.name), list(columns.items())
        elif isinstance(node, exp.Subquery):
            only(node, "this", "alias")
            # A query in FROM does not see the tables beside it.
            text, listed = self.query(node.this, outer)
            sql = f"({text})"
        else:
            raise differs(f"`{written(node)}`", "only tables and queries are read")
        called = alias.name if alias is not None else node.name
        renamed = _renamed(listed, alias)
        if len({each for each, _ in renamed}) < len(renamed):
            raise differs(f"`{called}`", "two of its columns have the same name")
        sources[called] = dict(renamed)
        changed = f" ({', '.join(name(each) for each, _ in renamed)})" if renamed != listed else ""
        return f"{sql} AS {name(called)}{changed}"

    def _condition(self, node: exp.Expr, part: str, scope: Scope) -> str:
        clause = node.args.get(part)
        if clause is None:
            return ""
        return f" {part.upper()} {self._expressions.condition(clause.this, scope)}"

    def _group(self, node: exp.Select, scope: Scope) -> str:
        group = node.args.get("group")
        if group is None:
            return ""
        only(group, "expressions", "all")
        keys: list[exp.Expr] = list(group.expressions)
        if group.args.get("all"):
            keys = [each.unalias() for each in node.expressions if not has_aggregate(each)]
            if not keys:
                return ""
        values = [self._expressions.value(each, scope) for each in keys]
        for key, value in zip(keys, values, strict=True):
            if value.kind not in ORDERED:
                raise differs(f"GROUP BY `{written(key)}`", f"the value is {value.kind.value}")
            if isinstance(key.unnest(), exp.Literal):
                raise differs(f"GROUP BY `{written(key)}`", "Spark would take it for the number of a column")
        return f" GROUP BY {', '.join(value.sql for value in values)}"

    def _operation(self, node: exp.SetOperation, outer: Scope | None) -> Named:
        only(node, "this", "expression", "distinct", "with_", "order", "limit", "offset")
        word = _OPERATIONS.get(type(node))
        if word is None:
            raise differs(f"`{written(node)}`", "this operation is not translated")
        (left, columns), (right, others) = (
            self.query(node.this, outer),
            self.query(node.args["expression"], outer),
        )
        if len(columns) != len(others):
            raise differs(word, "its queries have different numbers of columns")
        kinds: list[Kind] = []
        for (column, kind), (_, other) in zip(columns, others, strict=True):
            pair = [Value(sql="", kind=kind), Value(sql="", kind=other)]
            (first, second), common = unified(pair, f"column `{column}` of {word}")
            if first.sql or second.sql:
                raise differs(f"column `{column}` of {word}", "its queries give different types; use CAST")
            kinds.append(common)
        distinct = bool(node.args.get("distinct"))
        named = [(column, kind) for (column, _), kind in zip(columns, kinds, strict=True)]
        if distinct or word != "UNION":
            _check_ordered(word, named)
        tail = self._tail(node, Scope(sources={}, named=dict(named), outer=outer))
        return f"({left}) {word} {'DISTINCT' if distinct else 'ALL'} ({right}){tail}", named

    def _tail(self, node: exp.Expr, scope: Scope) -> str:
        text = ""
        order = node.args.get("order")
        if order is not None:
            only(order, "expressions")
            keys = [each for given in order.expressions for each in _keys(given, scope)]
            text += " ORDER BY " + ", ".join(self._expressions.ordered(key, scope) for key in keys)
        for part, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
            clause = node.args.get(part)
            if clause is None:
                continue
            only(clause, "expression")
            number = clause.args["expression"]
            if not isinstance(number, exp.Literal) or not str(number.this).isdigit():
                raise differs(f"`{written(node)}`", f"its {word} is no plain number")
            if order is not None and int(number.this) > MOST_SORTED:
                raise differs(f"{word} {number.this}", f"Spark sorts at most {MOST_SORTED} rows of an answer")
            text += f" {word} {int(number.this)}"
        return text


def _keys(given: Any, scope: Scope) -> list[exp.Expr]:
    """ORDER BY ALL means all columns of the answer."""
    if not (isinstance(given.this, exp.Var) and given.this.name.upper() == "ALL"):
        return [given]
    return [
        exp.Ordered(
            this=exp.column(exp.to_identifier(column, quoted=True)),
            desc=given.args.get("desc"),
            nulls_first=given.args.get("nulls_first"),
        )
        for column in scope.named
    ]


def _renamed(columns: list[tuple[str, Kind]], alias: Any) -> list[tuple[str, Kind]]:
    names = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
    return [
        (names[number] if number < len(names) else column, kind)
        for number, (column, kind) in enumerate(columns)
    ]


def _check_ordered(word: str, columns: list[tuple[str, Kind]]) -> None:
    for column, kind in columns:
        if kind not in ORDERED:
            raise differs(f"{word} with the column `{column}`", f"it is {kind.value}")
