"""GROUP BY: aggregates, their windows, and HAVING.

After it only the groups, the aggregates and the bounds of windows exist; SELECT and HAVING can use nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.pipeline.expressions.calls import calls_of, resolved_call
from headrace.pipeline.expressions.compiling import compiled, condition, typed
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.scope import WINDOW_COLUMNS, Scope, Visible
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.plan import Aggregate, AggregateCall, Filter, Named, Repartition
from headrace.pipeline.rules.draft import Draft, Key
from headrace.pipeline.rules.grouping_checks import check_grouping
from headrace.pipeline.rules.key_types import check_key_type
from headrace.pipeline.rules.names import Names
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import (
    ColumnReference,
    Expression,
    FunctionCall,
)
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import BIGINT

_BOUNDS: Final = tuple(
    Visible(name=name, source=None, spark=spark_name(name), type=BIGINT) for name in WINDOW_COLUMNS
)


def group(draft: Draft) -> Draft:
    select = draft.select
    calls = dict.fromkeys(call for each in _results(draft) for call in calls_of(FunctionKind.AGGREGATE, each))
    if not select.group_by and not calls:
        if select.window is not None:
            raise StatementError("WINDOW needs GROUP BY.", select.window.at)
        return draft
    check_grouping(draft, tuple(calls))
    keys = _keys(draft)
    aggregates = tuple(_aggregate(draft, number, call) for number, call in enumerate(calls))
    step = Aggregate(
        input=draft.top,
        keys=keys,
        calls=aggregates,
        window=select.window,
        repartition=_moved(draft),
    )
    computed = dict(_computed(select.group_by, keys, tuple(calls), aggregates))
    bounds = _BOUNDS if select.window is not None else ()
    scope = Scope(columns=bounds, computed=computed, types=draft.scope.types)
    new = replace(
        draft,
        step=step,
        kind=SourceKind.TABLE,
        scope=scope,
        key_origin="grouping expression",
        has_made_key=False,
        keys=tuple(
            Key(
                name=key.name, expressions=(expression,), value=replace(key.value, spark=spark_name(key.name))
            )
            for expression, key in zip(select.group_by, keys, strict=True)
        ),
        repartition=step.repartition,
    )
    if select.having is None:
        return new
    kept = condition(select.having, scope.within("HAVING"))
    return replace(new, step=Filter(input=step, condition=kept))


def _results(draft: Draft) -> Iterator[Expression]:
    for item in draft.items:
        yield item.expression
    if draft.select.having is not None:
        yield draft.select.having


def _keys(draft: Draft) -> tuple[Named, ...]:
    names = Names(column.name for column in draft.scope.columns)
    keys: list[Named] = []
    for expression in draft.select.group_by:
        value = compiled(expression, draft.scope.within("GROUP BY"))
        name = _name(draft, expression, names)
        check_key_type(name, value.type, expression.at)
        if any(key.name == name for key in keys):
            raise StatementError(
                f"Two groups are named {name}.", expression.at, remedy="Rename one with AS in SELECT."
            )
        keys.append(Named(name=name, value=value))
    return tuple(keys)


def _name(draft: Draft, expression: Expression, names: Names) -> str:
    for item in draft.items:
        if item.expression == expression and item.alias is not None:
            return item.alias
    if isinstance(expression, ColumnReference):
        return expression.name
    return names.name_for(expression)


def _aggregate(draft: Draft, number: int, call: FunctionCall) -> AggregateCall:
    spark, data_type, _ = resolved_call(call, draft.scope, typed)
    assert data_type is not None
    value = Computed(text=expression_text(call), spark=spark, type=data_type, at=call.at)
    return AggregateCall(name=f"KSQL_AGG_VARIABLE_{number}", value=value)


def _computed(
    groups: tuple[Expression, ...],
    keys: tuple[Named, ...],
    calls: tuple[FunctionCall, ...],
    aggregates: tuple[AggregateCall, ...],
) -> Iterator[tuple[Expression, Visible]]:
    named: list[tuple[Expression, Named | AggregateCall]] = [
        *zip(groups, keys, strict=True),
        *zip(calls, aggregates, strict=True),
    ]
    for expression, given in named:
        visible = Visible(name=given.name, source=None, spark=spark_name(given.name), type=given.value.type)
        yield expression, visible


def _moved(draft: Draft) -> Repartition:
    """Rows need not move if the groups are exactly the key."""
    wanted = draft.select.group_by
    own = len(wanted) == len(draft.keys) and all(
        expression in key.expressions for expression, key in zip(wanted, draft.keys, strict=True)
    )
    return Repartition.NONE if own else Repartition.LEFT
