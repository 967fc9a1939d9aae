"""What kind of number an expression is, as far as PostgreSQL's division needs to know it.

PostgreSQL divides integers without a remainder, DuckDB does not. The kinds come from literals, casts,
functions and columns. A column's is known if everything of its name in the statement has the same kind.
Where it is not known this says so; the caller then lets the engine decide by the values' types. Never
guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from sqlglot import expressions as exp

from headrace.query.postgres.protocol import types
from headrace.query.snapshots import Column


class Number(Enum):
    """What PostgreSQL takes an expression for."""

    INTEGER = "integer"
    BIGINT = "bigint"
    DATE = "date"
    OTHER = "other"
    UNKNOWN = "unknown"


INTEGERS: Final = (Number.INTEGER, Number.BIGINT)
_BY_OID: Final = {
    types.INT2.oid: Number.INTEGER,
    types.INT4.oid: Number.INTEGER,
    types.OID.oid: Number.BIGINT,
    types.INT8.oid: Number.BIGINT,
    types.DATE.oid: Number.DATE,
}
_BY_CAST: Final = {
    exp.DType.TINYINT: Number.INTEGER,
    exp.DType.SMALLINT: Number.INTEGER,
    exp.DType.INT: Number.INTEGER,
    exp.DType.BIGINT: Number.BIGINT,
    exp.DType.DATE: Number.DATE,
}
_COUNTS: Final = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_WRAPPERS: Final = (
    exp.Paren,
    exp.Neg,
    exp.Alias,
    exp.Window,
    exp.Filter,
    exp.Max,
    exp.Min,
    exp.Abs,
    exp.Nullif,
)
_OTHERS: Final = (
    exp.Avg, exp.Boolean, exp.CurrentTimestamp, exp.Extract, exp.Pow, exp.Round, exp.Sqrt, exp.Stddev,
    exp.TimestampTrunc, exp.Interval,
)  # fmt: skip
_DEEPEST: Final = 50


class Numbers:
    """The kinds of numbers in one statement. `parameters` has the oid of each parameter by its name."""

    def __init__(
        self, tree: exp.Expr, tables: Mapping[str, Sequence[Column]], parameters: Mapping[str, int]
    ) -> None:
        self._parameters = parameters
        self._aliases: dict[str, list[exp.Expr]] = {}
        for alias in tree.find_all(exp.Alias):
            self._aliases.setdefault(alias.alias.casefold(), []).append(alias.this)
        named = {table.name.casefold() for table in tree.find_all(exp.Table)}
        self._columns: dict[str, set[Number]] = {}
        self._types: dict[str, set[int]] = {}
        for name, columns in tables.items():
            if name.casefold() in named:
                for column in columns:
                    oid = types.type_of(column.type).oid
                    folded = column.name.casefold()
                    self._types.setdefault(folded, set()).add(oid)
                    self._columns.setdefault(folded, set()).add(_BY_OID.get(oid, Number.OTHER))

    def column_oid(self, expression: exp.Expr) -> int | None:
        """The type of a parameter, or of a column of a table if all tables in the statement agree on it."""
        if isinstance(expression, exp.Column):
            if expression.name in self._parameters:
                return self._parameters[expression.name] or None
            found = self._types.get(expression.name.casefold(), set())
            if len(found) == 1 and expression.name.casefold() not in self._aliases:
                return next(iter(found))
        return None

    def kind(self, expression: exp.Expr | None, depth: int = 0) -> Number:  # noqa: PLR0911, PLR0912 - one rule a line
        """The kind of an expression."""
        if expression is None or depth > _DEEPEST:
            return Number.UNKNOWN
        if isinstance(expression, exp.Literal):
            is_number = not expression.is_string
            return (Number.INTEGER if expression.is_int else Number.OTHER) if is_number else Number.UNKNOWN
        if isinstance(expression, exp.Column):
            return self._of_column(expression, depth)
        if isinstance(expression, exp.Cast):
            return _BY_CAST.get(expression.to.this, Number.OTHER)
        if isinstance(expression, exp.CurrentDate):
            return Number.DATE
        if isinstance(expression, _COUNTS):
            return Number.BIGINT
        if isinstance(expression, exp.Length | exp.ArraySize | exp.StrPosition):
            return Number.INTEGER
        if isinstance(expression, exp.Sum):
            # The sum of bigints is numeric in PostgreSQL.
            inner = self.kind(expression.this, depth + 1)
            return {Number.INTEGER: Number.BIGINT, Number.BIGINT: Number.OTHER}.get(inner, inner)
        if isinstance(expression, exp.Coalesce | exp.Greatest | exp.Least):
            return self._common([expression.this, *expression.expressions], depth)
        if isinstance(expression, exp.Case):
            branches = [each.args.get("true") for each in expression.args.get("ifs", ())]
            default = expression.args.get("default")
            return self._common([*branches, *([default] if default is not None else [])], depth)
        if isinstance(expression, exp.Subquery) and isinstance(expression.this, exp.Select):
            shown = expression.this.expressions
            return self.kind(shown[0], depth + 1) if len(shown) == 1 else Number.UNKNOWN
        if isinstance(expression, _WRAPPERS):
            return self.kind(expression.this, depth + 1)
        if isinstance(expression, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv | exp.Mod):
            return self._of_arithmetic(expression, depth)
        return Number.OTHER if isinstance(expression, _OTHERS) else Number.UNKNOWN

    def _of_arithmetic(self, expression: exp.Binary, depth: int) -> Number:
        left, right = self.kind(expression.left, depth + 1), self.kind(expression.right, depth + 1)
        if isinstance(expression, exp.Sub) and left is right is Number.DATE:
            return Number.INTEGER
        if Number.DATE in (left, right):
            return Number.OTHER
        return _wider(left, right)

    def _of_column(self, column: exp.Column, depth: int) -> Number:
        if column.name in self._parameters:
            oid = self._parameters[column.name]
            return Number.UNKNOWN if oid in types.UNKNOWN_OIDS else _BY_OID.get(oid, Number.OTHER)
        folded = column.name.casefold()
        found = set(self._columns.get(folded, ()))
        for aliased in self._aliases.get(folded, ()):
            if aliased is not column:
                found.add(self.kind(aliased, depth + 10))
        return next(iter(found)) if len(found) == 1 else Number.UNKNOWN

    def _common(self, expressions: Sequence[exp.Expr | None], depth: int) -> Number:
        kinds = [self.kind(each, depth + 1) for each in expressions if not isinstance(each, exp.Null)]
        kind = kinds[0] if kinds else Number.UNKNOWN
        for each in kinds[1:]:
            kind = _wider(kind, each)
        return kind


def _wider(one: Number, other: Number) -> Number:
    if Number.OTHER in (one, other):
        return Number.OTHER
    if Number.UNKNOWN in (one, other):
        return Number.UNKNOWN
    return Number.BIGINT if Number.BIGINT in (one, other) else one
