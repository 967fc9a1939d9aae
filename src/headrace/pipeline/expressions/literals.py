"""Constants: the type that ksqlDB gives them, and both forms."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headrace.pipeline.expressions.computed import Typed
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.statements.types import BIGINT, DOUBLE, INTEGER, VARCHAR, DataType, DecimalType

INTEGER_RANGE: Final = range(-(2**31), 2**31)
BIGINT_RANGE: Final = range(-(2**63), 2**63)
LARGEST_PRECISION: Final = 38


def constant(spark: str, data_type: DataType | None, value: Any) -> Typed:
    return Typed(spark, data_type, lambda _row: value)


def type_name(data_type: DataType | None) -> str:
    """The type's name in error messages."""
    return "NULL" if data_type is None else str(data_type)


def text(value: str) -> str:
    r"""A text constant. Quotes are escaped, not doubled: Spark reads 'a''b' as two adjacent texts."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def string(value: str) -> Typed:
    return constant(text(value), VARCHAR, value)


def integer(value: int) -> Typed:
    if value in INTEGER_RANGE:
        return constant(str(value), INTEGER, value)
    return constant(f"{value}L", BIGINT, value)


def double(value: float) -> Typed:
    return constant(f"{value!r}D", DOUBLE, value)


def decimal_type(value: Decimal) -> DecimalType:
    """The digits as written; below 1, one more for the zero before the point."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), sign
    scale = max(0, -exponent)
    if abs(value) < 1:
        return DecimalType(scale + 1, scale)
    return DecimalType(len(digits) + max(0, exponent), scale)


def decimal(value: Decimal) -> Typed:
    data_type = decimal_type(value)
    spark = f"{value:f}BD"
    # Below 1 Spark does not count the zero before the point.
    spark = spark if abs(value) >= 1 else f"cast({spark} as {spark_type(data_type)})"
    return constant(spark, data_type, Decimal(f"{value:f}"))


def number_in(value: str) -> DataType | None:
    """The type of the number in a text, or None."""
    try:
        number = Decimal(value.strip())
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    if not set(value) & set(".eE"):
        if int(number) in INTEGER_RANGE:
            return INTEGER
        if int(number) in BIGINT_RANGE:
            return BIGINT
    return decimal_type(number)
