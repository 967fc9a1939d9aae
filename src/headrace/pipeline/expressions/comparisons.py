"""Comparisons: which types ksqlDB compares with which, and Spark SQL for it.

A text is compared with a date or a time as such. Booleans, arrays, maps and structs are equal or not, and
have no order.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.casts import cast
from headrace.pipeline.expressions.coercion import Value, common_type
from headrace.pipeline.expressions.literals import Typed
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


def compared(operator: ComparisonOperator, left: Value, right: Value, at: Position) -> str:
    """Null if a side is null, but for IS [NOT] DISTINCT FROM. Raises StatementError."""
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
    return _spark(operator, _side(left, wanted), _side(right, wanted))


def _as_moment(value: Value, other: Value) -> Value:
    """A constant text beside a record's time or a window's bounds is a moment."""
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
    return Value(own, Typed(f"{found}L", BIGINT))


def _compared_as(one: DataType, other: DataType) -> DataType | None:
    if rank(one) is not None and rank(other) is not None:
        # Spark widens numbers as it should be.
        return one
    if one in _TIMES and other in _TIMES and one != other:
        return None if TIME in (one, other) else TIMESTAMP
    if one is VARCHAR and other in _TIMES:
        return other
    if (one in _TIMES and other is VARCHAR) or one == other:
        return one
    # Arrays, maps and structs may differ in what their numbers are.
    return common_type(one, other)


def _has_order(data_type: DataType) -> bool:
    return rank(data_type) is not None or data_type in (VARCHAR, BYTES, *_TIMES)


def _side(value: Value, wanted: DataType) -> str:
    spark, own = value.typed
    if rank(own) is not None or own is BOOLEAN:
        return spark
    if isinstance(own, MapType):
        return comparable(spark, own)
    return cast(spark, own, wanted) or spark


def comparable(spark: str, data_type: DataType) -> str:
    """Spark compares no maps, but their entries."""
    return f"array_sort(map_entries({spark}))" if isinstance(data_type, MapType) else spark


def _spark(operator: ComparisonOperator, left: str, right: str) -> str:
    if operator is ComparisonOperator.NOT_DISTINCT:
        return f"({left} <=> {right})"
    if operator is ComparisonOperator.DISTINCT:
        return f"(not {left} <=> {right})"
    return f"({left} {operator.value} {right})"
