"""Checks of aggregations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.pipeline.expressions.calls import calls_of, function_of
from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.scope import WINDOW_COLUMNS
from headrace.pipeline.expressions.walking import parts, walk
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import ColumnReference, Expression, FunctionCall, Node
from headrace.pipeline.statements.tree import SourceKind

# Those that can undo a value: rows of a table change and disappear.
_FOR_TABLES: Final = frozenset(
    {
        "ATTR",
        "AVG",
        "COLLECT_LIST",
        "CORRELATION",
        "COUNT",
        "HISTOGRAM",
        "STDDEV_SAMP",
        "STDDEV_SAMPLE",
        "SUM",
        "SUM_LIST",
    }
)


def check_grouping(draft: Draft, calls: tuple[FunctionCall, ...]) -> None:
    select = draft.select
    if not select.group_by and draft.is_persistent:
        raise StatementError(
            f"{expression_text(calls[0])} needs GROUP BY.",
            calls[0].at,
            remedy="Only SELECT … EMIT CHANGES may aggregate without it.",
        )
    _check_groups(select.group_by)
    _check_calls(draft, calls)
    if not calls:
        raise StatementError(
            "GROUP BY needs an aggregate function in SELECT or HAVING.",
            select.group_by[0].at,
            remedy="COUNT(*) is one.",
        )
    for item in draft.items:
        _check_made_of_groups(draft, item.expression, "SELECT")
    if select.having is not None:
        _check_bounds(draft, select.having, "HAVING")
        _check_made_of_groups(draft, select.having, "HAVING")


def _check_groups(groups: tuple[Expression, ...]) -> None:
    for number, expression in enumerate(groups):
        if expression in groups[:number]:
            raise StatementError(f"{expression_text(expression)} is in GROUP BY twice.", expression.at)
        if found := calls_of(FunctionKind.AGGREGATE, expression):
            raise StatementError(
                f"{found[0].name} is an aggregate function, which GROUP BY cannot contain.", found[0].at
            )


def _check_calls(draft: Draft, calls: tuple[FunctionCall, ...]) -> None:
    window = draft.select.window
    for call in calls:
        for argument in call.arguments:
            if inner := calls_of(FunctionKind.AGGREGATE, argument):
                raise StatementError(
                    f"{inner[0].name} cannot be inside {call.name}: aggregates do not nest.", inner[0].at
                )
            _check_bounds(draft, argument, call.name)
    for expression in draft.select.group_by:
        _check_bounds(draft, expression, "GROUP BY")
    if draft.kind is not SourceKind.TABLE:
        return
    if window is not None:
        raise StatementError("Only streams have windows; this is a table.", window.at)
    for call in calls:
        if call.name not in _FOR_TABLES:
            raise StatementError(
                f"{call.name} cannot aggregate a table, whose rows change and disappear.",
                call.at,
            )


def _check_bounds(draft: Draft, expression: Expression, where: str) -> None:
    """Bounds of the windows that this aggregation makes."""
    if draft.select.window is None:
        return
    for node in walk(expression):
        if isinstance(node, ColumnReference) and node.source is None and node.name in WINDOW_COLUMNS:
            raise StatementError(
                f"{node.name} is known only after the aggregation: {where} cannot use it.",
                node.at,
                remedy="Use it in SELECT.",
            )


def _check_made_of_groups(draft: Draft, expression: Expression, clause: str) -> None:
    for column in _outside(draft, expression):
        raise StatementError(
            f"{expression_text(column)} in {clause} is neither in GROUP BY nor in an aggregate function.",
            column.at,
            remedy="Add it to GROUP BY, or remove it."
            if clause == "SELECT"
            else "WHERE filters rows before they are grouped.",
        )


def _outside(draft: Draft, node: Node) -> Iterator[ColumnReference]:
    """Columns that are neither in a group nor in an aggregate function."""
    if node in draft.select.group_by:
        return
    if isinstance(node, FunctionCall) and function_of(node).kind is FunctionKind.AGGREGATE:
        return
    if isinstance(node, ColumnReference):
        if draft.select.window is None or node.source is not None or node.name not in WINDOW_COLUMNS:
            yield node
        return
    for part in parts(node):
        yield from _outside(draft, part)
