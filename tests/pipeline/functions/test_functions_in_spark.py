"""Scalar and table functions on a real Spark: what they give, and that nothing makes them fail.

The Python forms have the same examples; `test_both_forms.py` compares the forms on more values.
"""

from __future__ import annotations

import contextlib
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.expressions.functions.function import FunctionKind
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.expressions.values import milliseconds_of_day
from headrace.pipeline.statements.errors import UnsupportedError

from . import examples_of_collections, examples_of_numbers, examples_of_texts, examples_of_times
from .evaluating import (
    Failure,
    Found,
    call,
    constant_call,
    declared,
    evaluated,
    evaluated_forms,
    form_key,
    forms_of,
    looks_at_constants,
)
from .odd_values import nothing_of, odd_constants, odd_forms, ordinary_columns
from .values import UNKNOWN, Example, Value

ANYWHERE = (
    *examples_of_numbers.EXAMPLES,
    *examples_of_texts.EXAMPLES,
    *examples_of_collections.EXAMPLES,
    *examples_of_times.EXAMPLES,
)
EXAMPLES = (*ANYWHERE, *examples_of_texts.OF_CONSTANTS, *examples_of_times.OF_CONSTANTS)
# What they give cannot be foretold.
MADE_ANEW = {"RANDOM", "UUID", "UNIX_DATE", "UNIX_TIMESTAMP"}


def test_each_function_has_examples() -> None:
    expected = {name for name, each in ALL.items() if each.kind is not FunctionKind.AGGREGATE}
    assert expected - {example.name for example in EXAMPLES} <= {"RANDOM"}


def test_each_form_has_an_example() -> None:
    """Forms that differ by the type of their number only have one between them."""
    missing = []
    for function in ALL.values():
        if function.kind is FunctionKind.AGGREGATE:
            continue
        counts = {len(example.arguments) for example in EXAMPLES if example.name == function.name}
        missing += [
            f"{function.name}{form}"
            for form in function.signatures
            if not form.is_variadic and form.parameters and len(form.parameters) not in counts
        ]
    assert missing == []


