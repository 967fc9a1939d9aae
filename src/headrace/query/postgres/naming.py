"""Names of the columns of an answer, where PostgreSQL's rules differ from the engine's.

PostgreSQL calls the column of `count(*)` `count` and that of `1 + 1` `?column?`; dashboards address columns
by these names. A column with a name of its own keeps the engine's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlglot import expressions as exp

_UNNAMED: Final = "?column?"
_OPERATORS: Final = (
    exp.Between, exp.Binary, exp.Boolean, exp.In, exp.Literal, exp.Neg, exp.Not, exp.Null, exp.Is,
    exp.Interval,
)  # fmt: skip
_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Array: "array",
    exp.ArrayAgg: "array_agg",
    exp.ArraySize: "array_length",
    exp.AtTimeZone: "timezone",
    exp.Case: "case",
    exp.Coalesce: "coalesce",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDatabase: "current_database",
    exp.CurrentDate: "current_date",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentTimestamp: "now",
    exp.CurrentUser: "current_user",
    exp.CurrentVersion: "version",
    exp.Exists: "exists",
    exp.Explode: "unnest",
    exp.Extract: "extract",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.SessionUser: "session_user",
    exp.StrPosition: "position",
    exp.TimeToStr: "to_char",
    exp.TimestampTrunc: "date_trunc",
    exp.UnixToTime: "to_timestamp",
}
# Where sqlglot's name of a function is PostgreSQL's.
_SAME_NAMES: Final = (
    exp.Abs, exp.ArrayToString, exp.Avg, exp.Ceil, exp.Concat, exp.Count, exp.DenseRank, exp.Exp,
    exp.FirstValue,
    exp.Floor, exp.Greatest, exp.Lag, exp.LastValue, exp.Lead, exp.Least, exp.Length, exp.Ln,
    exp.Localtimestamp, exp.Log, exp.Lower, exp.Max, exp.Min, exp.Nullif, exp.PercentRank, exp.Rank,
    exp.Round,
    exp.RowNumber, exp.Sqrt, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Substring, exp.Sum, exp.Trim,
    exp.Upper,
)  # fmt: skip


def column_names(tree: exp.Expr, parameters: Collection[str]) -> tuple[str | None, ...]:
    """A name for each column, None where the engine's is right. Empty if a `*` hides how many there are."""
    while isinstance(tree, exp.SetOperation | exp.Subquery | exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return ()
    if any(isinstance(each, exp.Star) or each.is_star for each in tree.expressions):
        return ()
    return tuple(_name(each, parameters) for each in tree.expressions)


def _name(expression: exp.Expr, parameters: Collection[str]) -> str | None:  # noqa: PLR0911 - one rule a line
    if isinstance(expression, exp.Column):
        return _UNNAMED if expression.name in parameters else None
    if isinstance(expression, exp.Alias):
        return None
    if isinstance(expression, exp.Paren | exp.Window | exp.Filter | exp.Collate):
        return _name(expression.this, parameters) or expression.this.name or None
    if isinstance(expression, exp.Cast):
        inner = _name(expression.this, parameters) or expression.this.name
        is_plain = not isinstance(expression.this, exp.Literal) and inner and inner != _UNNAMED
        return inner if is_plain else _type_name(expression.to)
    if isinstance(expression, exp.Dot):
        return _name(expression.expression, parameters) or expression.name
    if isinstance(expression, exp.Anonymous):
        return expression.name.lower()
    if isinstance(expression, exp.Subquery) and isinstance(expression.this, exp.Select):
        first = expression.this.expressions[0]
        return _name(first, parameters) or first.alias_or_name or None
    named = _NAMES.get(type(expression))
    if named is not None:
        return named
    if isinstance(expression, _SAME_NAMES):
        return expression.sql_name().lower()
    return _UNNAMED if isinstance(expression, _OPERATORS) else None


_TYPE_NAMES: Final = {
    "INT": "int4",
    "BIGINT": "int8",
    "SMALLINT": "int2",
    "DOUBLE": "float8",
    "FLOAT": "float4",
    "BOOLEAN": "bool",
    "DECIMAL": "numeric",
    "TIMESTAMPTZ": "timestamptz",
}


def _type_name(kind: exp.Expr) -> str | None:
    this = kind.this
    name = this.name if isinstance(this, exp.DType) else str(this)
    return _TYPE_NAMES.get(name, name.lower())
