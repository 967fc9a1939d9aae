"""Translates queries: which tables they read, what their columns are, and their clauses in the right scope.

A table of the lake becomes a subquery that adds `__time`. A name in FROM is a table of the lake, of
INFORMATION_SCHEMA or sys, or of a WITH clause; anything else is an error, so no file, function or catalogue
of DuckDB's is within reach. Invariants: a clause without a rule is an error; every unnamed column gets
Druid's name for it, `EXPR$0` with the column's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Context
from headrace.query.druid.dialect import put, verbatim
from headrace.query.druid.errors import DruidSqlError
from headrace.query.druid.expressions import Expressions, unsupported
from headrace.query.druid.kinds import BIGINT, DATE, INSTANT, Kind, column_type
from headrace.query.druid.schema import SYSTEM_SCHEMAS, Catalogue
from headrace.query.druid.scopes import Scope, Source, no_such_table, place_of
from headrace.query.druid.tables import TIME, DruidTable
from headrace.query.snapshots import quoted
from headrace.query.statement_tables.plan import TABLE_SCHEMA
from headrace.query.topic_tables.plan import TOPIC_SCHEMA

DATASOURCES: Final = "druid"

_SELECT_PARTS: Final = frozenset({
    "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "windows", "order",
    "limit", "offset",
})  # fmt: skip
_SET_PARTS: Final = frozenset({"with_", "this", "expression", "distinct", "order", "limit", "offset"})
_SUBQUERY_PARTS: Final = frozenset({"with_", "this", "alias", "order", "limit", "offset"})
_TABLE_PARTS: Final = frozenset({"this", "alias", "db", "catalog"})
_JOIN_PARTS: Final = frozenset({"this", "on", "side", "kind", "using", "method"})
_UNNEST_PARTS: Final = frozenset({"expressions", "alias"})
_CLAUSES: Final = ("where", "group", "having", "windows")

# Names in their order with their kinds; None if a source's columns are not known.
Columns = list[tuple[str, Kind]] | None


class Queries:
    """One statement's queries. `read` are the tables of the lake that they name."""

    def __init__(
        self, statement: str, tables: Sequence[DruidTable], catalogue: Catalogue, context: Context
    ) -> None:
        self._statement = statement
        self._tables = {table.name.casefold(): table for table in tables}
        self._catalogue = catalogue
        self._expressions = Expressions(statement, context, self._scalar)
        self._shared: list[dict[str, Columns]] = []
        self.read: set[str] = set()

    def translate(self, query: exp.Expr, outer: Scope | None = None) -> Columns:
        """Translate a query in place; its columns. Raises DruidSqlError."""
        self._shared.append(self._with(query, outer))
        try:
            match query:
                case exp.Select():
                    return self._select(query, outer)
                case exp.SetOperation():
                    return self._set_operation(query, outer)
                case exp.Subquery():
                    return self._subquery(query, outer)
                case _:
                    raise unsupported(query, self._statement)
        finally:
            self._shared.pop()

    def _scalar(self, query: exp.Expr, scope: Scope) -> Kind:
        columns = self.translate(query, scope)
        return columns[0][1] if columns else Kind.UNKNOWN

    def _with(self, query: exp.Expr, outer: Scope | None) -> dict[str, Columns]:
        named: dict[str, Columns] = {}
        clause = query.args.get("with_")
        if clause is None:
            return named
        if clause.args.get("recursive"):
            raise DruidSqlError("WITH RECURSIVE is not supported", place=place_of(clause, self._statement))
        self._shared.append(named)
        try:
            for each in clause.expressions:
                self._check_parts(each, frozenset({"this", "alias"}))
                named[each.alias.casefold()] = _renamed(self.translate(each.this, outer), each.args["alias"])
        finally:
            self._shared.pop()
        return named

    def _select(self, query: exp.Select, outer: Scope | None) -> Columns:
        self._check_parts(query, _SELECT_PARTS)
        scope = Scope(outer=outer)
        if query.args.get("from_") is not None:
            self._source(query.args["from_"].this, scope)
        for join in query.args.get("joins") or ():
            self._join(join, scope)
        columns = self._projections(query, scope)
        scope.aliases.update({name.casefold(): kind for name, kind in columns or () if name})
        for part in _CLAUSES:
            found = query.args.get(part)
            for each in found if isinstance(found, list) else [found]:
                if each is not None:
                    self._expressions.translate(each, scope)
        self._ending(query, scope)
        return columns

    def _projections(self, query: exp.Select, scope: Scope) -> Columns:
        distinct = query.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise unsupported(distinct, self._statement)
        columns: list[tuple[str, Kind]] = []
        known = True
        for index, each in enumerate(list(query.expressions)):
            if each.is_star:
                if not isinstance(each, exp.Star | exp.Column):
                    raise unsupported(each, self._statement)
                star = each if isinstance(each, exp.Star) else each.this
                self._check_parts(star, frozenset())
                found = self._star(each, scope)
                known = known and found is not None
                columns.extend(found or ())
                continue
            kind = self._expressions.translate(each, scope)
            now = query.expressions[index]
            if not isinstance(now, exp.Alias | exp.Column):
                named = exp.Alias(alias=exp.to_identifier(f"EXPR${index}", quoted=True))
                put(named, now)
                named.set("this", now)
                now = named
            columns.append((now.alias_or_name, kind))
        return columns if known else None

    def _star(self, star: exp.Expr, scope: Scope) -> Columns:
        if not scope.sources:
            raise DruidSqlError("SELECT * needs a FROM clause", place=place_of(star, self._statement))
        sources = scope.sources
        if isinstance(star, exp.Column):
            found = scope.source(star.table)
            if found is None:
                raise no_such_table(star.table, place_of(star, self._statement), [])
            sources = [found]
        columns: list[tuple[str, Kind]] = []
        for each in sources:
            if each.columns is None:
                return None
            columns.extend(each.columns.items())
        return columns

    def _set_operation(self, query: exp.SetOperation, outer: Scope | None) -> Columns:
        """A chain of UNIONs leans to the left and can be long."""
        sides: list[exp.Expr] = []
        left: exp.Expr = query
        while isinstance(left, exp.SetOperation):
            self._check_parts(left, _SET_PARTS)
            if left is not query and left.args.get("with_") is not None:
                raise unsupported(left.args["with_"], self._statement)
            sides.append(left.expression)
            for part in ("order", "limit", "offset"):
                if left is not query and left.args.get(part) is not None:
                    raise unsupported(left.args[part], self._statement)
            left = left.this
        columns = self.translate(left, outer)
        for side in sides:
            self.translate(side, outer)
        scope = Scope(
            outer=None, sources=[Source(alias="", columns=None if columns is None else _folded(columns))]
        )
        self._ending(query, scope)
        return columns

    def _subquery(self, query: exp.Subquery, outer: Scope | None) -> Columns:
        """A query in parentheses."""
        self._check_parts(query, _SUBQUERY_PARTS)
        columns = self.translate(query.this, outer)
        alias = query.args.get("alias")
        renamed = _renamed(columns, alias) if alias is not None else columns
        scope = Scope(
            outer=None, sources=[Source(alias="", columns=None if renamed is None else _folded(renamed))]
        )
        self._ending(query, scope)
        return renamed

    def _ending(self, query: exp.Expr, scope: Scope) -> None:
        for part in ("order", "limit", "offset"):
            found = query.args.get(part)
            if found is None:
                continue
            if part != "order" and any(
                not isinstance(
                    node, exp.Literal | exp.Limit | exp.Offset | exp.Fetch | exp.LimitOptions | exp.Var
                )
                for node in found.walk()
            ):
                raise DruidSqlError(f"{part.upper()} takes a number", place=place_of(found, self._statement))
            self._expressions.translate(found, scope)

    def _join(self, join: exp.Join, scope: Scope) -> None:
        self._check_parts(join, _JOIN_PARTS)
        self._source(join.this, scope)
        if join.args.get("on") is not None:
            self._expressions.translate(join.args["on"], scope)

    def _source(self, node: exp.Expr, scope: Scope) -> None:
        match node:
            case exp.Table():
                scope.sources.append(self._table(node))
            case exp.Subquery():
                columns = self.translate(node, scope.outer)
                scope.sources.append(
                    Source(alias=node.alias, columns=None if columns is None else _folded(columns))
                )
            case exp.Unnest():
                scope.sources.append(self._unnest(node, scope))
            case exp.Values():
                scope.sources.append(self._values(node, scope))
            case _:
                raise unsupported(node, self._statement)

    def _table(self, node: exp.Table) -> Source:
        self._check_parts(node, _TABLE_PARTS)
        place = place_of(node, self._statement)
        if not isinstance(node.this, exp.Identifier):
            raise DruidSqlError("Table functions are not supported", place=place, unsupported=True)
        name, schema = node.name, node.db
        alias = node.alias or name
        if node.args.get("alias") is not None and node.args["alias"].columns:
            raise unsupported(node.args["alias"], self._statement)
        if node.catalog and node.catalog.casefold() != DATASOURCES:
            raise no_such_table(f"{node.catalog}.{schema}.{name}", place, self._names())
        if not schema:
            for named in reversed(self._shared):
                if name.casefold() in named:
                    columns = named[name.casefold()]
                    return Source(alias=alias, columns=None if columns is None else _folded(columns))
        if schema.casefold() in SYSTEM_SCHEMAS:
            system = self._catalogue.table(schema, name)
            if system is None:
                raise no_such_table(f"{schema}.{name}", place, self._catalogue.names(schema))
            _replace(node, system.sql(), alias)
            return Source(alias=alias, columns=system.kinds())
        if schema.casefold() in (TOPIC_SCHEMA, TABLE_SCHEMA) and not node.catalog:
            # The worker finds out what their columns are.
            return Source(alias=alias, columns=None)
        table = self._tables.get(name.casefold())
        if table is None or schema.casefold() not in ("", DATASOURCES):
            raise no_such_table(f"{schema}.{name}" if schema else name, place, self._names())
        self.read.add(table.name)
        _replace(node, with_time(table), alias)
        return Source(
            alias=alias, columns={column.casefold(): kind.kind for column, kind in table.types.items()}
        )

    def _names(self) -> list[str]:
        return sorted(table.name for table in self._tables.values())

    def _unnest(self, node: exp.Unnest, scope: Scope) -> Source:
        self._check_parts(node, _UNNEST_PARTS)
        for each in list(node.expressions):
            self._expressions.translate(each, scope)
        alias = node.args.get("alias")
        columns = [column.name for column in alias.columns] if alias is not None else []
        return Source(
            alias=node.alias, columns={name.casefold(): Kind.UNKNOWN for name in columns} if columns else None
        )

    def _values(self, node: exp.Values, scope: Scope) -> Source:
        self._check_parts(node, frozenset({"expressions", "alias"}))
        kinds: list[Kind] = []
        for row in node.expressions:
            found = [self._expressions.translate(each, scope) for each in list(row.expressions)]
            kinds = kinds or found
        alias = node.args.get("alias")
        names = [column.name for column in alias.columns] if alias is not None else []
        names = names or [f"EXPR${index}" for index in range(len(kinds))]
        if alias is not None and not alias.columns:
            alias.set("columns", [exp.to_identifier(name, quoted=True) for name in names])
        return Source(alias=node.alias, columns=_folded(list(zip(names, kinds, strict=False))))

    def _check_parts(self, node: exp.Expr, allowed: frozenset[str]) -> None:
        for part, value in node.args.items():
            if value and part not in allowed:
                first = value[0] if isinstance(value, list) else value
                if isinstance(first, exp.Expr):
                    raise unsupported(first, self._statement)
                raise DruidSqlError(
                    f"{part.strip('_').upper()} is not supported here",
                    place=place_of(node, self._statement),
                    unsupported=True,
                )


