r"""Aggregate functions.

Where ksqlDB's aggregate depends on the order of rows, it is by `` `__ORDER` ``, a column that the step
provides. What a group keeps is bounded where Spark has something for it: `max_by` with a number keeps as many
rows, `approx_top_k` a table of counts. A sum that does not fit is null (in ksqlDB it wraps around).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.pipeline.expressions.functions.function import Argument, Call, Function, Signature, signature
from headrace.pipeline.expressions.functions.making import aggregate, comparable, same_as_first
from headrace.pipeline.expressions.functions.refusing import positive_constant
from headrace.pipeline.expressions.functions.spark_text import spark_type
from headrace.pipeline.statements.types import (
    DOUBLE,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    ScalarType,
    StructField,
    StructType,
)

_COMPARED: Final = ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BYTES", "DATE", "TIME", "TIMESTAMP")
_NUMBERS: Final = ("INTEGER", "BIGINT", "DOUBLE")
# As many distinct values as ksqlDB counts, and a table in which so many are counted exactly.
_HISTOGRAM: Final = "approx_top_k({value}, 1000, 10000)"
# Registers as in ksqlDB: 2 to the power of 14.
_DISTINCT_ERROR: Final = "0.0087"


def _in_order(value: str) -> str:
    """All values as an array, as their rows come."""
    return (
        f"transform(array_sort(collect_list(struct(`__ORDER` AS o, {value} AS v)), (__hr_l, __hr_r) ->"
        " CASE WHEN __hr_l.o < __hr_r.o THEN -1 WHEN __hr_l.o > __hr_r.o THEN 1 ELSE 0 END),"
        " __hr_e -> __hr_e.v)"
    )


def _by_offset(name: str, spark: str, description: str, *, backwards: bool) -> Function:
    """Rows without an order are left out: so nulls are, where they are to be ignored."""
    known = "CASE WHEN {value} IS NOT NULL THEN `__ORDER` END"
    asked = "CASE WHEN NOT {ignore_nulls} OR {value} IS NOT NULL THEN `__ORDER` END"

    def some(order: str) -> Callable[[Call], str]:
        def template(call: Call) -> str:
            count = positive_constant(call, "n", name)
            found = (
                f"coalesce({spark}({{value}}, {order}, {count}), CAST(array() AS {spark_type(call.result)}))"
            )
            return f"reverse({found})" if backwards else found

        return template

    return aggregate(
        name,
        description,
        signature("T value -> T", f"{spark}({{value}}, {known})"),
        signature("T value, BOOLEAN ignore_nulls -> T", f"{spark}({{value}}, {asked})"),
        signature("T value, INTEGER n -> ARRAY<T>", some(known)),
        signature("T value, INTEGER n, BOOLEAN ignore_nulls -> ARRAY<T>", some(asked)),
    )


def _collect_set(call: Call) -> str:
    """Spark leaves nulls out, and has no order."""
    kind = spark_type(call.result)
    return (
        f"concat(array_sort(collect_set({{value}})), CASE WHEN count(1) > count({{value}})"
        f" THEN CAST(array(NULL) AS {kind}) ELSE CAST(array() AS {kind}) END)"
    )


def _sum(kind: str) -> Signature:
    return signature(
        f"{kind} value -> {kind}",
        lambda call: (
            f"CASE WHEN count({{value}}) = 0 THEN CAST(0 AS {spark_type(call.result)})"
            f" ELSE TRY_CAST(try_sum({{value}}) AS {spark_type(call.result)}) END"
        ),
        result=same_as_first if kind == "DECIMAL" else None,
    )


def _sum_list(kind: str) -> Signature:
    spark = spark_type(ScalarType(kind))
    of_list = (
        f"aggregate({{list}}, CAST(0 AS {spark}), (__hr_a, __hr_e) ->"
        f" try_add(__hr_a, coalesce(__hr_e, CAST(0 AS {spark}))))"
    )
    return signature(
        f"ARRAY<{kind}> list -> {kind}",
        f"CASE WHEN count({{list}}) = 0 THEN CAST(0 AS {spark})"
        f" ELSE TRY_CAST(try_sum({of_list}) AS {spark}) END",
    )


def _extreme(name: str, description: str) -> Function:
    return aggregate(
        name,
        description,
        *(signature(f"{kind} value -> {kind}", f"{name.lower()}({{value}})") for kind in _COMPARED),
        signature("DECIMAL value -> DECIMAL", f"{name.lower()}({{value}})", result=same_as_first),
    )


def _topk_type(arguments: Sequence[Argument]) -> DataType | None:
    first, *others = arguments[:-1]
    columns = [first, *others]
    names = ["sort_col", *(f"col{index}" for index in range(len(others)))]
    fields = tuple(
        StructField(name, each)
        for name, each in zip(names, columns, strict=True)
        if isinstance(each, DataType)
    )
    if len(fields) < len(columns):
        return None
    return ArrayType(StructType(fields)) if others else ArrayType(fields[0].type)


def _topk(call: Call) -> str:
    count = positive_constant(call, "k", "TOPK")
    others = call.all_of("others")
    if not others:
        found = f"max_by({{value}}, {{value}}, {count})"
    else:
        columns = ", ".join(
            f"{each} AS {name}"
            for name, each in zip(
                ("sort_col", *(f"col{index}" for index in range(len(others)))),
                ("{value}", *others),
                strict=True,
            )
        )
        kind = call.type("value")
        if kind is VARCHAR:
            found = f"max_by(struct({columns}), {{value}}, {count})"
        else:
            # Of equal values the earlier row: the smallest order among the smallest negated values.
            number = "{value}" if kind is DOUBLE else "CAST({value} AS DECIMAL(20,0))"
            order = f"CASE WHEN {{value}} IS NOT NULL THEN struct(-({number}), `__ORDER`) END"
            found = f"min_by(struct({columns}), {order}, {count})"
    return f"coalesce({found}, CAST(array() AS {spark_type(call.result)}))"


def _topk_distinct(call: Call) -> str:
    return (
        f"slice(sort_array(collect_set({{value}}), false), 1, {positive_constant(call, 'k', 'TOPKDISTINCT')})"
    )


def _decimal_array(arguments: Sequence[Argument]) -> DataType | None:
    first = arguments[0]
    return ArrayType(first) if isinstance(first, DecimalType) else None


# Spark's own fails where all values of a column are the same.
_X: Final = "CASE WHEN {y} IS NOT NULL THEN CAST({x} AS DOUBLE) END"
_Y: Final = "CASE WHEN {x} IS NOT NULL THEN CAST({y} AS DOUBLE) END"
_CORRELATION: Final = (
    f"element_at(transform(array(try_divide(covar_pop({_X}, {_Y}), stddev_pop({_X}) * stddev_pop({_Y}))),"
    " __hr_r -> CASE WHEN __hr_r IS NULL THEN double('NaN') WHEN __hr_r < -1 THEN -1D"
    " WHEN __hr_r > 1 AND NOT isnan(__hr_r) THEN 1D ELSE __hr_r END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    aggregate(
        "ATTR",
        "The value, where it is the same in all rows; otherwise null.",
        signature(
            "T value -> T",
            "CASE WHEN count({value}) = count(1) AND min({value}) = max({value}) THEN max({value}) END",
            condition=comparable("T"),
        ),
    ),
    aggregate(
        "AVG",
        "The average; 0 of no values.",
        *(signature(f"{kind} value -> DOUBLE", "coalesce(avg({value}), 0D)") for kind in _NUMBERS),
    ),
    aggregate(
        "COLLECT_LIST",
        "All values, in the order of their rows, with nulls.",
        signature("T value -> ARRAY<T>", _in_order("{value}")),
    ),
    aggregate(
        "COLLECT_SET",
        "The values that differ.",
        signature("T value -> ARRAY<T>", _collect_set, condition=comparable("T")),
    ),
    aggregate(
        "CORRELATION",
        "Pearson's coefficient of correlation of two columns.",
        *(signature(f"{kind} x, {kind} y -> DOUBLE", _CORRELATION) for kind in _NUMBERS),
    ),
    aggregate(
        "COUNT",
        "The number of rows, or of those where the value is not null.",
        signature("-> BIGINT", "count(1)"),
        signature("ANY value -> BIGINT", "count({value})"),
    ),
    aggregate(
        "COUNT_DISTINCT",
        "About how many values differ.",
        signature(
            "T value -> BIGINT",
            f"approx_count_distinct({{value}}, {_DISTINCT_ERROR})",
            condition=comparable("T"),
        ),
    ),
    _by_offset("EARLIEST_BY_OFFSET", "min_by", "The first value, or the first n.", backwards=False),
    aggregate(
        "HISTOGRAM",
        "The number of rows for each value, of 1000 values at most.",
        signature(
            "VARCHAR value -> MAP<VARCHAR, BIGINT>",
            f"map_from_entries(transform(filter({_HISTOGRAM}, __hr_e -> __hr_e.item IS NOT NULL),"
            " __hr_e -> struct(__hr_e.item, __hr_e.count)))",
        ),
    ),
    _by_offset("LATEST_BY_OFFSET", "max_by", "The last value, or the last n.", backwards=True),
    _extreme("MAX", "The largest value."),
    _extreme("MIN", "The smallest value."),
    aggregate(
        "STDDEV_SAMP",
        "The sample variance (ksqlDB's name for it); 0 of fewer than two values.",
        *(
            signature(
                f"{kind} value -> DOUBLE", "CASE WHEN count({value}) < 2 THEN 0D ELSE var_samp({value}) END"
            )
            for kind in _NUMBERS
        ),
    ),
    aggregate(
        "STDDEV_SAMPLE",
        "The sample standard deviation; 0 of fewer than two values.",
        *(
            signature(
                f"{kind} value -> DOUBLE",
                "CASE WHEN count({value}) < 2 THEN 0D ELSE stddev_samp({value}) END",
            )
            for kind in _NUMBERS
        ),
    ),
    aggregate("SUM", "The sum; 0 of no values.", *(_sum(kind) for kind in (*_NUMBERS, "DECIMAL"))),
    aggregate("SUM_LIST", "The sum of all elements of arrays.", *(_sum_list(kind) for kind in _NUMBERS)),
    aggregate(
        "TOPK",
        "The k largest values, from the largest; with further columns as structs.",
        *(
            signature(f"{kind} value, ANY... others, INTEGER k -> ARRAY<{kind}>", _topk, result=_topk_type)
            for kind in (*_NUMBERS, "VARCHAR")
        ),
    ),
    aggregate(
        "TOPKDISTINCT",
        "The k largest values that differ, from the largest.",
        *(signature(f"{kind} value, INTEGER k -> ARRAY<{kind}>", _topk_distinct) for kind in _COMPARED),
        signature("DECIMAL value, INTEGER k -> ARRAY<DECIMAL>", _topk_distinct, result=_decimal_array),
    ),
)
