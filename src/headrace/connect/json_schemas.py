"""Schemas and payloads as Connect's JsonConverter writes them, `{"schema": …, "payload": …}`.

Logical types (Decimal, Date, Time, Timestamp) keep the payload of their base type, as they have it on the
wire. Invariant: `schema_from(schema_json(schema)) == schema`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.connect.data import DataError, Schema

# The bits of whole numbers, without the sign.
_INTEGERS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_FLOATS: Final = frozenset({"float", "double"})
_PRIMITIVES: Final = frozenset({*_INTEGERS, *_FLOATS, "boolean", "string", "bytes"})
_DEEPEST: Final = 100


def schema_json(schema: Schema | None) -> dict[str, Any] | None:
    """The schema as JSON."""
    if schema is None:
        return None
    content: dict[str, Any] = {"type": schema.type}
    if schema.type == "struct":
        content["fields"] = [{**(schema_json(each) or {}), "field": name} for name, each in schema.fields]
    if schema.items is not None:
        content["items"] = schema_json(schema.items)
    if schema.keys is not None:
        content["keys"] = schema_json(schema.keys)
    if schema.values is not None:
        content["values"] = schema_json(schema.values)
    content["optional"] = schema.optional
    for name in ("name", "version", "doc", "default"):
        if getattr(schema, name) is not None:
            content[name] = getattr(schema, name)
    if schema.parameters:
        content["parameters"] = dict(schema.parameters)
    return content


def schema_from(content: Any, depth: int = 0) -> Schema | None:
    """Raises DataError."""
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise DataError("Schema must contain 'type' field")
    if depth > _DEEPEST:
        raise DataError("The schema is nested too deeply")
    kind = content["type"]
    inner = {
        name: schema_from(content[name], depth + 1) for name in ("items", "keys", "values") if name in content
    }
    fields: list[tuple[str, Schema]] = []
    if kind == "struct":
        if not isinstance(content.get("fields"), list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        for each in content["fields"]:
            name = each.get("field") if isinstance(each, dict) else None
            if not isinstance(name, str):
                raise DataError("Struct schema's field name not specified properly")
            fields.append((name, _given(schema_from(each, depth + 1))))
    elif kind == "array":
        _given(inner.get("items"))
    elif kind == "map":
        _given(inner.get("keys")), _given(inner.get("values"))
    elif kind not in _PRIMITIVES:
        raise DataError(f"Unknown schema type: {kind}")
    return Schema(
        type=kind,
        optional=bool(content.get("optional", False)),
        name=content.get("name"),
        version=content.get("version"),
        doc=content.get("doc"),
        parameters=content.get("parameters") or {},
        default=content.get("default"),
        fields=tuple(fields),
        **inner,
    )


def payload_json(schema: Schema | None, value: Any) -> Any:
    """The value as JSON can hold it. Raises DataError if it does not fit its schema."""
    return _walk(schema, value, _bytes_to_text)


def value_from(schema: Schema | None, payload: Any) -> Any:
    """The value of a payload. Raises DataError if it does not fit its schema."""
    return _walk(schema, payload, _text_to_bytes)


def _given(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("Schema must contain 'type' field")
    return schema


def _walk(  # noqa: PLR0911 - a table of types
    schema: Schema | None, value: Any, convert_bytes: Callable[[Any], Any]
) -> Any:
    if schema is None:
        return _without_schema(value)
    if value is None:
        if schema.default is not None:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type} field")
    if schema.type == "struct":
        if not isinstance(value, Mapping):
            raise _unfit(schema, value)
        return {name: _walk(each, value.get(name), convert_bytes) for name, each in schema.fields}
    if schema.type == "array":
        if not isinstance(value, list | tuple):
            raise _unfit(schema, value)
        return [_walk(schema.items, each, convert_bytes) for each in value]
    if schema.type == "map":
        return _walk_map(schema, value, convert_bytes)
    if schema.type == "bytes":
        return convert_bytes(value)
    return _checked(schema, value)


def _walk_map(schema: Schema, value: Any, convert_bytes: Callable[[Any], Any]) -> Any:
    keys = _given(schema.keys)
    # JSON has only texts as keys: other maps are arrays of pairs.
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list) or any(
        not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs
    ):
        raise _unfit(schema, value)
    walked = [
        (_walk(keys, key, convert_bytes), _walk(schema.values, each, convert_bytes)) for key, each in pairs
    ]
    if keys.type == "string" or convert_bytes is _text_to_bytes:
        return dict(walked)
    return [list(pair) for pair in walked]


def _checked(schema: Schema, value: Any) -> Any:
    kind = schema.type
    if kind == "boolean":
        fits = isinstance(value, bool)
    elif kind == "string":
        fits = isinstance(value, str)
    elif kind in _INTEGERS:
        fits = (
            isinstance(value, int)
            and not isinstance(value, bool)
            and -(2 ** _INTEGERS[kind]) <= value < 2 ** _INTEGERS[kind]
        )
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        value = float(value) if fits else value
    if not fits:
        raise _unfit(schema, value)
    return value


def _without_schema(value: Any) -> Any:
    if isinstance(value, bytes):
        return _bytes_to_text(value)
    if isinstance(value, Mapping):
        return {str(key): _without_schema(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_schema(each) for each in value]
    return value


def _bytes_to_text(value: Any) -> Any:
    if not isinstance(value, bytes):
        raise DataError(f"Invalid type for bytes type: {type(value).__name__}")
    return base64.b64encode(value).decode()


def _text_to_bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise DataError("Invalid bytes field") from error


def _unfit(schema: Schema, value: Any) -> DataError:
    return DataError(f"Invalid type for {schema.type}: {type(value).__name__}")
