"""Table functions in SELECT, which make several rows of one, in a step before the projection."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.expressions.calls import calls_of, resolved_call
from headrace.pipeline.expressions.compiling import computed, typed
from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.scope import Visible
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.expressions.walking import walk
from headrace.pipeline.plan import Explode, Named
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import Case, Expression, FunctionCall
from headrace.pipeline.statements.tree import SourceKind


def explode(draft: Draft) -> Draft:
    calls: dict[FunctionCall, None] = {}
    for item in draft.items:
        found = calls_of(FunctionKind.TABLE, item.expression)
        _check(draft, item.expression, found)
        calls.update(dict.fromkeys(found))
    if not calls:
        return draft
    functions = []
    made: dict[Expression, Visible] = {}
    for number, call in enumerate(calls):
        name = f"KSQL_SYNTH_{number}"
        value = resolved_call(call, draft.scope, typed)
        assert value.type is not None
        functions.append(Named(name=name, value=computed(call, value, value.type)))
        made[call] = Visible(name=name, source=None, spark=spark_name(name), type=value.type)
    step = Explode(input=draft.top, functions=tuple(functions))
    return replace(draft, step=step, scope=draft.scope.having(computed=made))


def _check(draft: Draft, expression: Expression, calls: tuple[FunctionCall, ...]) -> None:
    if not calls:
        return
    first = calls[0]
    if draft.kind is SourceKind.TABLE:
        raise StatementError(
            f"{first.name} makes several rows of one, which is only possible for streams.", first.at
        )
    if draft.select.group_by or calls_of(FunctionKind.AGGREGATE, expression):
        raise StatementError(
            f"{first.name} makes several rows of one, so it cannot be in an aggregation.", first.at
        )
    for call in calls:
        for argument in call.arguments:
            if inner := calls_of(FunctionKind.TABLE, argument):
                raise StatementError(f"{inner[0].name} cannot be inside {call.name}.", inner[0].at)
    for node in walk(expression):
        if isinstance(node, Case) and calls_of(FunctionKind.TABLE, node):
            raise StatementError(
                f"{first.name} makes several rows of one, so it cannot be in CASE.", first.at
            )
