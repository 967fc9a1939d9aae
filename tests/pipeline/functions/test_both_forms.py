"""The Python form of an expression gives what its Spark SQL gives.

Every scalar function and every other kind of expression is computed both ways on generated values. More seeds
find more: `SEEDS` says how many a run tries.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.functions.table import ALL

from .both_forms import Case, differences
from .expression_cases import expression_cases
from .function_cases import function_cases

SEEDS = range(1)
ROWS = 30


def test_each_function_has_both_forms() -> None:
    missing = [
        f"{function.name}{form}"
        for function in ALL.values()
        for form in function.signatures
        if (form.python is None) != (function.kind is FunctionKind.AGGREGATE)
    ]
    assert missing == []


def test_functions(spark: SparkSession) -> None:
    check(spark, [case for seed in SEEDS for case in function_cases(seed, ROWS)])


def test_other_expressions(spark: SparkSession) -> None:
    check(spark, [case for seed in SEEDS for case in expression_cases(seed, ROWS)])


def check(spark: SparkSession, cases: list[Case]) -> None:
    found = differences(spark, cases)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:50])
