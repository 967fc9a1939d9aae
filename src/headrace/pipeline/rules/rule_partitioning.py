"""PARTITION BY: new keys, computed from the source's columns. `PARTITION BY NULL` removes the key."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.scope import Visible
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.plan import Named, Rekey, Repartition
from headrace.pipeline.rules.draft import Draft, Key, StarColumn
from headrace.pipeline.rules.key_types import check_key_type
from headrace.pipeline.rules.names import Names
from headrace.pipeline.statements.expressions import ColumnReference, Expression, NullLiteral


def partition(draft: Draft) -> Draft:
    expressions = draft.select.partition_by
    if not expressions:
        return draft
    if isinstance(expressions[0], NullLiteral):
        step = Rekey(input=draft.top, keys=())
        return replace(
            draft,
            step=step,
            keys=(),
            key_origin="partitioning expression",
            has_made_key=False,
            stars=_stars(draft, ()),
        )
    names = Names(column.name for read in draft.reads for column in read.source.columns)
    named = []
    for expression in expressions:
        value = compiled(expression, draft.scope.within("PARTITION BY"))
        name = _name(draft, expression, names)
        check_key_type(name, value.type, expression.at)
        named.append(Named(name=name, value=value))
    keys = tuple(
        Key(name=each.name, expressions=(expression,), value=_own(each))
        for expression, each in zip(expressions, named, strict=True)
    )
    computed = {
        expression: Visible(name=each.name, source=None, spark=spark_name(each.name), type=each.value.type)
        for expression, each in zip(expressions, named, strict=True)
    }
    return replace(
        draft,
        step=Rekey(input=draft.top, keys=tuple(named)),
        scope=draft.scope.having(computed=computed),
        keys=keys,
        key_origin="partitioning expression",
        has_made_key=False,
        stars=_stars(draft, tuple(zip(expressions, (each.name for each in named), strict=True))),
        repartition=Repartition.LEFT,
    )


def _name(draft: Draft, expression: Expression, names: Names) -> str:
    if not isinstance(expression, ColumnReference):
        return names.name_for(expression)
    if draft.is_join and expression.source is not None:
        return f"{expression.source}_{expression.name}"
    return expression.name


def _own(key: Named) -> Computed:
    return replace(key.value, spark=spark_name(key.name))


def _stars(draft: Draft, new: tuple[tuple[Expression, str], ...]) -> tuple[StarColumn, ...]:
    """The new keys come first; the former keys become values, at the end."""
    taken = [expression for expression, _ in new]
    before = {expression for key in draft.keys for expression in key.expressions}
    others = [star for star in draft.stars if star.expression not in taken]
    made = [
        StarColumn(name=name, expression=expression, source=draft.reads[0].alias) for expression, name in new
    ]
    if draft.is_join:
        return (*made, *others)
    values = [star for star in others if star.expression not in before]
    return (*made, *values, *(star for star in others if star.expression in before))
