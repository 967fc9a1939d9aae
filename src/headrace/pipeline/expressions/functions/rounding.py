"""CEIL, FLOOR, ROUND and TRUNC.

ROUND rounds halves towards positive infinity: -1.5 gives -1, where Spark gives -2. So it adds a half and
calls Spark's `floor` in decimals, which are exact. Like Java, it takes a double by its shortest decimal form;
a double too large for that has no fraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Final

from headrace.pipeline.expressions.functions.function import (
    Argument,
    ByCall,
    Call,
    Function,
    Signature,
    by_call,
    signature,
)
from headrace.pipeline.expressions.functions.making import same_as_first, scalar
from headrace.pipeline.expressions.functions.spark_text import spark_type
from headrace.pipeline.expressions.value_casts import decimal_of, rounded
from headrace.pipeline.expressions.values import BIGINT_RANGE
from headrace.pipeline.statements.types import DataType, DecimalType

# Doubles from here on have no fraction.
_WHOLE: Final = "4503599627370496D"
# Leaves room for adding a half within 38 digits.
_DECIMAL: Final = "TRY_CAST(CAST({value} AS STRING) AS DECIMAL(37,18))"
# The numbers of places that a call may compute.
_PLACES: Final = range(-18, 18)

_ByPlaces = Callable[[str, int], str]
_Rounded = Callable[[Decimal, int], Decimal]
_WHOLE_FROM: Final = 2.0**52
_EXACT_BELOW: Final = 1e18
# Enough for all digits of the largest double.
_LARGE: Final = Context(prec=400)
_EXACT_DOUBLE: Final = DecimalType(37, 18)


def _half_up(value: str, places: int) -> str:
    half = Decimal(5).scaleb(-places - 1)
    return f"floor(try_add({value}, {half:f}BD), {places})"


def _down(value: str, places: int) -> str:
    # Not `< 0`: for the comparison Spark would round a DECIMAL(38, 38), and the smallest ones to 0.
    return f"CASE WHEN signum({value}) < 0 THEN ceil({value}, {places}) ELSE floor({value}, {places}) END"


def _value_half_up(value: Decimal, places: int) -> Decimal:
    return (value + Decimal(5).scaleb(-places - 1)).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR)


def _value_down(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_DOWN)


def _decimal_to_places(rounded_to: _Rounded) -> ByCall:
    def make(call: Call) -> Callable[[Decimal, int], Decimal]:
        kind = call.type("value")
        assert isinstance(kind, DecimalType)

        def python(value: Decimal, places: int) -> Decimal:
            if places >= kind.scale:
                return value
            if -places > kind.precision - kind.scale:
                return Decimal(0)
            return rounded_to(value, places)

        return python

    return by_call(make)


def _double_to_places(rounded_to: _Rounded) -> Callable[[float, int], float | None]:
    def python(value: float, places: int) -> float | None:
        if places not in _PLACES:
            return value if places > 0 else 0.0
        if not math.isfinite(value):
            return None
        if abs(value) < _EXACT_BELOW:
            return float(rounded_to(rounded(decimal_of(value), _EXACT_DOUBLE), places) + 0)
        if places >= 0:
            return value
        return float(decimal_of(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _LARGE))

    return python


def _double_half_up(value: float) -> int:
    if not abs(value) < _WHOLE_FROM:
        return _saturated(value)
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


def _saturated(value: float) -> int:
    """Like Java's conversion of a double to a long: NaN is 0, and numbers beyond the range are its bounds."""
    if math.isnan(value):
        return 0
    if value >= BIGINT_RANGE.stop:
        return BIGINT_RANGE[-1]
    return BIGINT_RANGE[0] if value < BIGINT_RANGE[0] else int(value)


def _whole_precision(arguments: Sequence[Argument]) -> DataType | None:
    given = arguments[0]
    if not isinstance(given, DecimalType) or given.precision == given.scale:
        return None
    return DecimalType(given.precision - given.scale, 0)


def _places_of_decimal(rounded: _ByPlaces) -> Callable[[Call], str]:
    def spark(call: Call) -> str:
        kind = call.type("value")
        assert isinstance(kind, DecimalType)

        def of(places: int) -> str:
            if places >= kind.scale:
                return "{value}"
            if -places > kind.precision - kind.scale:
                # Left of all its digits.
                return f"CAST(0 AS {spark_type(kind)})"
            return f"TRY_CAST({rounded('{value}', places)} AS {spark_type(kind)})"

        return _by_places(call, of, range(kind.scale - kind.precision, kind.scale))

    return spark


