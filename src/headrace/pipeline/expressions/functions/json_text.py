"""Functions of JSON in texts. What is no JSON gives null, as does what is not the kind that is asked for.

Numbers with a fraction are doubles to Spark: `1.50` is read as `1.5`.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.functions.function import Call, Function, signature
from headrace.pipeline.expressions.functions.json_paths import extracted_at, parent_path, spark_paths, steps
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.spark_text import spark_name, string_literal
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    TIME,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

# What Spark calls the kinds of JSON's values, by the type of what is sought.
_KINDS: Final[dict[DataType, tuple[str, str]]] = {
    INTEGER: ("= 'BIGINT'", "BIGINT"),
    BIGINT: ("= 'BIGINT'", "BIGINT"),
    DOUBLE: ("RLIKE '^(DOUBLE|FLOAT|DECIMAL)'", "DOUBLE"),
    VARCHAR: ("= 'STRING'", "STRING"),
    BOOLEAN: ("= 'BOOLEAN'", "BOOLEAN"),
}
_ELEMENTS: Final = "try_variant_get(try_parse_json({json}), '$', 'array<variant>')"


def _extract(call: Call) -> str:
    constant = call.string("path")
    if constant is None:
        return extracted_at("{path}", "{json}")
    paths = spark_paths(constant)
    if paths is None:
        return "CAST(NULL AS STRING)"
    found = [f"get_json_object({{json}}, {_literally(path)})" for path in paths]
    # A field of null is null to Spark, as one that is missing; the text `null` to ksqlDB.
    *parents, name = steps(constant) or ("",)
    if name and not name.isdecimal():
        parent = (
            "{json}" if not parents else f"get_json_object({{json}}, {_literally(parent_path(constant))})"
        )
        is_there = f"array_contains(json_object_keys({parent}), {_literally(string_literal(name))})"
        found.append(f"CASE WHEN {is_there} THEN 'null' END")
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


def _literally(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _array_contains(call: Call) -> str:
    kind = call.types["value"]
    nothing = f"coalesce(exists({_ELEMENTS}, __hr_e -> schema_of_variant(__hr_e) = 'VOID'), false)"
    if kind is None:
        return f"CASE WHEN {{json}} IS NOT NULL THEN {nothing} END"
    if kind not in _KINDS:
        found = "false"
    else:
        is_kind, spark = _KINDS[kind]
        found = (
            f"coalesce(exists({_ELEMENTS}, __hr_e -> CASE WHEN schema_of_variant(__hr_e) {is_kind}"
            f" THEN coalesce(try_variant_get(__hr_e, '$', '{spark}') = {{value}}, false)"
            " ELSE false END), false)"
        )
    return f"CASE WHEN {{json}} IS NULL THEN NULL WHEN {{value}} IS NULL THEN {nothing} ELSE {found} END"


def _inside(text: str) -> str:
    """What stands between the brackets or braces."""
    return f"substring({text}, 2, length({text}) - 2)"


def _joined(parts: str) -> str:
    return f"array_join(filter({parts}, __hr_i -> __hr_i <> ''), ',')"


def _concat(call: Call) -> str:
    """Each value written shortly, as the only element of an array, so that texts keep their quotes."""
    values = call.all_of("values")
    short = "get_json_object(concat('[', __hr_v, ']'), '$')"
    all_short = (
        f"transform(array({', '.join(values)}), __hr_v -> CASE WHEN get_json_object(__hr_v, '$') IS NOT NULL"
        f" AND json_array_length({short}) = 1 THEN {_inside(short)} END)"
    )
    if len(values) == 1:
        return f"get({all_short}, 0)"
    keys = "flatten(transform(__hr_w, __hr_o -> json_object_keys(__hr_o)))"
    fields = _joined(f"transform(__hr_w, __hr_o -> {_inside('__hr_o')})")
    # With keys in common the values are taken apart: the last counts.
    merged = (
        "to_json(aggregate(__hr_w, CAST(map() AS MAP<STRING, VARIANT>), (__hr_a, __hr_o) ->"
        " map_concat(__hr_a, try_variant_get(try_parse_json(__hr_o), '$', 'map<string,variant>'))))"
    )
    unwrapped = f"CASE WHEN startswith(__hr_o, '[') THEN {_inside('__hr_o')} ELSE __hr_o END"
    elements = _joined(f"transform(__hr_w, __hr_o -> {unwrapped})")
    return (
        f"element_at(transform(array({all_short}), __hr_w -> CASE"
        " WHEN exists(__hr_w, __hr_o -> __hr_o IS NULL) THEN NULL"
        f" WHEN exists(__hr_w, __hr_o -> NOT startswith(__hr_o, '{{{{')) THEN concat('[', {elements}, ']')"
        f" WHEN array_size(array_distinct({keys})) = array_size({keys}) THEN concat('{{{{', {fields}, '}}}}')"
        f" ELSE {merged} END), 1)"
    )


_ITEMS: Final = (
    "CASE WHEN json_array_length({json}) IS NOT NULL THEN"
    " element_at(transform(array(struct(from_json({json}, 'ARRAY<STRING>') AS t,"
    f" {_ELEMENTS} AS v)), __hr_j -> transform(__hr_j.t, (__hr_t, __hr_i) ->"
    " CASE WHEN __hr_t IS NULL THEN 'null' WHEN schema_of_variant(get(__hr_j.v, __hr_i)) = 'STRING'"
    " THEN to_json(get(__hr_j.v, __hr_i)) ELSE __hr_t END)), 1) END"
)


def _to_json(call: Call) -> str:
    """Spark writes collections only: so an array of one, without its brackets."""
    kind = call.types["value"]
    if kind is None:
        return "'null'"
    written = (
        f"to_json(array({_prepared(kind, '{value}', 0)}), map('ignoreNullFields', 'false',"
        r""" 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSS", 'dateFormat', 'yyyy-MM-dd'))"""
    )
    return _inside(written)


