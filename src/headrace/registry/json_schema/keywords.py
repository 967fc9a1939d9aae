"""The keywords of JSON Schema that matter here, and what their values must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
STRING_KEYWORDS: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
NUMBER_KEYWORDS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
OBJECT_KEYWORDS: Final = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
    }
)
ARRAY_KEYWORDS: Final = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    }
)
# Whose values hold no schemas, whatever they look like.
OPAQUE: Final = frozenset({"enum", "const", "default", "examples"})


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and int(value) == value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_schema(value: Any) -> bool:
    return isinstance(value, bool | dict)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and all(_is_schema(each) for each in value)


def _are_named_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_schema(each) for each in value.values())


def _are_names(value: Any) -> bool:
    # Draft 3 has `"required": true` inside a property; schemas with it are in use.
    return isinstance(value, bool) or (isinstance(value, list) and all(_is_text(each) for each in value))


def _is_type(value: Any) -> bool:
    types = value if isinstance(value, list) else [value]
    return bool(types) and all(isinstance(each, str) and each in TYPES for each in types)


def _are_dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_schema(each) or (isinstance(each, list) and all(_is_text(name) for name in each))
        for each in value.values()
    )


_COUNTS: Final = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_SINGLE_SCHEMAS: Final = (
    *("not", "additionalProperties", "additionalItems", "propertyNames", "contains", "if", "then", "else"),
    *("unevaluatedProperties", "unevaluatedItems"),
)
# The values of these must be right; what they must be.
CHECKS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "$ref": (_is_text, "a string"),
    "type": (_is_type, f"one of {', '.join(sorted(TYPES))}, or an array of them"),
    "enum": (lambda value: isinstance(value, list), "an array"),
    "pattern": (_is_text, "a string"),
    "required": (_are_names, "an array of strings"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above zero"),
    "items": (lambda value: _is_schema(value) or _are_schemas(value), "a schema, or an array of schemas"),
    "dependencies": (_are_dependencies, "an object of schemas or of arrays of strings"),
    "dependentRequired": (_are_dependencies, "an object of arrays of strings"),
    **dict.fromkeys(("minimum", "maximum"), (_is_number, "a number")),
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"),
        (lambda value: _is_number(value) or isinstance(value, bool), "a number"),
    ),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number, not below zero")),
    **dict.fromkeys(_SINGLE_SCHEMAS, (_is_schema, "a schema")),
    **dict.fromkeys(
        ("allOf", "anyOf", "oneOf"),
        (lambda value: bool(value) and _are_schemas(value), "an array of schemas"),
    ),
    "prefixItems": (_are_schemas, "an array of schemas"),
    **dict.fromkeys(
        ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas"),
        (_are_named_schemas, "an object of schemas"),
    ),
}
