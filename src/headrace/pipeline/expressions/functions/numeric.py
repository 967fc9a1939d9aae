"""Numeric functions, except rounding (`rounding.py`).

ksqlDB computes with Java's doubles: a function without a value gives NaN or Infinity, never null. ABS of the
smallest INTEGER or BIGINT, which has no positive counterpart, returns it unchanged.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, Final

from headrace.pipeline.expressions.comparisons import less
from headrace.pipeline.expressions.functions.function import Call, Function, Signature, signature
from headrace.pipeline.expressions.functions.making import same_as_first, scalar, widest_decimal
from headrace.pipeline.expressions.functions.spark_text import spark_type

_NAN: Final = "double('NaN')"
_LN: Final = (
    "CASE WHEN {value} > 0 THEN ln({value}) WHEN {value} = 0 THEN double('-Infinity')"
    f" WHEN {{value}} < 0 THEN {_NAN} END"
)
_SMALLEST: Final = {"INTEGER": "-2147483648", "BIGINT": "-9223372036854775808L"}
_SMALLEST_NUMBERS: Final = {"INTEGER": -(2**31), "BIGINT": -(2**63)}
_COMPARED: Final = ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BYTES", "DATE", "TIME", "TIMESTAMP")


def _of_double(template: str, python: Callable[[float], float]) -> tuple[Signature, ...]:
    """Signatures for INTEGER, BIGINT and DOUBLE (to which DECIMAL converts); `{x}` is the DOUBLE."""

    def compute(value: float) -> float:
        return _as_in_java(python, float(value))

    return (
        signature("INTEGER value -> DOUBLE", template.replace("{x}", "CAST({value} AS DOUBLE)"), compute),
        signature("BIGINT value -> DOUBLE", template.replace("{x}", "CAST({value} AS DOUBLE)"), compute),
        signature("DOUBLE value -> DOUBLE", template.replace("{x}", "{value}"), compute),
    )


def _of_doubles(
    first: str, second: str, template: str, python: Callable[[float, float], float]
) -> tuple[Signature, ...]:
    def compute(one: float, other: float) -> float:
        return _as_in_java(python, float(one), float(other))

    return tuple(
        signature(f"{kind} {first}, {kind} {second} -> DOUBLE", template, compute)
        for kind in ("INTEGER", "BIGINT", "DOUBLE")
    )


def _as_in_java(function: Callable[..., float], *arguments: float) -> float:
    """Python raises errors where Java gives NaN (no value) or Infinity (too large)."""
    try:
        return function(*arguments)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


def _plain(
    name: str, description: str, python: Callable[[float], float], spark: str | None = None
) -> Function:
    return scalar(name, description, *_of_double(spark or f"{name.lower()}({{x}})", python))


def _abs(kind: str) -> Signature:
    smallest = _SMALLEST[kind]
    smallest_number = _SMALLEST_NUMBERS[kind]
    return signature(
        f"{kind} value -> {kind}",
        f"CASE WHEN {{value}} = {smallest} THEN {{value}} ELSE abs({{value}}) END",
        lambda value: value if value == smallest_number else abs(value),
    )


def _abs_of_decimal(call: Call) -> str:
    # Spark's abs rounds to 34 digits, and fails if the rounded number does not fit.
    kind = spark_type(call.result)
    negated = f"TRY_CAST(try_subtract(CAST(0 AS {kind}), {{value}}) AS {kind})"
    return f"CASE WHEN {{value}} < 0 THEN {negated} ELSE {{value}} END"


def _sign(kind: str) -> Signature:
    # In Spark NaN is larger than every number; in Java it has no sign.
    not_a_number = " WHEN isnan({value}) THEN 0" if kind == "DOUBLE" else ""
    return signature(
        f"{kind} value -> INTEGER",
        f"CASE{not_a_number} WHEN {{value}} > 0 THEN 1"
        " WHEN {value} < 0 THEN -1 WHEN {value} = 0 THEN 0 END",
        lambda value: int(value > 0) - int(value < 0),
    )


def _most(name: str, description: str, is_better: Callable[[Any, Any], bool]) -> Function:
    def spark(call: Call) -> str:
        others = call.all_of("others")
        return f"{name.lower()}({', '.join(['{first}', *others])})" if others else "{first}"

    def python(*values: Any) -> Any:
        best = None
        for value in values:
            if value is not None and (best is None or is_better(value, best)):
                best = value
        return best

    return scalar(
        name,
        description,
        *(
            signature(f"{kind} first, {kind}... others -> {kind}", spark, python, nulls=True)
            for kind in _COMPARED
        ),
        signature(
            "DECIMAL first, DECIMAL... others -> DECIMAL", spark, python, nulls=True, result=widest_decimal
        ),
    )


def _cot(value: float) -> float:
    tangent = math.tan(value)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


def _atan2(y: float, x: float) -> float:
    # Spark treats -0.0 as 0.0.
    return math.atan2(y + 0.0, x + 0.0)


def _hyperbolic_sine(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _ln(value: float) -> float:
    return math.log(value) if value else -math.inf


def _log_of_base(base: float, value: float) -> float:
    if base <= 0 or base == 1 or value < 0:
        return math.nan
    return _ln(value) / math.log(base)


def _power(base: float, exponent: float) -> float:
    # Cases where Python's function, which is C's, differs from Java's.
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    is_odd = math.isfinite(exponent) and abs(math.fmod(exponent, 2)) == 1
    infinite = math.copysign(math.inf, base) if is_odd else math.inf
    if base == 0 and exponent < 0:
        return infinite
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return infinite


_LOG_OF_BASE: Final = (
    "CASE WHEN {base} IS NULL OR {value} IS NULL THEN NULL"
    f" WHEN {{base}} <= 0 OR {{base}} = 1 OR {{value}} < 0 THEN {_NAN}"
    " WHEN {value} = 0 THEN double('-Infinity') / ln({base}) ELSE ln({value}) / ln({base}) END"
)

_UNITS: Final = {
    **dict.fromkeys(("mi", "mile", "miles"), 3959.0),
    **dict.fromkeys(("", "km", "kilometer", "kilometers", "kilometre", "kilometres"), 6371.0),
}


def _distance(*arguments: Any) -> float | None:
    lat1, lon1, lat2, lon2, *units = arguments
    if None in (lat1, lon1, lat2, lon2) or not (
        abs(lat1) <= 90 and abs(lat2) <= 90 and abs(lon1) <= 180 and abs(lon2) <= 180
    ):
        return None
    haversines = math.pow(math.sin(math.radians(lat2 - lat1) / 2), 2) + math.pow(
        math.sin(math.radians(lon2 - lon1) / 2), 2
    ) * math.cos(math.radians(lat1)) * math.cos(math.radians(lat2))
    unit = units[0] if units and units[0] is not None else ""
    return 2 * _as_in_java(math.asin, math.sqrt(haversines)) * _UNITS[unit.strip(" ").lower()]


# Great-circle distance by the haversine formula, on a globe of this radius.
_RADIUS: Final = (
    "CASE WHEN {unit} IS NULL OR trim({unit}) = '' THEN 6371D"
    " WHEN lower(trim({unit})) IN ('mi', 'mile', 'miles') THEN 3959D"
    " WHEN lower(trim({unit})) IN ('km', 'kilometer', 'kilometers', 'kilometre', 'kilometres') THEN 6371D END"
)
_HAVERSINES: Final = (
    "pow(sin(radians({lat2} - {lat1}) / 2), 2)"
    " + pow(sin(radians({lon2} - {lon1}) / 2), 2) * cos(radians({lat1})) * cos(radians({lat2}))"
)
_DISTANCE: Final = (
    "CASE WHEN abs({lat1}) <= 90 AND abs({lat2}) <= 90 AND abs({lon1}) <= 180 AND abs({lon2}) <= 180"
    f" THEN 2 * asin(sqrt({_HAVERSINES})) * RADIUS END"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "ABS",
        "The absolute value.",
        _abs("INTEGER"),
        _abs("BIGINT"),
        signature("DOUBLE value -> DOUBLE", "abs({value})", abs),
        signature("DECIMAL value -> DECIMAL", _abs_of_decimal, abs, result=same_as_first),
    ),
    _plain("ACOS", "The inverse cosine, in radians; NaN outside of [-1, 1].", math.acos),
    _plain("ASIN", "The inverse sine, in radians; NaN outside of [-1, 1].", math.asin),
    _plain("ATAN", "The inverse tangent, in radians.", math.atan),
    scalar(
        "ATAN2",
        "The inverse tangent of y / x, in radians.",
        *_of_doubles("y", "x", "atan2(CAST({y} AS DOUBLE), CAST({x} AS DOUBLE))", _atan2),
    ),
    _plain("CBRT", "The cube root.", math.cbrt),
    _plain("COS", "The cosine of an angle in radians.", math.cos),
    _plain("COSH", "The hyperbolic cosine.", math.cosh),
    _plain("COT", "The cotangent of an angle in radians; infinite at 0.", _cot),
    _plain("DEGREES", "Radians as degrees.", math.degrees),
    _plain("EXP", "e raised to that power.", math.exp),
    scalar(
        "GEO_DISTANCE",
        "The great-circle distance of two points in decimal degrees, in kilometres or miles.",
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2 -> DOUBLE",
            _DISTANCE.replace("RADIUS", "6371D"),
            _distance,
        ),
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2, VARCHAR unit -> DOUBLE",
            _DISTANCE.replace("RADIUS", f"({_RADIUS})"),
            _distance,
            nulls=True,
        ),
    ),
    _most("GREATEST", "The largest of the values that are not null.", lambda one, other: less(other, one)),
    _most("LEAST", "The smallest of the values that are not null.", less),
    _plain("LN", "The natural logarithm; -Infinity of 0, NaN of a negative number.", _ln, _LN),
    scalar(
        "LOG",
        "The logarithm, of base e or of the given base.",
        *_of_double(_LN, _ln),
        *_of_doubles("base", "value", _LOG_OF_BASE, _log_of_base),
    ),
    scalar("PI", "π.", signature("-> DOUBLE", "pi()", lambda: math.pi)),
    scalar(
        "POWER",
        "The base raised to the exponent; Infinity where it does not fit.",
        *_of_doubles("base", "exponent", "power(CAST({base} AS DOUBLE), CAST({exponent} AS DOUBLE))", _power),
    ),
    _plain("RADIANS", "Degrees as radians.", math.radians),
    scalar("RANDOM", "A random number between 0.0 and 1.0.", signature("-> DOUBLE", "rand()", random.random)),
    scalar(
        "SIGN",
        "-1 of a negative number, 0 of zero, 1 of a positive one.",
        _sign("INTEGER"),
        _sign("BIGINT"),
        _sign("DOUBLE"),
    ),
    _plain("SIN", "The sine of an angle in radians.", math.sin),
    _plain("SINH", "The hyperbolic sine.", _hyperbolic_sine),
    _plain("SQRT", "The square root; NaN of a negative number.", math.sqrt),
    _plain("TAN", "The tangent of an angle in radians.", math.tan),
    _plain("TANH", "The hyperbolic tangent.", math.tanh),
)
