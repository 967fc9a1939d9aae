"""TRANSFORM, FILTER and REDUCE: lambdas over arrays and maps.

A lambda over a map takes a key and a value; Spark's lambdas over entries take one parameter. So the entry
becomes a map of its own, and `transform_values` names both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, signature
from headrace.pipeline.expressions.functions.making import comparable, scalar
from headrace.pipeline.expressions.functions.spark_text import lambda_parts, spark_type
from headrace.pipeline.expressions.functions.value_order import distinct


def _reduce_array(call: Call) -> str:
    (state, element), body = lambda_parts(call.texts["lambda"])
    reduced = f"({state}, {element}) -> CAST({_literally(body)} AS {spark_type(call.result)})"
    return (
        "CASE WHEN {array} IS NULL OR {state} IS NULL THEN {state}"
        f" ELSE aggregate({{array}}, {{state}}, {reduced}) END"
    )


def _reduce_map(call: Call) -> str:
    (state, key, value), body = lambda_parts(call.texts["lambda"])
    entry = "map(__hr_e.key, __hr_e.value)"
    of_entry = f"get(map_values(transform_values({entry}, ({key}, {value}) -> {_literally(body)})), 0)"
    reduced = f"({state}, __hr_e) -> CAST({of_entry} AS {spark_type(call.result)})"
    return (
        "CASE WHEN {map} IS NULL OR {state} IS NULL THEN {state}"
        f" ELSE aggregate(map_entries({{map}}), {{state}}, {reduced}) END"
    )


def _literally(text: str) -> str:
    """Text as it is, for use in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _reduced(values: list[Any] | None, state: Any, step: Callable[[Any, Any], Any]) -> Any:
    return state if values is None or state is None else reduce(step, values, state)


def _reduced_map(entries: dict[Any, Any] | None, state: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
    pairs = None if entries is None else list(entries.items())
    return _reduced(pairs, state, lambda found, pair: step(found, *pair))


def _transformed_map(
    entries: dict[Any, Any], key_of: Callable[[Any, Any], Any], value_of: Callable[[Any, Any], Any]
) -> dict[Any, Any] | None:
    keys, values = ([make(*pair) for pair in entries.items()] for make in (key_of, value_of))
    if None in keys or any(each is None for each in values) or len(distinct(keys)) < len(keys):
        return None
    return dict(zip(keys, values, strict=True))


# Equal or missing keys are an error in ksqlDB, as are missing values.
_TRANSFORM_MAP: Final = (
    "element_at(transform(array(struct(map_values(transform_values({map}, {keys})) AS k,"
    " map_values(transform_values({map}, {values})) AS v)), __hr_m -> CASE WHEN"
    " NOT exists(__hr_m.k, __hr_e -> __hr_e IS NULL) AND NOT exists(__hr_m.v, __hr_e -> __hr_e IS NULL)"
    " AND array_size(array_distinct(__hr_m.k)) = array_size(__hr_m.k)"
    " THEN map_from_arrays(__hr_m.k, __hr_m.v) END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "FILTER",
        "The elements or entries for which the lambda is true.",
        signature(
            "ARRAY<T> array, (T) => BOOLEAN lambda -> ARRAY<T>",
            "filter({array}, {lambda})",
            lambda array, is_kept: [each for each in array if is_kept(each)],
        ),
        signature(
            "MAP<K, V> map, (K, V) => BOOLEAN lambda -> MAP<K, V>",
            "map_filter({map}, {lambda})",
            lambda entries, is_kept: {key: value for key, value in entries.items() if is_kept(key, value)},
        ),
    ),
    scalar(
        "REDUCE",
        "Combines the state with each element or entry in turn, by the lambda.",
        signature("ARRAY<T> array, S state, (S, T) => S lambda -> S", _reduce_array, _reduced, nulls=True),
        signature(
            "MAP<K, V> map, S state, (S, K, V) => S lambda -> S", _reduce_map, _reduced_map, nulls=True
        ),
    ),
    scalar(
        "TRANSFORM",
        "Applies the lambda to each element, or the lambdas to each key and each value.",
        signature(
            "ARRAY<T> array, (T) => R lambda -> ARRAY<R>",
            "transform({array}, {lambda})",
            lambda array, make: [make(each) for each in array],
        ),
        signature(
            "MAP<K, V> map, (K, V) => R keys, (K, V) => T values -> MAP<R, T>",
            _TRANSFORM_MAP,
            _transformed_map,
            condition=comparable("R"),
        ),
    ),
)
