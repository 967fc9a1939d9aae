"""What names mean inside a query: its tables and subqueries with their columns, and the queries around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from headrace.query.druid.errors import DruidSqlError, Place, place_in
from headrace.query.druid.kinds import Kind
from headrace.query.druid.tables import TIME

_MOST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table or subquery in FROM. `columns` are by folded name; None if they are not known."""

    alias: str
    columns: Mapping[str, Kind] | None

    def has(self, name: str) -> bool:
        return self.columns is None or name.casefold() in self.columns


@dataclass(slots=True, kw_only=True)
class Scope:
    """The sources of one query, in their order. `aliases` are the names that its SELECT gives."""

    outer: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    aliases: dict[str, Kind] = field(default_factory=dict)

    def source(self, alias: str) -> Source | None:
        for each in self.sources:
            if each.alias.casefold() == alias.casefold():
                return each
        return self.outer.source(alias) if self.outer is not None else None

    def kind_of(self, name: str) -> Kind | None:
        """The kind of an unqualified column; None if there is none of that name."""
        folded = name.casefold()
        for each in self.sources:
            if each.columns is not None and folded in each.columns:
                return each.columns[folded]
        if folded in self.aliases:
            return self.aliases[folded]
        if any(each.columns is None for each in self.sources):
            return Kind.UNKNOWN
        return self.outer.kind_of(name) if self.outer is not None else None

    def time_for(self, tree: exp.Expr) -> exp.Expr | None:
        """The `__time` of the table that an expression's columns are from."""
        qualifier = next((column.table for column in tree.find_all(exp.Column) if column.table), "")
        candidates = [
            each
            for each in self.sources
            if each.has(TIME) and (not qualifier or each.alias.casefold() == qualifier.casefold())
        ]
        if not candidates:
            return None
        table = candidates[0].alias
        return exp.column(TIME, table=table, quoted=True) if table else exp.column(TIME, quoted=True)


def place_of(tree: exp.Expr, statement: str) -> Place | None:
    """Where an expression begins, as far as the parser has noted it."""
    for node in tree.walk():
        start = node.meta.get("start")
        if isinstance(start, int):
            return place_in(statement, start)
    return None


def no_such_column(column: exp.Column, statement: str) -> DruidSqlError:
    name, table = column.name[:_MOST_SHOWN], column.table[:_MOST_SHOWN]
    where = f"table '{table}'" if table else "any table"
    return DruidSqlError(f"Column '{name}' not found in {where}", place=place_of(column.this, statement))


def no_such_table(name: str, place: Place | None, known: list[str]) -> DruidSqlError:
    remedy = f"There are: {', '.join(known[:20])}." if known else "The lake has no tables yet."
    return DruidSqlError(f"Object '{name[:_MOST_SHOWN]}' not found", place=place, remedy=remedy)
