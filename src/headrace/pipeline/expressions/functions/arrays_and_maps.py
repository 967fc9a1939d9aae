"""Functions of arrays and maps.

Maps keep the last of equal keys: the session's `mapKeyDedupPolicy` says so.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.functions.function import Function, Signature, signature
from headrace.pipeline.expressions.functions.making import comparable, primitive, scalar
from headrace.pipeline.expressions.functions.spark_text import spark_type
from headrace.pipeline.statements.types import ScalarType

# An array longer than this fits into no record.
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


def _series(kind: str) -> tuple[Signature, ...]:
    spark = spark_type(ScalarType(kind))
    distance = "(CAST({last} AS DECIMAL(20,0)) - CAST({first} AS DECIMAL(20,0)))"
    step = f"CAST(CASE WHEN {{last}} > {{first}} THEN 1 ELSE -1 END AS {spark})"
    return (
        signature(
            f"{kind} first, {kind} last -> ARRAY<{kind}>",
            f"CASE WHEN abs({distance}) < {_LONGEST_SERIES} THEN sequence({{first}}, {{last}}, {step}) END",
        ),
        signature(
            f"{kind} first, {kind} last, INTEGER step -> ARRAY<{kind}>",
            "CASE WHEN ({step} > 0 AND {last} >= {first} OR {step} < 0 AND {last} <= {first})"
            f" AND abs({distance}) < {_LONGEST_SERIES} * abs(CAST({{step}} AS DECIMAL(10,0)))"
            f" THEN sequence({{first}}, {{last}}, CAST({{step}} AS {spark})) END",
        ),
    )


def _set_function(name: str, description: str) -> Function:
    return scalar(
        name,
        description,
        signature(
            "ARRAY<T> left, ARRAY<T> right -> ARRAY<T>",
            f"{name.lower()}({{left}}, {{right}})",
            condition=comparable("T"),
        ),
    )


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "ARRAY_CONCAT",
        "The elements of both arrays, one after the other.",
        signature(
            "ARRAY<T> left, ARRAY<T> right -> ARRAY<T>",
            "CASE WHEN {left} IS NULL THEN {right} WHEN {right} IS NULL THEN {left}"
            " ELSE concat({left}, {right}) END",
        ),
    ),
    scalar(
        "ARRAY_CONTAINS",
        "Whether the array has such an element.",
        signature(
            "ARRAY<T> array, T element -> BOOLEAN",
            "coalesce(exists({array}, __hr_e -> __hr_e <=> {element}), false)",
            condition=comparable("T"),
        ),
    ),
    scalar(
        "ARRAY_DISTINCT",
        "The elements that differ, in the order in which they come first.",
        signature("ARRAY<T> array -> ARRAY<T>", "array_distinct({array})", condition=comparable("T")),
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
                signature(f"ARRAY<{kind}> array -> VARCHAR", _JOINED % "','"),
                signature(
                    f"ARRAY<{kind}> array, VARCHAR delimiter -> VARCHAR",
                    _JOINED % "coalesce({delimiter}, '')",
                ),
            )
        ),
    ),
    scalar(
        "ARRAY_LENGTH",
        "The number of elements.",
        signature("ARRAY<T> array -> INTEGER", "array_size({array})"),
    ),
    scalar(
        "ARRAY_MAX",
        "The largest element.",
        signature("ARRAY<T> array -> T", "array_max({array})", condition=primitive("T")),
    ),
    scalar(
        "ARRAY_MIN",
        "The smallest element.",
        signature("ARRAY<T> array -> T", "array_min({array})", condition=primitive("T")),
    ),
    scalar(
        "ARRAY_REMOVE",
        "Without the elements that are equal to that one.",
        signature(
            "ARRAY<T> array, T element -> ARRAY<T>",
            "filter({array}, __hr_e -> NOT (__hr_e <=> {element}))",
            condition=comparable("T"),
        ),
    ),
    scalar(
        "ARRAY_SORT",
        "Sorted, nulls at the end; the other way round with 'DESC'.",
        signature("ARRAY<T> array -> ARRAY<T>", "array_sort({array})", condition=primitive("T")),
        signature("ARRAY<T> array, VARCHAR direction -> ARRAY<T>", _SORTED, condition=primitive("T")),
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
        ),
    ),
    scalar(
        "ENTRIES",
        "The entries of a map as structs of K and V, sorted by key if asked for.",
        *(
            signature(
                f"MAP<VARCHAR, {kind}> map, BOOLEAN sorted -> ARRAY<STRUCT<K VARCHAR, V {kind}>>",
                f"CASE WHEN {{sorted}} THEN array_sort({_ENTRIES}) WHEN NOT {{sorted}} THEN {_ENTRIES} END",
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
        signature("MAP<VARCHAR, T> map -> ARRAY<VARCHAR>", "map_keys({map})"),
    ),
    scalar(
        "MAP_UNION",
        "The entries of both maps; of equal keys that of the second.",
        signature(
            "MAP<VARCHAR, T> left, MAP<VARCHAR, T> right -> MAP<VARCHAR, T>",
            "CASE WHEN {left} IS NULL THEN {right} WHEN {right} IS NULL THEN {left}"
            " ELSE map_concat({left}, {right}) END",
        ),
    ),
    scalar(
        "MAP_VALUES",
        "The values of a map.",
        signature("MAP<VARCHAR, T> map -> ARRAY<T>", "map_values({map})"),
    ),
    scalar(
        "SLICE",
        "The elements from the first position to the last, both included.",
        signature("ARRAY<T> array, INTEGER first, INTEGER last -> ARRAY<T>", _SLICE),
    ),
)
