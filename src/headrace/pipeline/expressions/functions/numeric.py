"""Functions of numbers, without rounding (`rounding.py`).

ksqlDB computes in Java's doubles: what has no value is NaN or infinite, never null, and an INTEGER or BIGINT
whose absolute value does not fit stays as it is.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.functions.function import Call, Function, Signature, signature
from headrace.pipeline.expressions.functions.making import same_as_first, scalar, widest_decimal
from headrace.pipeline.expressions.functions.spark_text import spark_type

_NAN: Final = "double('NaN')"
_LN: Final = (
    "CASE WHEN {value} > 0 THEN ln({value}) WHEN {value} = 0 THEN double('-Infinity')"
    f" WHEN {{value}} < 0 THEN {_NAN} END"
)
_SMALLEST: Final = {"INTEGER": "-2147483648", "BIGINT": "-9223372036854775808L"}
_COMPARED: Final = ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BYTES", "DATE", "TIME", "TIMESTAMP")


def _of_double(template: str) -> tuple[Signature, ...]:
    """A form each for INTEGER, BIGINT and DOUBLE (a DECIMAL becomes a DOUBLE); `{x}` is the DOUBLE."""
    return (
        signature("INTEGER value -> DOUBLE", template.replace("{x}", "CAST({value} AS DOUBLE)")),
        signature("BIGINT value -> DOUBLE", template.replace("{x}", "CAST({value} AS DOUBLE)")),
        signature("DOUBLE value -> DOUBLE", template.replace("{x}", "{value}")),
    )


def _of_doubles(first: str, second: str, template: str) -> tuple[Signature, ...]:
    return tuple(
        signature(f"{kind} {first}, {kind} {second} -> DOUBLE", template)
        for kind in ("INTEGER", "BIGINT", "DOUBLE")
    )


def _plain(name: str, description: str, spark: str | None = None) -> Function:
    return scalar(name, description, *_of_double(spark or f"{name.lower()}({{x}})"))


def _abs(kind: str) -> Signature:
    smallest = _SMALLEST[kind]
    return signature(
        f"{kind} value -> {kind}", f"CASE WHEN {{value}} = {smallest} THEN {{value}} ELSE abs({{value}}) END"
    )


def _abs_of_decimal(call: Call) -> str:
    # Spark's own rounds to 34 digits, and fails where that does not fit.
    kind = spark_type(call.result)
    negated = f"TRY_CAST(try_subtract(CAST(0 AS {kind}), {{value}}) AS {kind})"
    return f"CASE WHEN {{value}} < 0 THEN {negated} ELSE {{value}} END"


def _sign(kind: str) -> Signature:
    # NaN is larger than every number in Spark, and has no sign in Java.
    not_a_number = " WHEN isnan({value}) THEN 0" if kind == "DOUBLE" else ""
    return signature(
        f"{kind} value -> INTEGER",
        f"CASE{not_a_number} WHEN {{value}} > 0 THEN 1"
        " WHEN {value} < 0 THEN -1 WHEN {value} = 0 THEN 0 END",
    )


def _most(name: str, description: str) -> Function:
    def spark(call: Call) -> str:
        others = call.all_of("others")
        return f"{name.lower()}({', '.join(['{first}', *others])})" if others else "{first}"

    return scalar(
        name,
        description,
        *(signature(f"{kind} first, {kind}... others -> {kind}", spark) for kind in _COMPARED),
        signature("DECIMAL first, DECIMAL... others -> DECIMAL", spark, result=widest_decimal),
    )


_LOG_OF_BASE: Final = (
    "CASE WHEN {base} IS NULL OR {value} IS NULL THEN NULL"
    f" WHEN {{base}} <= 0 OR {{base}} = 1 OR {{value}} < 0 THEN {_NAN}"
    " WHEN {value} = 0 THEN double('-Infinity') / ln({base}) ELSE ln({value}) / ln({base}) END"
)

# Great circles by haversines, on a globe of this radius.
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
        signature("DOUBLE value -> DOUBLE", "abs({value})"),
        signature("DECIMAL value -> DECIMAL", _abs_of_decimal, result=same_as_first),
    ),
    _plain("ACOS", "The inverse cosine, in radians; NaN outside of [-1, 1]."),
    _plain("ASIN", "The inverse sine, in radians; NaN outside of [-1, 1]."),
    _plain("ATAN", "The inverse tangent, in radians."),
    scalar(
        "ATAN2",
        "The inverse tangent of y / x, in radians.",
        *_of_doubles("y", "x", "atan2(CAST({y} AS DOUBLE), CAST({x} AS DOUBLE))"),
    ),
    _plain("CBRT", "The cube root."),
    _plain("COS", "The cosine of an angle in radians."),
    _plain("COSH", "The hyperbolic cosine."),
    _plain("COT", "The cotangent of an angle in radians; infinite at 0."),
    _plain("DEGREES", "Radians as degrees."),
    _plain("EXP", "e raised to that power."),
    scalar(
        "GEO_DISTANCE",
        "The great-circle distance of two points in decimal degrees, in kilometres or miles.",
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2 -> DOUBLE",
            _DISTANCE.replace("RADIUS", "6371D"),
        ),
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2, VARCHAR unit -> DOUBLE",
            _DISTANCE.replace("RADIUS", f"({_RADIUS})"),
        ),
    ),
    _most("GREATEST", "The largest of the values that are not null."),
    _most("LEAST", "The smallest of the values that are not null."),
    _plain("LN", "The natural logarithm; -Infinity of 0, NaN of a negative number.", _LN),
    scalar(
        "LOG",
        "The logarithm, of base e or of the given base.",
        *_of_double(_LN),
        *_of_doubles("base", "value", _LOG_OF_BASE),
    ),
    scalar("PI", "π.", signature("-> DOUBLE", "pi()")),
    scalar(
        "POWER",
        "The base raised to the exponent; Infinity where it does not fit.",
        *_of_doubles("base", "exponent", "power(CAST({base} AS DOUBLE), CAST({exponent} AS DOUBLE))"),
    ),
    _plain("RADIANS", "Degrees as radians."),
    scalar("RANDOM", "A random number between 0.0 and 1.0.", signature("-> DOUBLE", "rand()")),
    scalar(
        "SIGN",
        "-1 of a negative number, 0 of zero, 1 of a positive one.",
        _sign("INTEGER"),
        _sign("BIGINT"),
        _sign("DOUBLE"),
    ),
    _plain("SIN", "The sine of an angle in radians."),
    _plain("SINH", "The hyperbolic sine."),
    _plain("SQRT", "The square root; NaN of a negative number."),
    _plain("TAN", "The tangent of an angle in radians."),
    _plain("TANH", "The hyperbolic tangent."),
)
