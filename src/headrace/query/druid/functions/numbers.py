"""Functions of numbers."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Call, Family
from headrace.query.druid.kinds import Kind

NUMBERS: Final = Family(title="Numbers")

_REAL = ("EXP", "LN", "SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS", "SQRT")


def wider(call: Call) -> Kind:
    """The kind of an operation on numbers: an integer only if all are."""
    kinds = {argument.kind for argument in call.arguments}
    if kinds <= {Kind.LONG}:
        return Kind.LONG
    return Kind.DOUBLE if Kind.DOUBLE in kinds else Kind.UNKNOWN


def _div(call: Call) -> exp.Expr:
    if wider(call) is Kind.LONG:
        return call.build("({0} // {1})")
    return call.build("TRY_CAST(trunc({0} // {1}) AS BIGINT)")


NUMBERS.add("PI()", "pi()", Kind.DOUBLE)
NUMBERS.add("ABS(expr)", "abs({0})", 0)
for name in _REAL:
    NUMBERS.add(f"{name}(expr)", f"{name.lower()}(CAST({{0}} AS DOUBLE))", Kind.DOUBLE)
NUMBERS.add("LOG10(expr)", "log10(CAST({0} AS DOUBLE))", Kind.DOUBLE)
NUMBERS.add("ATAN2(y, x)", "atan2(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", Kind.DOUBLE)
NUMBERS.add("POWER(expr, power)", "pow(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", Kind.DOUBLE)
NUMBERS.add("TRUNCATE(expr[, digits])", {1: "trunc({0})", 2: "trunc({0}, {1})"}, 0, "TRUNC")
NUMBERS.add("ROUND(expr[, digits])", {1: "round({0})", 2: "round({0}, {1})"}, 0)
NUMBERS.add("MOD(x, y)", "({0} % {1})", wider)
NUMBERS.add("DIV(x, y)", _div, Kind.LONG)
NUMBERS.add("SAFE_DIVIDE(x, y)", "({0} // nullif({1}, 0))", wider)
NUMBERS.add("BITWISE_AND(expr1, expr2)", "(CAST({0} AS BIGINT) & CAST({1} AS BIGINT))", Kind.LONG)
NUMBERS.add("BITWISE_OR(expr1, expr2)", "(CAST({0} AS BIGINT) | CAST({1} AS BIGINT))", Kind.LONG)
NUMBERS.add("BITWISE_XOR(expr1, expr2)", "xor(CAST({0} AS BIGINT), CAST({1} AS BIGINT))", Kind.LONG)
NUMBERS.add("BITWISE_COMPLEMENT(expr)", "(~CAST({0} AS BIGINT))", Kind.LONG)
NUMBERS.add("BITWISE_SHIFT_LEFT(expr1, expr2)", "(CAST({0} AS BIGINT) << CAST({1} AS INTEGER))", Kind.LONG)
NUMBERS.add("BITWISE_SHIFT_RIGHT(expr1, expr2)", "(CAST({0} AS BIGINT) >> CAST({1} AS INTEGER))", Kind.LONG)
