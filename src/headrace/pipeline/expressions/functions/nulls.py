"""Functions that deal with null, and AS_VALUE."""

from __future__ import annotations

from typing import Any, Final

from headrace.pipeline.expressions.comparisons import same
from headrace.pipeline.expressions.functions.function import Function, signature
from headrace.pipeline.expressions.functions.making import comparable, scalar


def _first_known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "AS_VALUE",
        "A copy of a key column, for the value.",
        signature("T column -> T", "{column}", lambda value: value),
    ),
    scalar(
        "COALESCE",
        "The first of the values that is not null.",
        signature(
            "T first, T... others -> T",
            lambda call: f"coalesce({', '.join(['{first}', *call.all_of('others')])})",
            _first_known,
            nulls=True,
        ),
    ),
    scalar(
        "IFNULL",
        "The expression, or the other value where it is null.",
        signature(
            "T expression, T alternative -> T",
            "coalesce({expression}, {alternative})",
            _first_known,
            nulls=True,
        ),
    ),
    scalar(
        "NULLIF",
        "Null where both are equal, otherwise the first.",
        signature(
            "T first, T second -> T",
            "CASE WHEN {first} <=> {second} THEN NULL ELSE {first} END",
            lambda first, second: None if same(first, second) else first,
            nulls=True,
            condition=comparable("T"),
        ),
    ),
)
