"""Arithmetic: the type that ksqlDB gives a result, and both forms, which give null if there is no result.

Decimals follow ksqlDB's rules of precision and scale, which are also Spark's; INTEGER counts as
DECIMAL(10, 0) and BIGINT as DECIMAL(19, 0). A result of more than 38 digits, which ksqlDB would allow, loses
digits after the point, as in Spark. Whole numbers that overflow give null; in ksqlDB they wrap around.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from headrace.pipeline.expressions.computed import Row, Typed
from headrace.pipeline.expressions.literals import LARGEST_PRECISION
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.expressions.value_casts import EXACT, FAILURES, fitting
from headrace.pipeline.statements.expressions import ArithmeticOperator
from headrace.pipeline.statements.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    VARCHAR,
    DataType,
    DecimalType,
)

_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _MODULO = ArithmeticOperator
_RANKS: Final[dict[DataType, int]] = {INTEGER: 0, BIGINT: 1, DOUBLE: 3}
_DECIMAL_RANK: Final = 2
_SMALLEST_SCALE: Final = 6
_NAMES: Final = {
    _ADD: "try_add",
    _SUBTRACT: "try_subtract",
    _MULTIPLY: "try_multiply",
    _DIVIDE: "try_divide",
    _MODULO: "try_mod",
}


def rank(data_type: DataType | None) -> int | None:
    """How wide a numeric type is; None for other types."""
    if isinstance(data_type, DecimalType):
        return _DECIMAL_RANK
    return None if data_type is None else _RANKS.get(data_type)


def as_decimal(data_type: DataType) -> DecimalType:
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(10, 0) if data_type is INTEGER else DecimalType(19, 0)


def widened(one: DataType, other: DataType) -> DecimalType:
    """A DECIMAL that can hold both."""
    left, right = as_decimal(one), as_decimal(other)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bounded(whole + scale, scale)


def bounded(precision: int, scale: int) -> DecimalType:
    if precision <= LARGEST_PRECISION:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(LARGEST_PRECISION, max(LARGEST_PRECISION - whole, min(scale, _SMALLEST_SCALE)))


def result_type(operator: ArithmeticOperator, left: DataType, right: DataType) -> DataType | None:
    """None if the operator does not take these types."""
    if operator is _ADD and left is VARCHAR and right is VARCHAR:
        return VARCHAR
    left_rank, right_rank = rank(left), rank(right)
    if left_rank is None or right_rank is None:
        return None
    wider = left if left_rank >= right_rank else right
    if not isinstance(wider, DecimalType):
        return wider
    return _decimal_result(operator, as_decimal(left), as_decimal(right))


def _decimal_result(operator: ArithmeticOperator, left: DecimalType, right: DecimalType) -> DecimalType:
    left_whole, right_whole = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    if operator in (_ADD, _SUBTRACT):
        return bounded(max(left_whole, right_whole) + scale + 1, scale)
    if operator is _MULTIPLY:
        return bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator is _MODULO:
        return bounded(min(left_whole, right_whole) + scale, scale)
    scale = max(_SMALLEST_SCALE, left.scale + right.precision + 1)
    return bounded(left_whole + right.scale + scale, scale)


def calculated(operator: ArithmeticOperator, left: Typed, right: Typed, result: DataType) -> Typed:
    """`result` is what `result_type` says; both operands have types."""
    spark = _calculated(operator, left, right, result)
    one, other = left.python, right.python
    calculate = _calculation(operator, result)

    def python(row: Row) -> Any:
        first, second = one(row), other(row)
        if first is None or second is None:
            return None
        try:
            return calculate(first, second)
        except FAILURES:
            return None

    return Typed(spark, result, python)


def _calculation(operator: ArithmeticOperator, result: DataType) -> Callable[[Any, Any], Any]:
    if result is DOUBLE:
        of_doubles = _DOUBLES[operator]
        return lambda one, other: of_doubles(float(one), float(other))
    calculate = _DECIMALS[operator] if isinstance(result, DecimalType) else _EXACT[operator]
    return lambda one, other: fitting(calculate(one, other), result)


def _quotient(left: int, right: int) -> int:
    """Rounds towards zero, like Java."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: float, right: float) -> float:
    if right == 0:
        raise ZeroDivisionError
    return math.nan if math.isinf(left) else math.fmod(left, right)


