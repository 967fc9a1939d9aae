"""Which clauses can be combined, and with which kinds of source and query."""

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
                f"A pull query cannot have {clause}.",
                select.at,
                remedy="Add EMIT CHANGES to make it a push query.",
            )


def _check_grouping(select: Select) -> None:
    if not select.group_by and select.having is not None:
        raise StatementError("HAVING needs GROUP BY.", select.having.at, remedy="WHERE filters rows.")
    if select.group_by and select.partition_by:
        raise StatementError("A query cannot have both GROUP BY and PARTITION BY.", select.partition_by[0].at)
    if select.emit is Emit.FINAL and (select.window is None or not select.group_by):
        raise StatementError(
            "EMIT FINAL is only for windowed aggregations.",
            select.at,
            remedy="Add WINDOW and GROUP BY, or use EMIT CHANGES.",
        )


def _check_partitioning(draft: Draft) -> None:
    keys = draft.select.partition_by
    if not keys:
        return
    if draft.kind is SourceKind.TABLE:
        raise StatementError("PARTITION BY is only for streams, not for tables.", keys[0].at)
    if len(keys) > 1 and any(isinstance(key, NullLiteral) for key in keys):
        raise StatementError("PARTITION BY NULL cannot have other columns.", keys[0].at)


def _check_name(draft: Draft, item: SelectExpression) -> None:
    """Columns cannot have the names of pseudo-columns, least of all in a sink."""
    expression = item.expression
    name = item.alias
    own = expression.name if isinstance(expression, ColumnReference) else None
    if name is not None and name.upper() in SYSTEM_COLUMNS and name != own:
        raise StatementError(f"{name} is a reserved name, which columns cannot have.", item.at)
    # Both sides of a join have them, so there the names are prefixed with the alias.
    is_kept = name == own or (name is None and not draft.is_join)
    if draft.is_persistent and own in SYSTEM_COLUMNS and is_kept:
        raise StatementError(
            f"{written(own)} is a reserved name, which columns of the result cannot have.",
            item.at,
            remedy=f"Give it another name: {own} AS ….",
        )
