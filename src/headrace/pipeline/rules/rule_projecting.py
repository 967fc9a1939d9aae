"""SELECT: which of its columns are the key of the result, and which are its values.

A persistent query must select the key. The result of any other query has all columns as values, in order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.scope import WINDOW_COLUMNS
from headrace.pipeline.plan import Named, Project
from headrace.pipeline.rules.draft import Draft, Key
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import ColumnReference
from headrace.pipeline.statements.queries import SelectExpression


def project(draft: Draft) -> Draft:
    if not draft.is_persistent:
        values = tuple(_named(draft, item) for item in draft.items)
        _check_names(draft, values)
        return replace(draft, step=Project(input=draft.top, keys=(), values=values))
    keys, rest = [], [item for item in draft.items if not _is_bound_of_star(item)]
    for key in draft.keys:
        item = _item_of(draft, key)
        keys.append(
            Named(name=item.alias or key.name, value=replace(key.value, text=_text(item), at=item.at))
        )
        rest.remove(item)
    values = tuple(_named(draft, item) for item in rest)
    if not values:
        raise StatementError(
            "The projection has only the key, and no value columns.",
            draft.select.at,
            remedy="AS_VALUE(key) AS … copies a key into the value.",
        )
    _check_names(draft, (*keys, *values))
    return replace(draft, step=Project(input=draft.top, keys=tuple(keys), values=values))


def _is_bound_of_star(item: SelectExpression) -> bool:
    """They are part of the key, and would be duplicated in the value."""
    expression = item.expression
    is_bound = isinstance(expression, ColumnReference) and expression.name in WINDOW_COLUMNS
    return is_bound and item.alias in WINDOW_COLUMNS


def _text(item: SelectExpression) -> str:
    return expression_text(item.expression)


def _named(draft: Draft, item: SelectExpression) -> Named:
    assert item.alias is not None
    return Named(name=item.alias, value=compiled(item.expression, draft.scope.within("SELECT")))


def _item_of(draft: Draft, key: Key) -> SelectExpression:
    """The column that is this key; if several expressions could be, the first one selected."""
    for expression in key.expressions:
        found = [item for item in draft.items if item.expression == expression]
        if len(found) > 1:
            names = " and ".join(written(item.alias or "") for item in found)
            raise StatementError(
                f"The key {expression_text(expression)} is in the projection more than once, as {names}.",
                found[1].at,
                remedy="AS_VALUE(key) AS … copies a key into the value.",
            )
        if found:
            return found[0]
    raise _missing(draft)


def _missing(draft: Draft) -> StatementError:
    if draft.key_origin == "join expression":
        expressions = [expression_text(each) for each in draft.keys[0].expressions]
        listed = " or ".join(expressions)
        made = (
            f" The join made {listed}, as no column of its sources is its key." if draft.has_made_key else ""
        )
        return StatementError(
            f"The key is missing from the projection: it must have {listed}.{made}",
            draft.select.at,
            remedy=f"SELECT {expressions[0]}, ….",
        )
    selected = [item.expression for item in draft.items]
    expressions = [
        expression_text(each)
        for key in draft.keys
        for each in key.expressions
        if draft.key_origin == "key column" or each not in selected
    ]
    plural = "s" if len(expressions) > 1 else ""
    return StatementError(
        f"The key is missing from the projection: it must have the {draft.key_origin}{plural} "
        f"{' and '.join(expressions)}.",
        draft.select.at,
        remedy=f"SELECT {', '.join(expressions)}, ….",
    )


def _check_names(draft: Draft, columns: tuple[Named, ...]) -> None:
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            second = [column for column in columns if column.name == name][1]
            raise StatementError(
                f"The result has {count} columns named {written(name)}.",
                second.value.at if second.value.at.line else draft.select.at,
                remedy="Rename with AS.",
            )
