"""Arguments of calls, as the rules would pass them: a type and Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from datetime import date as day
from decimal import Context, Decimal
from typing import Any

from headrace.pipeline.expressions.functions.function import UNIT, Argument, LambdaResult
from headrace.pipeline.expressions.functions.spark_text import string_literal as text
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.expressions.values import time_of
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

UNKNOWN = object()


@dataclass(frozen=True)
class Value:
    """`is_fixed`: it has to stand in the call as it is, and in no column."""

    argument: Argument
    spark: str
    is_fixed: bool = False
    # As the Python form takes it; not known of lambdas, whose bodies are Spark SQL here.
    python: Any = UNKNOWN


@dataclass(frozen=True)
class Example:
    name: str
    arguments: tuple[Value, ...]
    expected: Any

    def __str__(self) -> str:
        return f"{self.name}({', '.join(each.spark for each in self.arguments)})"


def gives(name: str, *arguments: object, expected: Any) -> Example:
    return Example(name, tuple(map(value, arguments)), expected)


def value(given: object) -> Value:  # noqa: PLR0911
    """Of a Python value; None is NULL alone."""
    match given:
        case Value():
            return given
        case None:
            return Value(None, "NULL", is_fixed=True, python=None)
        case bool():
            return Value(BOOLEAN, str(given).lower(), python=given)
        case int():
            if -(2**31) <= given < 2**31:
                return Value(INTEGER, str(given), python=given)
            return Value(BIGINT, f"{given}L", python=given)
        case float():
            return double(given)
        case str():
            return Value(VARCHAR, text(given), python=given)
        case bytes():
            return Value(BYTES, f"X'{given.hex()}'", python=given)
        case list():
            return array(given)
        case dict():
            return mapping(given)
        case _:
            raise TypeError(given)


def double(given: float) -> Value:
    spark = f"double('{given!r}')".replace("inf", "Infinity").replace("nan", "NaN")
    return Value(DOUBLE, spark, python=given)


def big(given: int) -> Value:
    spark = f"CAST({given} AS BIGINT)" if given > -(2**63) else "-9223372036854775808L"
    return Value(BIGINT, spark, python=given)


def decimal(given: str, precision: int, scale: int) -> Value:
    kind = DecimalType(precision, scale)
    exact = Decimal(given).quantize(Decimal(1).scaleb(-scale), context=Context(prec=50))
    return Value(kind, f"CAST('{given}' AS {spark_type(kind)})", python=exact)


def null(of: DataType) -> Value:
    return Value(of, f"CAST(NULL AS {spark_type(of)})", python=None)


def fixed(given: object) -> Value:
    """A constant that may not come from a column."""
    found = value(given)
    return replace(found, is_fixed=True)


def array(elements: Sequence[object], of: DataType | None = None) -> Value:
    found = [value(each) for each in elements]
    kind = of or next(each.argument for each in found if each.argument is not None)
    assert not isinstance(kind, LambdaResult)
    inner = ", ".join(each.spark for each in found)
    spark = f"CAST(array({inner}) AS {spark_type(ArrayType(kind))})"  # type: ignore[arg-type]
    return Value(ArrayType(kind), spark, python=[each.python for each in found])  # type: ignore[arg-type]


def mapping(entries: dict[str, Any], of: DataType | None = None) -> Value:
    values = [value(each) for each in entries.values()]
    kind = of or next(each.argument for each in values if each.argument is not None)
    inner = ", ".join(f"{text(key)}, {each.spark}" for key, each in zip(entries, values, strict=True))
    whole = MapType(VARCHAR, kind)  # type: ignore[arg-type]
    own = dict(zip(entries, (each.python for each in values), strict=True))
    return Value(whole, f"CAST(map({inner}) AS {spark_type(whole)})", python=own)


def struct(**fields: object) -> Value:
    found = {name: value(each) for name, each in fields.items()}
    inner = ", ".join(f"{text(name)}, {each.spark}" for name, each in found.items())
    kind = StructType(tuple(StructField(name, each.argument) for name, each in found.items()))  # type: ignore[arg-type]
    own = {name: each.python for name, each in found.items()}
    return Value(kind, f"named_struct({inner})", python=own)


def timestamp(given: str) -> Value:
    own = datetime.fromisoformat(given).replace(tzinfo=UTC)
    return Value(TIMESTAMP, f"TIMESTAMP'{given}'", python=own)


def date(given: str) -> Value:
    return Value(DATE, f"DATE'{given}'", python=day.fromisoformat(given))


def time(milliseconds: int) -> Value:
    return Value(TIME, str(milliseconds), python=time_of(milliseconds))


def unit(word: str) -> Value:
    return Value(UNIT, word, is_fixed=True, python=word)


def lambda_of(parameters: dict[str, DataType], result: DataType, body: str) -> Value:
    names = ", ".join(f"`{name}`" for name in parameters)
    head = names if len(parameters) == 1 else f"({names})"
    return Value(LambdaResult(tuple(parameters.values()), result), f"{head} -> {body}", is_fixed=True)