def test_examples_as_constants(spark: SparkSession) -> None:
    """Of functions that look at constants before the query runs."""
    chosen = [example for example in EXAMPLES if looks_at_constants(example)]
    calls = [constant_call(example) for example in chosen]
    wrong = []
    for example, (_, kind), found in zip(chosen, calls, evaluated(spark, calls), strict=True):
        if isinstance(found, Failure):
            wrong.append(f"{example} fails: {found.reason}")
        elif found.type != declared(kind):
            wrong.append(f"{example} is a {found.type}, not a {declared(kind)}")
        elif not same(found.values[0], example.expected):
            wrong.append(f"{example} gives {found.values[0]!r}, not {example.expected!r}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


def test_examples_in_columns(spark: SparkSession) -> None:
    """The same from columns, where nothing is known before; and with each argument null: nothing fails."""
    forms = forms_of(ANYWHERE)
    expected: dict[str, list[Example]] = {}
    for example in ANYWHERE:
        expected.setdefault(form_key(example), []).append(example)
    for form in forms.values():
        for row in form.rows[:3]:
            for place, each in enumerate(form.arguments):
                if not each.is_fixed:
                    nothing = nothing_of(each.argument)  # type: ignore[arg-type]
                    form.rows.append((*row[:place], nothing, *row[place + 1 :]))
    wrong = []
    for key, found in zip(forms, evaluated_forms(spark, list(forms.values())), strict=True):
        if isinstance(found, Failure):
            wrong.append(f"{key} fails: {found.reason}")
            continue
        _, kind = constant_call(expected[key][0])
        if found.type != declared(kind):
            wrong.append(f"{key} is a {found.type}, not a {declared(kind)}")
        for example, value in zip(expected[key], found.values, strict=False):
            if not same(value, example.expected):
                wrong.append(f"{example} gives {value!r}, not {example.expected!r}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


def test_examples_in_python() -> None:
    """Without those with lambdas, whose bodies are Spark SQL."""
    wrong = []
    chosen = [example for example in EXAMPLES if all(map(is_known, example.arguments))]
    assert len(chosen) > len(EXAMPLES) * 0.9
    for example in chosen:
        resolution = ALL[example.name].resolve(tuple(each.argument for each in example.arguments))
        assert resolution is not None
        found = as_in_spark(resolution.python(*(each.python for each in example.arguments)))
        if not same(found, example.expected):
            wrong.append(f"{example} gives {found!r}, not {example.expected!r}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


def is_known(value: Value) -> bool:
    return value.python is not UNKNOWN


def as_in_spark(value: Any) -> Any:
    """Times as the examples have them: a text where Spark has a type for it, otherwise a number."""
    match value:
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
        case date():
            return value.isoformat()
        case time():
            return milliseconds_of_day(value)
        case list():
            return [as_in_spark(each) for each in value]
        case dict():
            return {key: as_in_spark(each) for key, each in value.items()}
        case _:
            return value


def test_odd_values_never_fail(spark: SparkSession) -> None:
    scalars = [each for each in ALL.values() if each.kind is not FunctionKind.AGGREGATE]
    forms = [form for function in scalars for form in odd_forms(function, rows=100)]
    failures = [
        f"{form}: {found.reason}"
        for form, found in zip(forms, evaluated_forms(spark, forms), strict=True)
        if not isinstance(found, Found)
    ]
    assert not failures, f"{len(failures)} fail:\n" + "\n".join(failures)


@pytest.mark.long
def test_odd_constants_never_fail(spark: SparkSession) -> None:
    """Of functions that look at constants; what they refuse, they refuse before the query runs."""
    looking = {example.name for example in EXAMPLES if looks_at_constants(example)}
    calls = []
    for name in sorted(looking):
        for values in odd_constants(ALL[name], rows=2):
            with contextlib.suppress(UnsupportedError):
                calls.append(call(name, [each.argument for each in values], [each.spark for each in values]))
    assert len(calls) > 100
    frame = spark.range(1).selectExpr(*ordinary_columns()).localCheckpoint()
    failures = [found.reason for found in evaluated(spark, calls, frame) if isinstance(found, Failure)]
    assert not failures, f"{len(failures)} fail:\n" + "\n".join(failures)


def test_made_anew(spark: SparkSession) -> None:
    calls = {}
    for name in MADE_ANEW:
        resolution = ALL[name].resolve(())
        assert resolution is not None
        calls[name] = resolution.spark(())
    rows = (
        spark.range(2)
        .selectExpr(*(f"{call} AS {name}" for name, call in calls.items()), "unix_millis(now()) AS now")
        .collect()
    )
    first, second = rows
    assert first["UUID"] != second["UUID"]
    assert len(first["UUID"]) == 36
    assert first["RANDOM"] != second["RANDOM"]
    assert 0 <= first["RANDOM"] < 1
    assert abs(first["UNIX_TIMESTAMP"] - first["now"]) < 600_000
    assert first["UNIX_DATE"] == first["UNIX_TIMESTAMP"] // 86_400_000


def same(found: Any, expected: Any) -> bool:  # noqa: PLR0911
    match expected:
        case float():
            if not isinstance(found, float):
                return False
            if math.isnan(expected) or math.isinf(expected):
                return (math.isnan(found) and math.isnan(expected)) or found == expected
            # Distances in the examples are given to one place.
            return math.isclose(found, expected, rel_tol=1e-5 if abs(expected) > 5000 else 1e-14)
        case Decimal():
            return isinstance(found, Decimal) and found == expected and str(found) == str(expected)
        case list():
            return (
                isinstance(found, list)
                and len(found) == len(expected)
                and all(same(one, other) for one, other in zip(found, expected, strict=True))
            )
        case dict():
            return (
                isinstance(found, dict)
                and found.keys() == expected.keys()
                and all(same(found[key], expected[key]) for key in expected)
            )
        case _:
            return type(found) is type(expected) and found == expected
