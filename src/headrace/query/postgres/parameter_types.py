"""Types of parameters that a client leaves open: what the place of one shows, as PostgreSQL infers it.

Clients such as asyncpg write a parameter as the type that the server names. A parameter whose place shows
nothing is text, as in PostgreSQL. Never overrules a type that the client has declared.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlglot import expressions as exp

from headrace.query.postgres.divisions import Number, Numbers
from headrace.query.postgres.protocol import types

_BY_CAST: Final = {
    exp.DType.BIGINT: types.INT8,
    exp.DType.BOOLEAN: types.BOOL,
    exp.DType.DATE: types.DATE,
    exp.DType.DECIMAL: types.NUMERIC_TYPE,
    exp.DType.DOUBLE: types.FLOAT8,
    exp.DType.FLOAT: types.FLOAT4,
    exp.DType.INT: types.INT4,
    exp.DType.INTERVAL: types.INTERVAL,
    exp.DType.JSON: types.JSON,
    exp.DType.JSONB: types.BY_NAME["jsonb"],
    exp.DType.NAME: types.TEXT,
    exp.DType.SMALLINT: types.INT2,
    exp.DType.TEXT: types.TEXT,
    exp.DType.TIME: types.TIME,
    exp.DType.TIMESTAMP: types.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: types.TIMESTAMPTZ,
    exp.DType.UUID: types.UUID,
    exp.DType.VARBINARY: types.BYTEA,
    exp.DType.VARCHAR: types.TEXT,
}
_BY_NUMBER: Final = {Number.INTEGER: types.INT4, Number.BIGINT: types.INT8, Number.DATE: types.DATE}
_COMPARISONS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between,
    exp.Coalesce, exp.Nullif,
)  # fmt: skip
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_TIMES: Final = frozenset({types.DATE.oid, types.TIMESTAMP.oid, types.TIMESTAMPTZ.oid})


def inferred_types(tree: exp.Expr, numbers: Numbers, wanted: Collection[str]) -> dict[str, int]:
    """The oid of each parameter in `wanted` for which a place shows one."""
    found: dict[str, int] = {}
    for column in tree.find_all(exp.Column):
        if column.name in wanted and not found.get(column.name):
            found[column.name] = _type_by_place(column, numbers, wanted)
    return found


def _type_by_place(column: exp.Column, numbers: Numbers, wanted: Collection[str]) -> int:  # noqa: PLR0911
    node: exp.Expr = column
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return type_of_cast(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return types.INT8.oid
    if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike | exp.RegexpILike | exp.Lower | exp.Upper):
        return types.TEXT.oid
    if isinstance(parent, exp.Substring):
        is_pattern = parent.args.get("start") is node and parent.args.get("length") is None
        return types.TEXT.oid if is_pattern or parent.this is node else types.INT4.oid
    if isinstance(parent, exp.Select | exp.Alias):
        return types.TEXT.oid
    if isinstance(parent, exp.Any) and isinstance(parent.parent, _COMPARISONS):
        element = _type_of_others(parent.parent, parent, numbers, wanted)
        kind = types.BY_OID.get(element)
        return kind.array_oid if kind is not None else 0
    if isinstance(parent, _COMPARISONS):
        return _type_of_others(parent, node, numbers, wanted)
    if isinstance(parent, _ARITHMETIC):
        other = _type_of_others(parent, node, numbers, wanted)
        is_span = other in _TIMES and other != types.DATE.oid
        return types.INTERVAL.oid if is_span else types.INT4.oid if other == types.DATE.oid else other
    return 0


def _type_of_others(parent: exp.Expr, node: exp.Expr, numbers: Numbers, wanted: Collection[str]) -> int:
    """The type of the first other operand that has one."""
    for other in parent.iter_expressions():
        if other is not node and not (isinstance(other, exp.Column) and other.name in wanted):
            oid = type_of(other, numbers)
            if oid:
                return oid
    return 0


def type_of(expression: exp.Expr, numbers: Numbers) -> int:
    """The oid of an expression's type where the statement shows it, else 0."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if isinstance(expression, exp.Cast):
        return type_of_cast(expression.to)
    if isinstance(expression, exp.Literal) and expression.is_string:
        return types.TEXT.oid
    if isinstance(expression, exp.CurrentTimestamp):
        return types.TIMESTAMPTZ.oid
    if isinstance(expression, exp.Lower | exp.Upper | exp.Substring | exp.TimeToStr):
        return types.TEXT.oid
    column = numbers.column_oid(expression)
    if column is not None:
        return column
    kind = _BY_NUMBER.get(numbers.kind(expression))
    return kind.oid if kind is not None else 0


def type_of_cast(kind: exp.Expr) -> int:
    if not isinstance(kind, exp.DataType):
        return types.OID.oid if kind.name == "OID" else types.TEXT.oid
    if kind.this is exp.DType.ARRAY and kind.expressions:
        element = types.BY_OID.get(type_of_cast(kind.expressions[0]))
        return element.array_oid if element is not None else 0
    named = kind.args.get("kind")
    if named is not None:
        known = types.BY_NAME.get(named.name if isinstance(named, exp.Expr) else str(named))
        return known.oid if known is not None else 0
    found = _BY_CAST.get(kind.this)
    return found.oid if found is not None else 0
