"""The Python form of an expression gives what its Spark SQL gives.

Every scalar function and every other kind of expression is computed both ways on generated values. More calls
find more, and so would other seeds.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    MapType,
)

from .both_forms import Case, differences
from .expression_cases import expression_cases
from .function_cases import function_cases
from .generated_values import generated

SEED = 0
ROWS = 30
# Of each signature, besides those with columns.
CONSTANT_CALLS = (1, pytest.param(3, marks=pytest.mark.long))


def test_each_function_has_both_forms() -> None:
    missing = [
        f"{function.name}{form}"
        for function in ALL.values()
        for form in function.signatures
        if (form.python is None) != (function.kind is FunctionKind.AGGREGATE)
    ]
    assert missing == []


@pytest.mark.parametrize("constant_calls", CONSTANT_CALLS)
def test_functions(spark: SparkSession, constant_calls: int) -> None:
    check(spark, list(function_cases(SEED, ROWS, constant_calls)))


def test_other_expressions(spark: SparkSession) -> None:
    check(spark, list(expression_cases(SEED, ROWS)))


def test_keys_of_maps_as_json(spark: SparkSession) -> None:
    """Statements make such maps: MAP(PARSE_DATE(day, 'yyyy-MM-dd') := 1)."""
    chance = random.Random(1)
    kinds = [MapType(key, INTEGER) for key in (DATE, TIMESTAMP, TIME, BIGINT, BOOLEAN)]
    rows = {kind: [(generated(kind, chance),) for _ in range(ROWS)] for kind in kinds}
    check(spark, [Case("TO_JSON_STRING(C0)", (kind,), rows[kind]) for kind in kinds])


def test_long_texts_and_repeated_groups(spark: SparkSession) -> None:
    """Java's stack overflows on these with its usual size, and Spark ends the JVM then."""
    lengths = (9_999, 10_000, 10_001, 60_000)
    rows: list[tuple[Any, ...]] = [("ab" * (length // 2) + "a" * (length % 2),) for length in lengths]
    texts = [
        *(
            f"REGEXP_EXTRACT('{pattern}', C0)"
            for pattern in ("(a|b)*c", "((a|b)+)*b", "[ab]+", "(?x) (a|b) *")
        ),
        "REGEXP_EXTRACT_ALL('(?:ab?)+', C0)",
        "REGEXP_REPLACE(C0, '(a|b)+', 'x')",
        "REGEXP_SPLIT_TO_ARRAY(C0, '(a|b)+b')",
        "CHR('\\u0061' + C0)",
    ]
    cases = [Case(text, (VARCHAR,), rows) for text in texts]
    pairs = [(row[0], pattern) for row in rows for pattern in ("(a|b)*c", "a+", "(" * 20_000)]
    cases += [Case("REGEXP_REPLACE(C0, C1, C1)", (VARCHAR, VARCHAR), pairs)]
    check(spark, cases)


def check(spark: SparkSession, cases: list[Case]) -> None:
    found = differences(spark, cases)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:50])
