"""Table functions. Their forms give an array, never null, with an element for each row."""

from __future__ import annotations

from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, signature
from headrace.pipeline.expressions.functions.making import table
from headrace.pipeline.expressions.functions.spark_text import spark_type
from headrace.pipeline.statements.types import ArrayType

_MOST_COLUMNS: Final = 20


def _cube(call: Call) -> str:
    """Each row is a subset of the non-null columns: the bits of a counter, with the first column highest."""
    bit = "shiftleft(1, array_size({columns}) - 1 - __hr_i)"
    known = (
        "aggregate(transform({columns},"
        f" (__hr_c, __hr_i) -> CASE WHEN __hr_c IS NULL THEN 0 ELSE {bit} END), 0,"
        " (__hr_a, __hr_b) -> __hr_a + __hr_b)"
    )
    row = f"transform({{columns}}, (__hr_c, __hr_i) -> CASE WHEN (__hr_m & {bit}) <> 0 THEN __hr_c END)"
    rows = (
        f"element_at(transform(array({known}), __hr_k -> transform(filter(sequence(0, __hr_k),"
        f" __hr_m -> (__hr_m & __hr_k) = __hr_m), __hr_m -> {row})), 1)"
    )
    return (
        f"CASE WHEN array_size({{columns}}) <= {_MOST_COLUMNS} THEN {rows}"
        f" ELSE CAST(array() AS {spark_type(ArrayType(call.result))}) END"
    )


def _rows_of_cube(columns: list[Any] | None) -> list[list[Any]]:
    if columns is None or len(columns) > _MOST_COLUMNS:
        return []
    rows: list[list[Any]] = [[]]
    for column in columns:
        kept = [None] if column is None else [None, column]
        rows = [[*row, each] for row in rows for each in kept]
    return rows


FUNCTIONS: Final[tuple[Function, ...]] = (
    table(
        "CUBE_EXPLODE",
        "A row for each combination of the columns, each with its value or null.",
        signature("ARRAY<T> columns -> ARRAY<T>", _cube, _rows_of_cube, nulls=True),
    ),
    table(
        "EXPLODE",
        "A row for each element of the array.",
        signature(
            "ARRAY<T> array -> T",
            lambda call: f"coalesce({{array}}, CAST(array() AS {spark_type(ArrayType(call.result))}))",
            lambda array: array or [],
            nulls=True,
        ),
    ),
)
