"""The items of SELECT as one list of named expressions: stars become columns, and all get names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.pipeline.expressions.compiling import typed
from headrace.pipeline.expressions.literals import type_name
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.rules.names import Names
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import ColumnReference, Expression, FieldAccess
from headrace.pipeline.statements.queries import SelectExpression, SelectItem, Star, StructStar
from headrace.pipeline.statements.types import StructType


def list_items(draft: Draft) -> Draft:
    sources = [read.source for read in draft.reads]
    taken = [column.name for source in sources for column in source.columns]
    names = Names([*taken, *(column.name for source in sources for column in source.headers)])
    items = tuple(each for item in draft.select.items for each in _listed(draft, item, names))
    return replace(draft, items=items)


def _listed(draft: Draft, item: SelectItem, names: Names) -> Iterator[SelectExpression]:
    match item:
        case Star():
            for star in draft.stars:
                if item.source in (None, star.source):
                    yield SelectExpression(replace(star.expression, at=item.at), star.name, at=item.at)
        case StructStar():
            for field in _struct(draft, item.base).fields:
                yield SelectExpression(FieldAccess(item.base, field.name, at=item.at), field.name, at=item.at)
        case SelectExpression():
            alias = item.alias or _name(draft, item.expression, names)
            yield replace(item, alias=alias)


def _struct(draft: Draft, base: Expression) -> StructType:
    data_type = typed(base, draft.scope).type
    if not isinstance(data_type, StructType):
        raise StatementError(
            f"{expression_text(base)} is {type_name(data_type)}, not STRUCT, so it has no fields.", base.at
        )
    return data_type


def _name(draft: Draft, expression: Expression, names: Names) -> str:
    if not isinstance(expression, ColumnReference):
        return names.name_for(expression)
    if expression.source is not None and _is_in_several(draft, expression.name):
        return f"{expression.source}_{expression.name}"
    return expression.name


def _is_in_several(draft: Draft, name: str) -> bool:
    return len({column.source for column in draft.scope.columns if column.name == name}) > 1
