"""JSON's operators and functions of PostgreSQL that DuckDB has otherwise: paths as arrays, names of types.

A path (`#>>`, `json_extract_path_text`) becomes a JSON pointer, in which a number is the place in an array or
the key of an object, whichever is there, as in PostgreSQL. A struct counts as the json that clients see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import expressions as exp
from sqlglot import parse_one

from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import text_literal

_TYPE_NAMES: Final = (
    "WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'VARCHAR' THEN 'string'"
    " WHEN 'BOOLEAN' THEN 'boolean' WHEN 'NULL' THEN 'null' ELSE 'number'"
)


def path_operator(node: exp.JSONBExtract | exp.JSONBExtractScalar) -> exp.Expr:
    """`#>` and `#>>`."""
    path = node.expression
    if isinstance(path, exp.Literal) and path.is_string:
        steps = text_literal(path.name, types.BY_NAME["_text"])
    else:
        steps = path.sql("duckdb")
    name = "json_extract" if isinstance(node, exp.JSONBExtract) else "json_extract_string"
    return parse_one(_at_path(name, node.this.sql("duckdb"), steps), read="duckdb")


def function(node: exp.Anonymous) -> exp.Expr:
    """A function by its PostgreSQL name; any other is left as it is."""
    name = node.name.lower()
    build = _FUNCTIONS.get(name.replace("jsonb_", "json_", 1))
    if build is None or not node.expressions:
        return node
    return parse_one(build([argument.sql("duckdb") for argument in node.expressions]), read="duckdb")


def _at_path(name: str, document: str, steps: str) -> str:
    step = "'/' || replace(replace(step, '~', '~0'), '/', '~1')"
    pointer = f"array_to_string(list_transform(CAST({steps} AS VARCHAR[]), lambda step: {step}), '')"
    return f"{name}(CAST({document} AS JSON), {pointer})"


def _type_name(arguments: Sequence[str]) -> str:
    document = arguments[0]
    named = f"CASE json_type(CAST({document} AS JSON)) {_TYPE_NAMES} END"
    return f"CASE WHEN {document} IS NOT NULL THEN {named} END"


_FUNCTIONS: Final[dict[str, Callable[[Sequence[str]], str]]] = {
    "cardinality": lambda arguments: f"CAST(len({arguments[0]}) AS INTEGER)",
    "json_array_elements": lambda arguments: f"unnest(CAST(CAST({arguments[0]} AS JSON) AS JSON[]))",
    "json_array_elements_text": lambda arguments: (
        f"unnest(list_transform(CAST(CAST({arguments[0]} AS JSON) AS JSON[]), lambda each: each ->> '$'))"
    ),
    "json_array_length": lambda arguments: (
        f"CAST(json_array_length(CAST({arguments[0]} AS JSON)) AS INTEGER)"
    ),
    "json_extract_path": lambda arguments: _at_path(
        "json_extract", arguments[0], f"[{', '.join(arguments[1:])}]"
    ),
    "json_extract_path_text": lambda arguments: _at_path(
        "json_extract_string", arguments[0], f"[{', '.join(arguments[1:])}]"
    ),
    "json_object_keys": lambda arguments: f"unnest(json_keys(CAST({arguments[0]} AS JSON)))",
    "json_typeof": _type_name,
}
