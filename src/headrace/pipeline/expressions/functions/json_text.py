"""Functions on JSON texts. Invalid JSON gives null, and so does JSON of another kind than the function needs.

Spark reads numbers with a fraction as doubles: `1.50` becomes `1.5`. `json_values` does the same in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, by_call, signature
from headrace.pipeline.expressions.functions.json_paths import (
    at_path,
    extracted_at,
    parent_path,
    spark_paths,
    steps,
)
from headrace.pipeline.expressions.functions.json_values import (
    JsonReader,
    Number,
    Object,
    Raw,
    as_text,
    double_json,
    merged,
    quoted_plainly,
    variants_written,
    written,
)
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.spark_text import spark_name, string_literal
from headrace.pipeline.expressions.functions.value_order import ordered
from headrace.pipeline.expressions.value_casts import as_text as text_form
from headrace.pipeline.expressions.values import BIGINT_RANGE
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

# Spark's names of the kinds of JSON values, by the type of the value to find.
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
    # Spark gives null for a null field, as for a missing one; ksqlDB gives the text `null`.
    *parents, name = steps(constant) or ("",)
    if name and not name.isdecimal():
        parent = (
            "{json}" if not parents else f"get_json_object({{json}}, {_literally(parent_path(constant))})"
        )
        is_there = f"array_contains(json_object_keys({parent}), {_literally(string_literal(name))})"
        found.append(f"CASE WHEN {is_there} THEN 'null' END")
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


def _extracted(text: str, path: str) -> str | None:
    found = steps(path)
    return None if found is None else at_path(JsonReader(text).value, found)


def _is_json(text: str | None) -> bool:
    try:
        return text is not None and as_text(JsonReader(text).value) is not None
    except ValueError:
        return False


def _has_value(text: str | None, value: Any) -> bool | None:  # noqa: PLR0911 - one for each type
    """Whether the array has the value; a whole number never equals one with a fraction."""
    if text is None:
        return None
    try:
        reader = JsonReader(text)
        as_text(reader.value)
    except ValueError:
        return False
    if not reader.is_strict or not isinstance(reader.value, list):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        numbers = [each for each in reader.value if isinstance(each, Number)]
        whole = [int(each.text) for each in numbers if each.is_whole]
        if isinstance(value, int):
            return value in whole
        # Spark does not count numbers that exceed BIGINT as whole.
        large = [float(each) for each in whole if each not in BIGINT_RANGE]
        return value in [*large, *(float(each.text) for each in numbers if not each.is_whole)]
    if value is None or isinstance(value, bool):
        return any(each is value for each in reader.value)
    return isinstance(value, str) and value in reader.value


def _concatenated(*texts: str) -> str | None:
    readers = [JsonReader(text) for text in texts]
    values = [reader.value for reader in readers]
    if not values or not all(reader.is_last and as_text(reader.value) is not None for reader in readers):
        return None
    if len(values) == 1:
        return _unicode(written(values[0]))
    objects = [value for value in values if isinstance(value, Object)]
    if len(objects) < len(values):
        elements = [each for value in values for each in (value if isinstance(value, list) else [value])]
        return _unicode(written(elements))
    pairs = [pair for each in objects for pair in each.pairs]
    if len(dict(pairs)) == len(pairs):
        return _unicode(written(Object(tuple(pairs))))
    if any(reader.has_repeated_keys or reader.has_halves for reader in readers):
        return None
    return _unicode(variants_written(merged(objects).items()))


def _unicode(text: str) -> str:
    text.encode()
    return text


def _items(text: str) -> list[str] | None:
    reader = JsonReader(text)
    if not reader.is_strict or not isinstance(reader.value, list):
        return None
    return [quoted_plainly(each) if isinstance(each, str) else written(each) for each in reader.value]


def _length(text: str) -> int | None:
    found = JsonReader(text).value
    return len(found) if isinstance(found, list) else None


def _keys(text: str) -> list[str] | None:
    found = JsonReader(text).value
    if not isinstance(found, Object):
        return None
    return [_replaced(key) for key in found.names()]


def _replaced(text: str) -> str:
    """With a question mark for half a character."""
    return text.encode(errors="replace").decode()


def _records(text: str) -> dict[str, str] | None:
    reader = JsonReader(text)
    found = reader.value
    if not isinstance(found, Object) or reader.has_controls:
        return None
    return {
        _replaced(key): _replaced(value) if isinstance(value, str) else written(value)
        for key, value in found.pairs
    }


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
    """The text between the brackets or braces."""
    return f"substring({text}, 2, length({text}) - 2)"


def _joined(parts: str) -> str:
    return f"array_join(filter({parts}, __hr_i -> __hr_i <> ''), ',')"


def _concat(call: Call) -> str:
    """Each value is normalized as the only element of an array, so that strings keep their quotes."""
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
    # Objects with keys in common are merged as maps: the last value counts.
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
    "CASE WHEN json_array_length({json}) IS NOT NULL AND try_parse_json({json}) IS NOT NULL THEN"
    " element_at(transform(array(struct(from_json({json}, 'ARRAY<STRING>') AS t,"
    f" {_ELEMENTS} AS v)), __hr_j -> transform(__hr_j.t, (__hr_t, __hr_i) ->"
    " CASE WHEN __hr_t IS NULL THEN 'null' WHEN schema_of_variant(get(__hr_j.v, __hr_i)) = 'STRING'"
    " THEN to_json(get(__hr_j.v, __hr_i)) ELSE __hr_t END)), 1) END"
)


def _to_json(call: Call) -> str:
    """Spark writes only collections: so the value is written in an array, without the brackets."""
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
        case MapType(key, element):
            entries = (
                f"array_sort(map_entries({value}), (__hr_l, __hr_r) -> CASE"
                " WHEN __hr_l.key < __hr_r.key THEN -1 WHEN __hr_l.key > __hr_r.key THEN 1 ELSE 0 END)"
            )
            return (
                f"map_from_entries(transform({entries}, {name} -> struct({_key(key, f'{name}.key')},"
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


def _key(kind: DataType, key: str) -> str:
    """Spark would write the numbers that it keeps dates and timestamps as."""
    if kind is DATE:
        return f"date_format({key}, 'yyyy-MM-dd')"
    if kind is TIMESTAMP:
        return f"""date_format({key}, "yyyy-MM-dd'T'HH:mm:ss.SSS")"""
    return _prepared(kind, key, 0)


def _json_of(call: Call) -> Callable[[Any], str]:
    kind = call.types["value"]
    if kind is None:
        return lambda _value: "null"
    to_json = _json_value(kind)
    return lambda value: _unicode(written(to_json(value), quoted_plainly))


def _json_value(kind: DataType) -> Callable[[Any], Any]:  # noqa: PLR0911 - one for each type
    """What makes JSON of a value of that type; fields and keys are in alphabetical order."""
    match kind:
        case ArrayType(element):
            of_element = _json_value(element)
            return _unless_null(lambda value: [of_element(each) for each in value])
        case MapType(key, element):
            of_key, of_value = text_form(key), _json_value(element)
            return _unless_null(
                lambda value: Object(
                    tuple((of_key(each), of_value(value[each])) for each in sorted(value, key=ordered))
                )
            )
        case StructType(fields):
            made = [
                (field.name, _json_value(field.type)) for field in sorted(fields, key=lambda each: each.name)
            ]
            return _unless_null(
                lambda value: Object(tuple((name, to_json(value[name])) for name, to_json in made))
            )
        case DecimalType():
            return _unless_null(lambda value: Raw(str(value)))
    if kind is BOOLEAN:
        return lambda value: value
    if kind in (INTEGER, BIGINT):
        return _unless_null(lambda value: Number(str(value)))
    if kind is DOUBLE:
        return _unless_null(lambda value: Raw(double_json(value)))
    return _unless_null(text_form(kind))


def _unless_null(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "EXTRACTJSONFIELD",
        "The value at the path, as a text.",
        signature("VARCHAR json, VARCHAR path -> VARCHAR", _extract, _extracted),
    ),
    scalar(
        "IS_JSON_STRING",
        "Whether the text is JSON.",
        signature(
            "VARCHAR json -> BOOLEAN", "(get_json_object({json}, '$') IS NOT NULL)", _is_json, nulls=True
        ),
    ),
    scalar(
        "JSON_ARRAY_CONTAINS",
        "Whether the JSON array has such an element.",
        signature("VARCHAR json, T value -> BOOLEAN", _array_contains, _has_value, nulls=True),
    ),
    scalar(
        "JSON_ARRAY_LENGTH",
        "The number of elements of a JSON array.",
        signature("VARCHAR json -> INTEGER", "json_array_length({json})", _length),
    ),
    scalar(
        "JSON_CONCAT",
        "Merges JSON objects, keeping the last of duplicate keys; anything else becomes one array.",
        signature(
            "VARCHAR... values -> VARCHAR",
            lambda call: _concat(call) if call.texts else "CAST(NULL AS STRING)",
            _concatenated,
        ),
    ),
    scalar(
        "JSON_ITEMS",
        "The elements of a JSON array, each as JSON.",
        signature("VARCHAR json -> ARRAY<VARCHAR>", _ITEMS, _items),
    ),
    scalar(
        "JSON_KEYS",
        "The keys of a JSON object.",
        signature("VARCHAR json -> ARRAY<VARCHAR>", "array_distinct(json_object_keys({json}))", _keys),
    ),
    scalar(
        "JSON_RECORDS",
        "The keys and values of a JSON object.",
        signature(
            "VARCHAR json -> MAP<VARCHAR, VARCHAR>",
            "CASE WHEN json_object_keys({json}) IS NOT NULL THEN transform_values("
            "from_json({json}, 'MAP<STRING,STRING>'), (__hr_k, __hr_v) -> coalesce(__hr_v, 'null')) END",
            _records,
        ),
    ),
    scalar(
        "TO_JSON_STRING",
        "A value as JSON.",
        signature("T value -> VARCHAR", _to_json, by_call(_json_of), nulls=True),
    ),
)