_EXACT: Final[dict[ArithmeticOperator, Callable[[Any, Any], Any]]] = {
    _ADD: lambda left, right: left + right,
    _SUBTRACT: lambda left, right: left - right,
    _MULTIPLY: lambda left, right: left * right,
    _DIVIDE: _quotient,
    _MODULO: lambda left, right: left - right * _quotient(left, right),
}
_DECIMALS: Final[dict[ArithmeticOperator, Callable[[Any, Any], Decimal]]] = {
    _ADD: EXACT.add,
    _SUBTRACT: EXACT.subtract,
    _MULTIPLY: EXACT.multiply,
    _DIVIDE: EXACT.divide,
    _MODULO: EXACT.remainder,
}
_DOUBLES: Final[dict[ArithmeticOperator, Callable[[float, float], float]]] = {
    **_EXACT,
    _DIVIDE: lambda left, right: left / right,
    _MODULO: _remainder,
}


def _calculated(operator: ArithmeticOperator, left: Typed, right: Typed, result: DataType) -> str:
    if result is VARCHAR:
        return f"concat({left.spark}, {right.spark})"
    if isinstance(result, DecimalType):
        one, other = (_cast(each, as_decimal(each.type)) for each in (left, right) if each.type)
        return f"{_NAMES[operator]}({one}, {other})"
    one, other = (_cast(each, result) for each in (left, right))
    if operator is _DIVIDE and result in (INTEGER, BIGINT):
        return _whole_quotient(one, other, result)
    return f"{_NAMES[operator]}({one}, {other})"


def _cast(value: Typed, wanted: DataType) -> str:
    if value.type == wanted:
        return value.spark
    if wanted is BIGINT and value.spark.lstrip("-").isdigit():
        return f"{value.spark}L"
    return f"cast({value.spark} as {spark_type(wanted)})"


def _whole_quotient(left: str, right: str, result: DataType) -> str:
    """Rounds towards zero, like Java."""
    divisor = right if _is_other_number(right) else f"nullif({right}, 0)"
    if result is INTEGER:
        return f"try_cast({left} div {divisor} as INT)"
    if _is_other_number(right):
        return f"({left} div {divisor})"
    # The smallest BIGINT has no positive counterpart.
    return f"if({right} = -1, try_subtract(0L, {left}), {left} div {divisor})"


def _is_other_number(text: str) -> bool:
    return text.rstrip("L").isdigit() and int(text.rstrip("L")) != 0


def negated(value: Typed) -> Typed:
    assert value.type is not None
    data_type, operand = value.type, value.python
    # Python's minus would round a Decimal to 28 digits.
    negate = EXACT.minus if isinstance(data_type, DecimalType) else operator.neg

    def python(row: Row) -> Any:
        number = operand(row)
        try:
            return None if number is None else fitting(negate(number), data_type)
        except FAILURES:
            return None

    return Typed(_negated(value), data_type, python)


def _negated(value: Typed) -> str:
    if value.type is INTEGER:
        return f"try_subtract(0, {value.spark})"
    if value.type is BIGINT:
        return f"try_subtract(0L, {value.spark})"
    if isinstance(value.type, DecimalType):
        # Spark's minus rounds a DECIMAL to 34 digits, and fails if the rounded number does not fit.
        kind = spark_type(value.type)
        return f"try_cast(try_subtract(cast(0 as {kind}), {value.spark}) as {kind})"
    return f"(- {value.spark})"