def with_time(table: DruidTable) -> str:
    """A query that gives the table's columns, `__time` first."""
    names = [quoted(column.name) for column in table.columns]
    if table.time_column and table.time_column.casefold() != TIME:
        names.insert(0, f"{_time_sql(table)} AS {quoted(TIME)}")
    return f"SELECT {', '.join(names)} FROM {quoted(table.name)}"


def _time_sql(table: DruidTable) -> str:
    name = quoted(table.time_column)
    (kind,) = (column_type(each.type) for each in table.columns if each.name == table.time_column)
    if kind is INSTANT:
        return name
    if kind is BIGINT:
        return f"make_timestamp_ms({name})"
    if kind is DATE:
        return f"CAST({name} AS TIMESTAMP)"
    return f"timezone('UTC', TRY_CAST({name} AS TIMESTAMPTZ))" if kind.sql == "VARCHAR" else name


def _replace(node: exp.Table, text: str, alias: str) -> None:
    name = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    node.replace(exp.Subquery(this=verbatim(text), alias=name))


def _renamed(columns: Columns, alias: exp.Expr) -> Columns:
    """The columns under the names of an alias: `AS t(a, b)`."""
    names = [each.name for each in alias.args.get("columns") or ()]
    if not names:
        return columns
    if columns is None:
        return [(name, Kind.UNKNOWN) for name in names]
    return list(_zipped(names, columns))


def _zipped(names: list[str], columns: list[tuple[str, Kind]]) -> Iterator[tuple[str, Kind]]:
    for index, (old, kind) in enumerate(columns):
        yield (names[index] if index < len(names) else old), kind


def _folded(columns: list[tuple[str, Kind]]) -> Mapping[str, Kind]:
    return {name.casefold(): kind for name, kind in columns}
