"""Aggregates and window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Call, Family, built
from headrace.query.druid.casting import text, utc
from headrace.query.druid.kinds import Kind

AGGREGATES: Final = Family(title="Aggregates")
WINDOWS: Final = Family(title="Window functions")
_SIZE: Final = "the size is not needed and ignored"
_EXACT: Final = "an approximation by HyperLogLog, as in Druid; the error differs"
_QUANTILE: Final = "an approximation by t-digest"


def _sum(call: Call) -> Kind:
    return call.kind(0) if call.kind(0) in (Kind.LONG, Kind.DOUBLE) else Kind.UNKNOWN


def _count(call: Call) -> exp.Expr:
    if not call.distinct:
        return call.build("count({0})")
    if not call.context.exact_distinct and len(call) == 1:
        return call.build("approx_count_distinct({0})")
    return call.build("count(DISTINCT {0})" if len(call) == 1 else f"count(DISTINCT ({_places(len(call))}))")


def _places(count: int) -> str:
    return ", ".join(f"{{{index}}}" for index in range(count))


def _by_time(function: str) -> Callable[[Call], exp.Expr]:
    def build(call: Call) -> exp.Expr:
        time = call.time(call.tree(0))
        if time is None:
            raise call.error(
                f"{call.name} needs the column __time, which its table or subquery does not have"
            )
        return built(f"{function}({{0}}, {{1}})", call.tree(0), time)

    return build


def _by_expression(function: str) -> Callable[[Call], exp.Expr]:
    return lambda call: built(f"{function}({{0}}, {{1}})", call.tree(0), utc(call.arguments[1], call.context))


def _string_agg(call: Call) -> exp.Expr:
    distinct = "DISTINCT " if call.distinct else ""
    separator = exp.Literal.string((call.optional_literal(1, "The separator") or "") if len(call) > 1 else "")
    return built(f"string_agg({distinct}{{0}}, {{1}})", text(call.arguments[0], call.context), separator)


def _array_agg(call: Call) -> exp.Expr:
    return call.build(f"list({'DISTINCT ' if call.distinct else ''}{{0}})", 0)


def _quantile(call: Call) -> exp.Expr:
    original = call.arguments[1].original
    try:
        fraction = -1.0 if original is None else float(original.this)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise call.error(f"The probability of {call.name} must be a literal number from 0 to 1")
    return call.build(f"approx_quantile(CAST({{0}} AS DOUBLE), {fraction!r})", 0)


AGGREGATES.add(
    "COUNT([expr[, ...]])", _count, Kind.LONG, aggregate=True, takes_distinct=True,
    note="DISTINCT counts exactly, unless the context has `useApproximateCountDistinct`: true",
)  # fmt: skip
AGGREGATES.add("SUM(expr)", "sum({0})", _sum, aggregate=True)
AGGREGATES.add("MIN(expr)", "min({0})", 0, aggregate=True, note="of text, too")
AGGREGATES.add("MAX(expr)", "max({0})", 0, aggregate=True, note="of text, too")
AGGREGATES.add("AVG(expr)", "avg({0})", Kind.DOUBLE, aggregate=True)
AGGREGATES.add(
    "APPROX_COUNT_DISTINCT(expr)", "approx_count_distinct({0})", Kind.LONG, "APPROX_COUNT_DISTINCT_BUILTIN",
    aggregate=True, note=_EXACT,
)  # fmt: skip
AGGREGATES.add(
    "APPROX_COUNT_DISTINCT_DS_HLL(expr[, lgK[, tgtHllType]])",
    lambda call: call.build("approx_count_distinct({0})", 0), Kind.LONG,
    aggregate=True, note=_EXACT,
)  # fmt: skip
AGGREGATES.add(
    "APPROX_COUNT_DISTINCT_DS_THETA(expr[, size])",
    lambda call: call.build("approx_count_distinct({0})", 0), Kind.LONG,
    aggregate=True, note=_EXACT,
)  # fmt: skip
AGGREGATES.add(
    "APPROX_QUANTILE(expr, probability[, resolution])", _quantile, Kind.DOUBLE, "APPROX_QUANTILE_DS",
    aggregate=True, note=_QUANTILE,
)  # fmt: skip
AGGREGATES.add(
    "APPROX_QUANTILE_FIXED_BUCKETS(expr, probability, numBuckets, lowerLimit, upperLimit[, outliers])",
    _quantile, Kind.DOUBLE, aggregate=True, note=_QUANTILE,
)  # fmt: skip
for name in ("VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"):
    AGGREGATES.add(f"{name}(expr)", f"{name.lower()}({{0}})", Kind.DOUBLE, aggregate=True)
AGGREGATES.add("EARLIEST(expr[, maxBytesPerValue])", _by_time("arg_min_null"), 0, aggregate=True, note=_SIZE)
AGGREGATES.add("LATEST(expr[, maxBytesPerValue])", _by_time("arg_max_null"), 0, aggregate=True, note=_SIZE)
AGGREGATES.add(
    "EARLIEST_BY(expr, timestampExpr[, maxBytesPerValue])", _by_expression("arg_min_null"), 0,
    aggregate=True, note=_SIZE,
)  # fmt: skip
AGGREGATES.add(
    "LATEST_BY(expr, timestampExpr[, maxBytesPerValue])", _by_expression("arg_max_null"), 0,
    aggregate=True, note=_SIZE,
)  # fmt: skip
AGGREGATES.add(
    "ANY_VALUE(expr[, maxBytesPerValue[, aggregateMultipleValues]])",
    lambda call: call.build("any_value({0})", 0), 0,
    aggregate=True, note=f"never null if there is a value; {_SIZE}",
)  # fmt: skip
AGGREGATES.add(
    "GROUPING(expr[, ...])",
    lambda call: call.build(f"grouping({_places(len(call))})"),
    Kind.LONG,
    aggregate=True,
)
AGGREGATES.add(
    "ARRAY_AGG(expr[, size])", _array_agg, Kind.ARRAY, aggregate=True, takes_distinct=True, note=_SIZE
)
AGGREGATES.add(
    "ARRAY_CONCAT_AGG(expr[, size])", lambda call: call.build("flatten(list({0}))", 0), Kind.ARRAY,
    aggregate=True, note=_SIZE,
)  # fmt: skip
AGGREGATES.add(
    "STRING_AGG(expr[, separator[, size]])", _string_agg, Kind.STRING, "LISTAGG",
    aggregate=True, takes_distinct=True, note=_SIZE,
)  # fmt: skip
for name in ("BIT_AND", "BIT_OR", "BIT_XOR"):
    AGGREGATES.add(f"{name}(expr)", f"{name.lower()}(CAST({{0}} AS BIGINT))", Kind.LONG, aggregate=True)

for name in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
    WINDOWS.add(f"{name}()", f"{name.lower()}()", Kind.LONG, window=True)
for name in ("PERCENT_RANK", "CUME_DIST"):
    WINDOWS.add(f"{name}()", f"{name.lower()}()", Kind.DOUBLE, window=True)
WINDOWS.add("NTILE(tiles)", "ntile({0})", Kind.LONG, window=True)
for name in ("LAG", "LEAD"):
    WINDOWS.add(
        f"{name}(expr[, offset])",
        {1: f"{name.lower()}({{0}})", 2: f"{name.lower()}({{0}}, {{1}})"},
        0,
        window=True,
    )
for name in ("FIRST_VALUE", "LAST_VALUE"):
    WINDOWS.add(f"{name}(expr)", f"{name.lower()}({{0}})", 0, window=True)
