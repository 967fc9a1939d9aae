"""Functions of arrays, and of Druid's multi-value strings, which are arrays here.

A plain text counts as an array of one, as a multi-value string with one value does in Druid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Call, Family, built
from headrace.query.druid.kinds import Kind

ARRAYS: Final = Family(title="Arrays and multi-value strings")


def array(call: Call, index: int) -> exp.Expr:
    """An argument as an array. Raises DruidSqlError if it cannot be one."""
    match call.kind(index):
        case Kind.ARRAY | Kind.UNKNOWN | Kind.NULL:
            return call.tree(index)
        case Kind.STRING:
            return built("[{0}]", call.tree(index))
        case kind:
            raise call.error(f"{call.name} takes an array, not a value of type {kind.value}")


def _over(template: str, *arrays: int) -> Callable[[Call], exp.Expr]:
    """The template, with the arguments at `arrays` as arrays."""

    def build(call: Call) -> exp.Expr:
        trees = [array(call, index) if index in arrays else call.tree(index) for index in range(len(call))]
        return built(template, *trees)

    return build


def _contains(call: Call) -> exp.Expr:
    function = "list_has_all" if call.kind(1) is Kind.ARRAY else "list_contains"
    return built(f"{function}({{0}}, {{1}})", array(call, 0), call.tree(1))


_SLICE: Final = (
    "CASE WHEN {1} >= 0 AND {1} <= len({0}) AND {1} <= {2} "
    "THEN list_resize(list_slice({0}, {1} + 1, {2}), {2} - {1}) END"
)

for name in ("ARRAY", "MV"):
    ARRAYS.add(f"{name}_LENGTH(arr)", _over("len({0})", 0), Kind.LONG)
    ARRAYS.add(f"{name}_CONTAINS(arr, expr)", _contains, Kind.BOOLEAN)
    ARRAYS.add(f"{name}_OVERLAP(arr1, arr2)", _over("list_has_any({0}, {1})", 0, 1), Kind.BOOLEAN)
    ARRAYS.add(
        f"{name}_OFFSET(arr, long)",
        _over("CASE WHEN {1} >= 0 THEN list_extract({0}, {1} + 1) END", 0),
        Kind.UNKNOWN,
    )
    ARRAYS.add(
        f"{name}_ORDINAL(arr, long)",
        _over("CASE WHEN {1} >= 1 THEN list_extract({0}, {1}) END", 0),
        Kind.UNKNOWN,
    )
    ARRAYS.add(
        f"{name}_OFFSET_OF(arr, expr)", _over("(nullif(list_position({0}, {1}), 0) - 1)", 0), Kind.LONG
    )
    ARRAYS.add(f"{name}_ORDINAL_OF(arr, expr)", _over("nullif(list_position({0}, {1}), 0)", 0), Kind.LONG)
    ARRAYS.add(f"{name}_PREPEND(expr, arr)", _over("list_prepend({0}, {1})", 1), Kind.ARRAY)
    ARRAYS.add(f"{name}_APPEND(arr, expr)", _over("list_append({0}, {1})", 0), Kind.ARRAY)
    ARRAYS.add(f"{name}_CONCAT(arr1, arr2)", _over("list_concat({0}, {1})", 0, 1), Kind.ARRAY)
    ARRAYS.add(f"{name}_SLICE(arr, start, end)", _over(_SLICE, 0), Kind.ARRAY)
    ARRAYS.add(f"{name}_TO_STRING(arr, delimiter)", _over("array_to_string({0}, {1})", 0), Kind.STRING)
ARRAYS.add("STRING_TO_ARRAY(string, delimiter)", "string_split_regex({0}, {1})", Kind.ARRAY, "STRING_TO_MV")
ARRAYS.add("MV_TO_ARRAY(str)", _over("{0}", 0), Kind.ARRAY)
ARRAYS.add("ARRAY_TO_MV(arr)", _over("{0}", 0), Kind.ARRAY)
ARRAYS.add("SCALAR_IN_ARRAY(expr, arr)", _over("list_contains({1}, {0})", 1), Kind.BOOLEAN)
for name, condition in (
    ("ONLY(expr, arr)", "list_contains({1}, item)"),
    ("NONE(expr, arr)", "NOT list_contains({1}, item)"),
    ("REGEX(expr, pattern)", "regexp_matches(item, {1})"),
    ("PREFIX(expr, prefix)", "starts_with(item, {1})"),
):
    ARRAYS.add(f"MV_FILTER_{name}", _over(f"list_filter({{0}}, lambda item: {condition})", 0), Kind.ARRAY)
