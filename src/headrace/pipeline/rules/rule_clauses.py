"""Which clauses go together, and with which kinds of source and query."""

from __future__ import annotations

from headrace.pipeline.expressions.scope import SYSTEM_COLUMNS
from headrace.pipeline.plan import PlanKind
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import ColumnReference, NullLiteral
from headrace.pipeline.statements.queries import Emit, Select, SelectExpression
from headrace.pipeline.statements.tree import SourceKind


def check_clauses(draft: Draft) -> Draft:
    if draft.plan_kind is PlanKind.PULL:
        _check_pull(draft.select)
    _check_grouping(draft.select)
    _check_partitioning(draft)
    for item in draft.select.items:
        if isinstance(item, SelectExpression):
            _check_name(draft, item)
    return draft


def _check_pull(select: Select) -> None:
    clauses = {
        "JOIN": select.joins,
        "WINDOW": select.window,
        "GROUP BY": select.group_by,
        "PARTITION BY": select.partition_by,
        "HAVING": select.having,
    }
    for clause, there in clauses.items():
        if there:
            raise StatementError(
                f"A query of what is there now (a pull query) cannot have {clause}.",
                select.at,
                remedy="EMIT CHANGES makes it a query that goes on.",
            )


def _check_grouping(select: Select) -> None:
    if not select.group_by and select.having is not None:
        raise StatementError("HAVING needs GROUP BY.", select.having.at, remedy="WHERE filters rows.")
    if select.group_by and select.partition_by:
        raise StatementError(
            "GROUP BY and PARTITION BY cannot stand in one query.", select.partition_by[0].at
        )
    if select.emit is Emit.FINAL and (select.window is None or not select.group_by):
        raise StatementError(
            "EMIT FINAL is for windowed aggregations.",
            select.at,
            remedy="Give the query a WINDOW and GROUP BY, or say EMIT CHANGES.",
        )


def _check_partitioning(draft: Draft) -> None:
    keys = draft.select.partition_by
    if not keys:
        return
    if draft.kind is SourceKind.TABLE:
        raise StatementError("A table cannot be partitioned anew: PARTITION BY is for streams.", keys[0].at)
    if len(keys) > 1 and any(isinstance(key, NullLiteral) for key in keys):
        raise StatementError("PARTITION BY NULL stands alone.", keys[0].at)


def _check_name(draft: Draft, item: SelectExpression) -> None:
    """Names of pseudo-columns cannot be given, and in a sink they cannot be."""
    expression = item.expression
    name = item.alias
    own = expression.name if isinstance(expression, ColumnReference) else None
    if name in SYSTEM_COLUMNS and name != own:
        raise StatementError(f"{name} is a reserved name: no column can be called so.", item.at)
    # Both sides of a join have them: there the alias of the side comes before the name.
    is_kept = name == own or (name is None and not draft.is_join)
    if draft.is_persistent and own in SYSTEM_COLUMNS and is_kept:
        raise StatementError(
            f"{written(own)} is a reserved name: the result cannot have a column of that name.",
            item.at,
            remedy=f"Give it another: {own} AS ….",
        )