def _prepared(kind: DataType, value: str, depth: int) -> str:
    """With fields and keys in alphabetical order, and times as texts."""
    name = f"__hr_n{depth}"
    if kind is TIME:
        return (
            f"date_format(timestamp_millis({value}),"
            f" CASE WHEN {value} DIV 1000 % 60 = 0 THEN 'HH:mm' ELSE 'HH:mm:ss' END)"
        )
    if kind is BYTES:
        return f"base64({value})"
    match kind:
        case ArrayType(element):
            return f"transform({value}, {name} -> {_prepared(element, name, depth + 1)})"
        case MapType(_, element):
            entries = (
                f"array_sort(map_entries({value}), (__hr_l, __hr_r) -> CASE"
                " WHEN __hr_l.key < __hr_r.key THEN -1 WHEN __hr_l.key > __hr_r.key THEN 1 ELSE 0 END)"
            )
            return (
                f"map_from_entries(transform({entries}, {name} -> struct({name}.key,"
                f" {_prepared(element, f'{name}.value', depth + 1)})))"
            )
        case StructType(fields):
            inner = ", ".join(
                f"{_literally(string_literal(field.name))},"
                f" {_prepared(field.type, f'{value}.{_literally(spark_name(field.name))}', depth + 1)}"
                for field in sorted(fields, key=lambda field: field.name)
            )
            return f"CASE WHEN {value} IS NOT NULL THEN named_struct({inner}) END"
        case _:
            return value


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "EXTRACTJSONFIELD",
        "What stands at the path, as a text.",
        signature("VARCHAR json, VARCHAR path -> VARCHAR", _extract),
    ),
    scalar(
        "IS_JSON_STRING",
        "Whether the text is JSON.",
        signature("VARCHAR json -> BOOLEAN", "(get_json_object({json}, '$') IS NOT NULL)"),
    ),
    scalar(
        "JSON_ARRAY_CONTAINS",
        "Whether the JSON array has such an element.",
        signature("VARCHAR json, T value -> BOOLEAN", _array_contains),
    ),
    scalar(
        "JSON_ARRAY_LENGTH",
        "The number of elements of a JSON array.",
        signature("VARCHAR json -> INTEGER", "json_array_length({json})"),
    ),
    scalar(
        "JSON_CONCAT",
        "JSON objects as one, the last of equal keys counting; anything else as one array.",
        signature(
            "VARCHAR... values -> VARCHAR",
            lambda call: _concat(call) if call.texts else "CAST(NULL AS STRING)",
        ),
    ),
    scalar(
        "JSON_ITEMS",
        "The elements of a JSON array, each as JSON.",
        signature("VARCHAR json -> ARRAY<VARCHAR>", _ITEMS),
    ),
    scalar(
        "JSON_KEYS",
        "The keys of a JSON object.",
        signature("VARCHAR json -> ARRAY<VARCHAR>", "json_object_keys({json})"),
    ),
    scalar(
        "JSON_RECORDS",
        "The keys and values of a JSON object.",
        signature(
            "VARCHAR json -> MAP<VARCHAR, VARCHAR>",
            "CASE WHEN json_object_keys({json}) IS NOT NULL THEN transform_values("
            "from_json({json}, 'MAP<STRING,STRING>'), (__hr_k, __hr_v) -> coalesce(__hr_v, 'null')) END",
        ),
    ),
    scalar("TO_JSON_STRING", "A value as JSON.", signature("T value -> VARCHAR", _to_json)),
)
