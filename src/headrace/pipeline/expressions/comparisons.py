"""Comparisons: which types ksqlDB compares, and both forms.

Beside a date or a time, a text is read as one. Booleans, arrays, maps and structs are equal or not, and
have no order. NaN equals itself and is larger than every other number, as in Spark and in Java's `compareTo`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.pipeline.expressions.casts import cast_to
from headrace.pipeline.expressions.coercion import Value, common_type
from headrace.pipeline.expressions.computed import Row, Typed
from headrace.pipeline.expressions.literals import integer
from headrace.pipeline.expressions.moments import milliseconds
from headrace.pipeline.expressions.numbers import rank
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import ColumnReference, ComparisonOperator, StringLiteral
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    TIME,
    TIMESTAMP,
    VARCHAR,
    DataType,
    MapType,
)

_EQUALITY: Final = (
    ComparisonOperator.EQUAL,
    ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.DISTINCT,
    ComparisonOperator.NOT_DISTINCT,
)
_MOMENTS: Final = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
_TIMES: Final = (DATE, TIME, TIMESTAMP)


def compared(operator: ComparisonOperator, left: Value, right: Value, at: Position) -> Typed:
    """Null if a side is null, except for IS [NOT] DISTINCT FROM. Raises StatementError."""
    left, right = _as_moment(left, right), _as_moment(right, left)
    one, other = left.typed.type, right.typed.type
    shown = expression_text(left.expression), expression_text(right.expression)
    if one is None or other is None:
        raise StatementError(
            f"Nothing can be compared with NULL: {shown[0]} {operator.value} {shown[1]}.",
            at,
            remedy="IS NULL and IS NOT NULL ask for it.",
        )
    wanted = _compared_as(one, other)
    if wanted is None or (operator not in _EQUALITY and not _has_order(one)):
        raise StatementError(
            f"{shown[0]} ({one}) cannot be compared with {shown[1]} ({other}) by {operator.value}.",
            at,
            remedy="CAST makes one type of both." if wanted is None else "",
        )
    one_side, other_side = _side(left, wanted), _side(right, wanted)
    python = _python(operator, one_side, other_side)
    return Typed(_spark(operator, _spark_side(one_side), _spark_side(other_side)), BOOLEAN, python)


def _as_moment(value: Value, other: Value) -> Value:
    """Reads a constant text beside ROWTIME or a window bound as a moment."""
    beside, own = other.expression, value.expression
    if not isinstance(beside, ColumnReference) or beside.name not in _MOMENTS:
        return value
    if other.typed.type is not BIGINT or not isinstance(own, StringLiteral):
        return value
    found = milliseconds(own.value)
    if found is None:
        raise StatementError(
            f"{expression_text(own)} is no moment.", own.at, remedy="As in '2020-02-10T08:31:44.001'."
        )
    return Value(own, integer(found)._replace(spark=f"{found}L", type=BIGINT))


def _compared_as(one: DataType, other: DataType) -> DataType | None:
    if rank(one) is not None and rank(other) is not None:
        # Spark widens numbers as ksqlDB does.
        return one
    if one in _TIMES and other in _TIMES and one != other:
        return None if TIME in (one, other) else TIMESTAMP
    if one is VARCHAR and other in _TIMES:
        return other
    if (one in _TIMES and other is VARCHAR) or one == other:
        return one
    # The numbers inside arrays, maps and structs may have different types.
    return common_type(one, other)


def _has_order(data_type: DataType) -> bool:
    return rank(data_type) is not None or data_type in (VARCHAR, BYTES, *_TIMES)


def _side(value: Value, wanted: DataType) -> Typed:
    own = value.typed.type
    if rank(own) is not None or own is BOOLEAN or isinstance(own, MapType):
        return value.typed
    return cast_to(value.typed, wanted) or value.typed


def _spark_side(side: Typed) -> str:
    return comparable(side.spark, side.type)


def comparable(spark: str, data_type: DataType | None) -> str:
    """Spark cannot compare maps, but it can compare their entries."""
    return f"array_sort(map_entries({spark}))" if isinstance(data_type, MapType) else spark


def _spark(operator: ComparisonOperator, left: str, right: str) -> str:
    if operator is ComparisonOperator.NOT_DISTINCT:
        return f"({left} <=> {right})"
    if operator is ComparisonOperator.DISTINCT:
        return f"(not {left} <=> {right})"
    return f"({left} {operator.value} {right})"


def _python(operator: ComparisonOperator, left: Typed, right: Typed) -> Callable[[Row], Any]:
    one, other = left.python, right.python
    as_doubles = DOUBLE in (left.type, right.type)
    if operator in (ComparisonOperator.DISTINCT, ComparisonOperator.NOT_DISTINCT):
        expected = operator is ComparisonOperator.NOT_DISTINCT
        return lambda row: same(*_numbers(one(row), other(row), as_doubles)) is expected
    holds = _ORDERED[operator]

    def python(row: Row) -> Any:
        first, second = _numbers(one(row), other(row), as_doubles)
        return None if first is None or second is None else holds(first, second)

    return python


def _numbers(left: Any, right: Any, as_doubles: bool) -> tuple[Any, Any]:
    """Beside a DOUBLE, converts the other number to DOUBLE, even if it loses digits."""
    if not as_doubles or left is None or right is None:
        return left, right
    return float(left), float(right)


def same(left: Any, right: Any) -> bool:
    """Equal in Spark's sense: null is equal to null, NaN to NaN."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right) or (_is_nan(left) and _is_nan(right))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124 - that is what NaN is


def less(left: Any, right: Any) -> bool:
    return not _is_nan(left) and (_is_nan(right) or bool(left < right))


_ORDERED: Final[dict[ComparisonOperator, Callable[[Any, Any], bool]]] = {
    ComparisonOperator.EQUAL: same,
    ComparisonOperator.NOT_EQUAL: lambda left, right: not same(left, right),
    ComparisonOperator.LESS: less,
    ComparisonOperator.LESS_OR_EQUAL: lambda left, right: not less(right, left),
    ComparisonOperator.GREATER: lambda left, right: less(right, left),
    ComparisonOperator.GREATER_OR_EQUAL: lambda left, right: not less(left, right),
}
