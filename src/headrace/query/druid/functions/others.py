"""Functions of values of any kind, and of nested ones: Druid's JSON columns, which are structures and maps
here."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from headrace.query.druid.calls import Call, Family, Rule
from headrace.query.druid.kinds import Kind

OTHERS: Final = Family(title="Others")


def common(call: Call) -> Kind:
    kinds = {argument.kind for argument in call.arguments} - {Kind.NULL}
    return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def _all(function: str) -> Rule:
    def build(call: Call) -> exp.Expr:
        return call.build(f"{function}({', '.join(f'{{{index}}}' for index in range(len(call)))})")

    return build


for name in ("COALESCE", "GREATEST", "LEAST"):
    OTHERS.add(f"{name}(expr[, ...])", _all(name.lower()), common)
OTHERS.add("NVL(value1, value2)", "coalesce({0}, {1})", common)
OTHERS.add("NULLIF(value1, value2)", "nullif({0}, {1})", 0)
OTHERS.add("JSON_VALUE(expr, path)", "json_extract_string(to_json({0}), {1})", Kind.STRING)
OTHERS.add("JSON_QUERY(expr, path)", "json_extract(to_json({0}), {1})", Kind.COMPLEX)
OTHERS.add("JSON_KEYS(expr, path)", "json_keys(to_json({0}), {1})", Kind.ARRAY)
OTHERS.add("TO_JSON_STRING(expr)", "CAST(to_json({0}) AS VARCHAR)", Kind.STRING)
OTHERS.add("TRY_PARSE_JSON(expr)", "TRY_CAST({0} AS JSON)", Kind.COMPLEX)
OTHERS.add("PARSE_JSON(expr)", "CAST({0} AS JSON)", Kind.COMPLEX)