def _places_of_double(rounded: _ByPlaces) -> Callable[[Call], str]:
    def of(places: int) -> str:
        if places not in _PLACES:
            return "{value}" if places > 0 else "0D"
        exact = f"CAST({rounded(_DECIMAL, places)} AS DOUBLE)"
        large = "{value}" if places >= 0 else f"round({{value}}, {places})"
        return (
            f"CASE WHEN abs({{value}}) < 1E18D THEN {exact}"
            f" WHEN abs({{value}}) < double('Infinity') THEN {large} END"
        )

    return lambda call: _by_places(call, of, _PLACES)


def _by_places(call: Call, of: Callable[[int], str], possible: range) -> str:
    """Spark needs a constant number of places, so for an expression there is a case for each number."""
    constant = call.integer("places")
    if constant is not None:
        return f"CASE WHEN {{value}} IS NOT NULL THEN {of(constant)} END"
    cases = " ".join(f"WHEN {{places}} = {places} THEN {of(places)}" for places in possible)
    return (
        f"CASE WHEN {{value}} IS NULL THEN NULL WHEN {{places}} < {possible.start} THEN {of(-99)}"
        f" WHEN {{places}} >= {possible.stop} THEN {of(99)} {cases} END"
    )


def _without_places(rounded: _ByPlaces) -> Callable[[Call], str]:
    return lambda call: f"TRY_CAST({rounded('{value}', 0)} AS {spark_type(call.result)})"


def _forms(
    of_double: str, spark: _ByPlaces, whole: Callable[[float], int], python: _Rounded
) -> tuple[Signature, ...]:
    return (
        signature("INTEGER value -> BIGINT", "CAST({value} AS BIGINT)", lambda value: value),
        signature("BIGINT value -> BIGINT", "{value}", lambda value: value),
        signature("DOUBLE value -> BIGINT", of_double, whole),
        signature(
            "DOUBLE value, INTEGER places -> DOUBLE", _places_of_double(spark), _double_to_places(python)
        ),
        signature(
            "DECIMAL value -> DECIMAL",
            _without_places(spark),
            lambda value: python(value, 0),
            result=_whole_precision,
        ),
        signature(
            "DECIMAL value, INTEGER places -> DECIMAL",
            _places_of_decimal(spark),
            _decimal_to_places(python),
            result=same_as_first,
        ),
    )


def _whole(name: str, description: str, of_double: Callable[[float], int], direction: str) -> Function:
    spark = name.lower()
    return scalar(
        name,
        description,
        signature("INTEGER value -> INTEGER", "{value}", lambda value: value),
        signature("BIGINT value -> BIGINT", "{value}", lambda value: value),
        signature(
            "DOUBLE value -> DOUBLE",
            f"CASE WHEN abs({{value}}) < {_WHOLE} THEN CAST({spark}({{value}}) AS DOUBLE) ELSE {{value}} END",
            lambda value: float(of_double(value)) if abs(value) < _WHOLE_FROM else value,
        ),
        signature(
            "DECIMAL value -> DECIMAL",
            lambda call: f"TRY_CAST({spark}({{value}}) AS {spark_type(call.result)})",
            lambda value: value.to_integral_value(direction),
            result=same_as_first,
        ),
    )


FUNCTIONS: Final[tuple[Function, ...]] = (
    _whole("CEIL", "The smallest whole number that is not less.", math.ceil, ROUND_CEILING),
    _whole("FLOOR", "The largest whole number that is not greater.", math.floor, ROUND_FLOOR),
    scalar(
        "ROUND",
        "Rounded to so many decimal places, or to a whole number; from the middle towards the positive.",
        *_forms(
            f"CASE WHEN abs({{value}}) < {_WHOLE} THEN floor({{value}})"
            " + CASE WHEN {value} - floor({value}) >= 0.5D THEN 1L ELSE 0L END ELSE floor({value}) END",
            _half_up,
            _double_half_up,
            _value_half_up,
        ),
    ),
    scalar(
        "TRUNC",
        "Cut to that number of decimal places, or to a whole number, towards zero.",
        *_forms(
            "CASE WHEN {value} < 0 THEN ceil({value}) ELSE floor({value}) END",
            _down,
            _saturated,
            _value_down,
        ),
    ),
)
