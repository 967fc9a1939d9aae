"""Functions of arrays and maps.

Maps keep the last of equal keys: the session's `mapKeyDedupPolicy` says so. Values are equal and in order as
Spark has it (`value_order`): NaN equals NaN and is the largest DOUBLE, and -0.0 equals 0.0.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, Signature, by_call, signature
from headrace.pipeline.expressions.functions.making import comparable, primitive, scalar
from headrace.pipeline.expressions.functions.spark_text import spark_type
from headrace.pipeline.expressions.functions.value_order import distinct, equal, identity, ordered
from headrace.pipeline.expressions.value_casts import Converter, as_text, map_of
from headrace.pipeline.statements.types import ArrayType, ScalarType

# A longer array does not fit into a record.
_LONGEST_SERIES: Final = 1_000_000

_JOINED: Final = "array_join(transform({array}, __hr_e -> coalesce(CAST(__hr_e AS STRING), 'null')), %s)"
_JOINED_TYPES: Final = ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "VARCHAR")
_SORTED: Final = (
    "CASE WHEN upper({direction}) IN ('ASC', 'ASCENDING') THEN array_sort({array})"
    " WHEN upper({direction}) IN ('DESC', 'DESCENDING') THEN sort_array({array}, false) END"
)
_SLICE: Final = (
    "CASE WHEN coalesce({first}, 1) >= 1 AND coalesce({last}, array_size({array})) <= array_size({array})"
    " AND coalesce({first}, 1) - 1 <= coalesce({last}, array_size({array}))"
    " THEN slice({array}, coalesce({first}, 1),"
    " coalesce({last}, array_size({array})) - coalesce({first}, 1) + 1) END"
)
_ENTRIES: Final = "transform(map_entries({map}), __hr_e -> named_struct('K', __hr_e.key, 'V', __hr_e.value))"


def _series_of(first: int, last: int, step: int | None = None) -> list[int] | None:
    by = step if step is not None else 1 if last > first else -1
    if by == 0 or (last - first) * by < 0 or abs(last - first) >= _LONGEST_SERIES * abs(by):
        return None
    return list(range(first, last + (1 if by > 0 else -1), by))


def _series(kind: str) -> tuple[Signature, ...]:
    spark = spark_type(ScalarType(kind))
    distance = "(CAST({last} AS DECIMAL(20,0)) - CAST({first} AS DECIMAL(20,0)))"
    step = f"CAST(CASE WHEN {{last}} > {{first}} THEN 1 ELSE -1 END AS {spark})"
    return (
        signature(
            f"{kind} first, {kind} last -> ARRAY<{kind}>",
            f"CASE WHEN abs({distance}) < {_LONGEST_SERIES} THEN sequence({{first}}, {{last}}, {step}) END",
            _series_of,
        ),
        signature(
            f"{kind} first, {kind} last, INTEGER step -> ARRAY<{kind}>",
            "CASE WHEN ({step} > 0 AND {last} >= {first} OR {step} < 0 AND {last} <= {first})"
            f" AND abs({distance}) < {_LONGEST_SERIES} * abs(CAST({{step}} AS DECIMAL(10,0)))"
            f" THEN sequence({{first}}, {{last}}, CAST({{step}} AS {spark})) END",
            _series_of,
        ),
    )


def _union(left: list[Any], right: list[Any]) -> list[Any]:
    return distinct([*left, *right])


def _except(left: list[Any], right: list[Any]) -> list[Any]:
    others = {identity(each) for each in right}
    return [each for each in distinct(left) if identity(each) not in others]


def _intersect(left: list[Any], right: list[Any]) -> list[Any]:
    others = {identity(each) for each in right}
    return [each for each in distinct(left) if identity(each) in others]


_SETS: Final = {"ARRAY_UNION": _union, "ARRAY_EXCEPT": _except, "ARRAY_INTERSECT": _intersect}


def _set_function(name: str, description: str) -> Function:
    return scalar(
        name,
        description,
        signature(
            "ARRAY<T> left, ARRAY<T> right -> ARRAY<T>",
            f"{name.lower()}({{left}}, {{right}})",
            _SETS[name],
            condition=comparable("T"),
        ),
    )


def _joined(call: Call) -> Converter:
    kind = call.type("array")
    assert isinstance(kind, ArrayType)
    text = as_text(kind.element)

    def joined(array: list[Any] | None, delimiter: str | None = None) -> str | None:
        if array is None:
            return None
        between = "," if "delimiter" not in call.types else delimiter or ""
        return between.join("null" if each is None else text(each) for each in array)

    return joined


def _largest(array: list[Any]) -> Any:
    known = [each for each in array if each is not None]
    return max(known, key=ordered) if known else None


def _smallest(array: list[Any]) -> Any:
    known = [each for each in array if each is not None]
    return min(known, key=ordered) if known else None


def _sort(array: list[Any], direction: str = "ASC") -> list[Any] | None:
    """Nulls come last, whatever the direction."""
    is_descending = direction.upper() in ("DESC", "DESCENDING")
    if not is_descending and direction.upper() not in ("ASC", "ASCENDING"):
        return None
    known = sorted((each for each in array if each is not None), key=ordered, reverse=is_descending)
    return known + [None] * (len(array) - len(known))


def _entries(entries: dict[str, Any], is_sorted: bool) -> list[dict[str, Any]]:
    keys = sorted(entries, key=ordered) if is_sorted else entries
    return [{"K": key, "V": entries[key]} for key in keys]


def _slice(array: list[Any] | None, first: int | None, last: int | None) -> list[Any] | None:
    if array is None:
        return None
    start, end = (1 if first is None else first) - 1, len(array) if last is None else last
    return array[start:end] if 0 <= start <= end <= len(array) else None


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "ARRAY_CONCAT",
        "The elements of both arrays, one after the other.",
        signature(
            "ARRAY<T> left, ARRAY<T> right -> ARRAY<T>",
            "CASE WHEN {left} IS NULL THEN {right} WHEN {right} IS NULL THEN {left}"
            " ELSE concat({left}, {right}) END",
            lambda left, right: None if left is None and right is None else (left or []) + (right or []),
            nulls=True,
        ),
    ),
    scalar(
        "ARRAY_CONTAINS",
        "Whether the array has such an element.",
        signature(
            "ARRAY<T> array, T element -> BOOLEAN",
            "coalesce(exists({array}, __hr_e -> __hr_e <=> {element}), false)",
            lambda array, element: array is not None and any(equal(each, element) for each in array),
            nulls=True,
            condition=comparable("T"),
        ),
    ),
    scalar(
        "ARRAY_DISTINCT",
        "Each distinct element once, in the order of first occurrence.",
        signature(
            "ARRAY<T> array -> ARRAY<T>", "array_distinct({array})", distinct, condition=comparable("T")
        ),
    ),
    _set_function("ARRAY_EXCEPT", "The elements of the first array that are not in the second, each once."),
    _set_function("ARRAY_INTERSECT", "The elements that are in both arrays, each once."),
    scalar(
        "ARRAY_JOIN",
        "The elements as one text, with the delimiter or a comma between them.",
        *(
            form
            for kind in _JOINED_TYPES
            for form in (
                signature(f"ARRAY<{kind}> array -> VARCHAR", _JOINED % "','", by_call(_joined)),
                signature(
                    f"ARRAY<{kind}> array, VARCHAR delimiter -> VARCHAR",
                    _JOINED % "coalesce({delimiter}, '')",
                    by_call(_joined),
                    nulls=True,
                ),
            )
        ),
    ),
    scalar(
        "ARRAY_LENGTH",
        "The number of elements.",
        signature("ARRAY<T> array -> INTEGER", "array_size({array})", len),
    ),
    scalar(
        "ARRAY_MAX",
        "The largest element.",
        signature("ARRAY<T> array -> T", "array_max({array})", _largest, condition=primitive("T")),
    ),
    scalar(
        "ARRAY_MIN",
        "The smallest element.",
        signature("ARRAY<T> array -> T", "array_min({array})", _smallest, condition=primitive("T")),
    ),
    scalar(
        "ARRAY_REMOVE",
        "The array without the elements that equal the given one.",
        signature(
            "ARRAY<T> array, T element -> ARRAY<T>",
            "filter({array}, __hr_e -> NOT (__hr_e <=> {element}))",
            lambda array, element: (
                None if array is None else [each for each in array if not equal(each, element)]
            ),
            nulls=True,
            condition=comparable("T"),
        ),
    ),
    scalar(
        "ARRAY_SORT",
        "The array sorted, descending with 'DESC'; nulls come last.",
        signature("ARRAY<T> array -> ARRAY<T>", "array_sort({array})", _sort, condition=primitive("T")),
        signature("ARRAY<T> array, VARCHAR direction -> ARRAY<T>", _SORTED, _sort, condition=primitive("T")),
    ),
    _set_function("ARRAY_UNION", "The elements of both arrays, each once."),
    scalar(
        "AS_MAP",
        "A map of keys and values; keys of null are left out.",
        signature(
            "ARRAY<VARCHAR> keys, ARRAY<T> values -> MAP<VARCHAR, T>",
            "CASE WHEN {values} IS NOT NULL THEN map_from_entries(filter(transform({keys},"
            " (__hr_k, __hr_i) -> struct(__hr_k AS k, get({values}, __hr_i) AS v)),"
            " __hr_e -> __hr_e.k IS NOT NULL)) END",
            lambda keys, values: map_of(zip_longest(keys, values[: len(keys)])),
        ),
    ),
    scalar(
        "ENTRIES",
        "The entries of a map as structs of K and V, sorted by key if asked for.",
        *(
            signature(
                f"MAP<VARCHAR, {kind}> map, BOOLEAN sorted -> ARRAY<STRUCT<K VARCHAR, V {kind}>>",
                f"CASE WHEN {{sorted}} THEN array_sort({_ENTRIES}) WHEN NOT {{sorted}} THEN {_ENTRIES} END",
                _entries,
            )
            for kind in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR")
        ),
    ),
    scalar(
        "GENERATE_SERIES",
        "The numbers from the first to the last, by steps of 1 or of that size.",
        *_series("INTEGER"),
        *_series("BIGINT"),
    ),
    scalar(
        "MAP_KEYS",
        "The keys of a map.",
        signature("MAP<VARCHAR, T> map -> ARRAY<VARCHAR>", "map_keys({map})", list),
    ),
    scalar(
        "MAP_UNION",
        "The entries of both maps; for a key in both, the second map's.",
        signature(
            "MAP<VARCHAR, T> left, MAP<VARCHAR, T> right -> MAP<VARCHAR, T>",
            "CASE WHEN {left} IS NULL THEN {right} WHEN {right} IS NULL THEN {left}"
            " ELSE map_concat({left}, {right}) END",
            lambda left, right: None if left is None and right is None else {**(left or {}), **(right or {})},
            nulls=True,
        ),
    ),
    scalar(
        "MAP_VALUES",
        "The values of a map.",
        signature(
            "MAP<VARCHAR, T> map -> ARRAY<T>", "map_values({map})", lambda entries: list(entries.values())
        ),
    ),
    scalar(
        "SLICE",
        "The elements from the first position to the last, both included.",
        signature("ARRAY<T> array, INTEGER first, INTEGER last -> ARRAY<T>", _SLICE, _slice, nulls=True),
    ),
)
