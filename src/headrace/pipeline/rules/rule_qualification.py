"""Adds its source to each column reference, and refuses references that belong to no source.

In a query of one source, references have no source instead, so that equal references are equal.

Two kinds of names stay without a source, because later steps make them: the key of a join (ROWKEY…), and the
bounds of the windows of this query.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.pipeline.expressions.scope import WINDOW_COLUMNS, unknown_column
from headrace.pipeline.expressions.walking import changed
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import ColumnReference, Expression, Lambda, Node
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Select, SelectExpression, SelectItem, Star, StructStar
from headrace.pipeline.statements.suggestions import did_you_mean

_MADE_KEY: Final = re.compile(r"ROWKEY(_\d+)?")


def qualify(draft: Draft) -> Draft:
    select = draft.select
    joins = tuple(replace(join, on=_qualified(draft, join.on, "JOIN ON")) for join in select.joins)
    where = None if select.where is None else _qualified(draft, select.where, "WHERE")
    having = None if select.having is None else _qualified(draft, select.having, "HAVING")
    new: Select = replace(
        select,
        joins=joins,
        where=where,
        having=having,
        group_by=tuple(_qualified(draft, each, "GROUP BY") for each in select.group_by),
        partition_by=tuple(_qualified(draft, each, "PARTITION BY") for each in select.partition_by),
        items=tuple(_item(draft, item) for item in select.items),
    )
    return replace(draft, select=new)


def _item(draft: Draft, item: SelectItem) -> SelectItem:
    match item:
        case Star(source=None):
            return item
        case Star(source=str(source)):
            _check_alias(draft, source, item.at)
            return item
        case StructStar():
            return replace(item, base=_qualified(draft, item.base, "SELECT"))
        case SelectExpression():
            return replace(item, expression=_qualified(draft, item.expression, "SELECT"))
        case _:
            raise AssertionError(item)


def _qualified(draft: Draft, expression: Expression, clause: str) -> Expression:
    return changed(expression, partial(_column, draft, clause))


def _column(draft: Draft, clause: str, node: Node) -> Node | None:
    if isinstance(node, Lambda):
        _check_parameters(draft, node)
    if not isinstance(node, ColumnReference):
        return None
    if node.source is not None:
        _check_alias(draft, node.source, node.at)
    columns = draft.scope.columns
    found = [each for each in columns if each.name == node.name and node.source in (None, each.source)]
    if len(found) > 1:
        choice = " or ".join(each.reference for each in found)
        raise StatementError(
            f"{clause} column {written(node.name)} is ambiguous.", node.at, remedy=f"It could be {choice}."
        )
    if found:
        # One normal form: without the source if there is only one.
        return replace(node, source=found[0].source if draft.is_join else None)
    if _comes_later(draft, clause, node):
        return replace(node, source=None)
    error = unknown_column(node, clause, columns)
    if clause == "PARTITION BY":
        error.remedy = f"PARTITION BY uses columns of the source. {error.remedy}"
    raise error


def _comes_later(draft: Draft, clause: str, node: ColumnReference) -> bool:
    if draft.is_join:
        return node.source is None and clause == "SELECT" and bool(_MADE_KEY.fullmatch(node.name))
    return draft.select.window is not None and node.name in WINDOW_COLUMNS


def _check_alias(draft: Draft, alias: str, at: Position) -> None:
    aliases = [read.alias for read in draft.reads]
    if alias not in aliases:
        hint = did_you_mean(alias, aliases) or f"There are {', '.join(written(each) for each in aliases)}."
        raise StatementError(
            f"{written(alias)} is not a stream, table or alias in this query.", at, remedy=hint.strip()
        )


def _check_parameters(draft: Draft, node: Lambda) -> None:
    columns = {column.name for column in draft.scope.columns}
    for parameter in node.parameters:
        if parameter in columns:
            raise StatementError(
                f"{written(parameter)} is a column, so the parameter of the lambda needs another name.",
                node.at,
            )
