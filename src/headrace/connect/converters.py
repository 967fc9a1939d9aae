"""Converters between the bytes of a topic and values with schemas, by the names of Kafka Connect's classes.

A converter is made from its class name and its own settings (`value.converter.schemas.enable` without the
prefix). Invariants: null stays null; what one writes it reads back; bytes that it cannot read are a
DataError. Connect has more converters than these (Avro, Protobuf): they are not here, and `converter` refuses
them.
"""

from __future__ import annotations

import codecs
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headrace.connect.data import OPTIONAL_BYTES, OPTIONAL_STRING, DataError, Schema
from headrace.connect.java_text import java_text
from headrace.connect.json_schemas import payload_json, schema_from, schema_json, value_from

STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
BYTES_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class Converter(Protocol):
    """One direction each: to the log and from it. Both raise DataError."""

    def to_bytes(self, schema: Schema | None, value: Any) -> bytes | None: ...

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]: ...


class _Text:
    def __init__(self, settings: Mapping[str, str]) -> None:
        name = settings.get("encoding") or settings.get("converter.encoding") or "UTF-8"
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise DataError(f"Unknown encoding {name}") from error

    def to_bytes(self, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else java_text(value, schema).encode(self._encoding, "replace")

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_STRING, None if data is None else data.decode(self._encoding, "replace")


class _Json:
    def __init__(self, settings: Mapping[str, str]) -> None:
        self._with_schemas = settings.get("schemas.enable", "true").strip().lower() == "true"

    def to_bytes(self, schema: Schema | None, value: Any) -> bytes | None:
        if self._with_schemas:
            if schema is None and value is None:
                return None
            content = {"schema": schema_json(schema), "payload": payload_json(schema, value)}
        elif value is None:
            return None
        else:
            content = payload_json(schema, value)
        try:
            return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"Converting Kafka Connect data to JSON failed: {error}") from error

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}"
            ) from error
        if not self._with_schemas:
            return None, content
        if not isinstance(content, dict) or content.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not '
                "contain additional fields. If you are trying to deserialize plain JSON data, set "
                "schemas.enable=false in your converter configuration."
            )
        schema = schema_from(content["schema"])
        return schema, value_from(schema, content["payload"])


class _Bytes:
    def __init__(self, _: Mapping[str, str]) -> None:
        pass

    def to_bytes(self, _: Schema | None, value: Any) -> bytes | None:
        if value is not None and not isinstance(value, bytes):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}"
            )
        return value

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_BYTES, data


class _Fixed:
    """Numbers and booleans with a fixed number of bytes, big-endian, as Kafka's serializers write them."""

    def __init__(self, name: str, layout: str) -> None:
        self._layout = struct.Struct(layout)
        self._schema = Schema(type=name, optional=True)

    def to_bytes(self, _: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return self._layout.pack(value)
        except struct.error as error:
            raise DataError(f"Failed to serialize to a {self._schema.type}: {error}") from error

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return self._schema, None
        if len(data) != self._layout.size:
            raise DataError(
                f"Failed to deserialize: size of data received is not {self._layout.size}, but {len(data)}"
            )
        (value,) = self._layout.unpack(data)
        return self._schema, value


class _SimpleHeader:
    """Headers as text. Reading guesses the type as far as that is safe: JSON's, otherwise text."""

    def __init__(self, _: Mapping[str, str]) -> None:
        pass

    def to_bytes(self, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else java_text(value, schema).encode()

    def from_bytes(self, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        text = data.decode("utf-8", "replace")
        try:
            return None, json.loads(text)
        except (ValueError, RecursionError):
            return OPTIONAL_STRING, text


def _fixed(name: str, layout: str) -> Callable[[Mapping[str, str]], Converter]:
    return lambda _: _Fixed(name, layout)


_PACKAGE: Final = "org.apache.kafka.connect.converters"
CONVERTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Converter]]] = {
    f"{_PACKAGE}.BooleanConverter": _fixed("boolean", ">?"),
    BYTES_CONVERTER: _Bytes,
    f"{_PACKAGE}.DoubleConverter": _fixed("double", ">d"),
    f"{_PACKAGE}.FloatConverter": _fixed("float", ">f"),
    f"{_PACKAGE}.IntegerConverter": _fixed("int32", ">i"),
    f"{_PACKAGE}.LongConverter": _fixed("int64", ">q"),
    f"{_PACKAGE}.ShortConverter": _fixed("int16", ">h"),
    JSON_CONVERTER: _Json,
    STRING_CONVERTER: _Text,
}
HEADER_CONVERTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Converter]]] = {
    **CONVERTERS,
    SIMPLE_HEADER_CONVERTER: _SimpleHeader,
}


def full_name(name: str, converters: Mapping[str, object] = HEADER_CONVERTERS) -> str | None:
    """The class that a configuration means by `JsonConverter`, `Json` or the full name; None if none."""
    for known in converters:
        simple = known.rpartition(".")[2]
        if name in (known, simple, simple.removesuffix("Converter")):
            return known
    return None


def make_converter(name: str, settings: Mapping[str, str]) -> Converter:
    """Raises DataError if there is no such converter."""
    known = full_name(name)
    if known is None:
        raise DataError(f"Class {name} could not be found.")
    return HEADER_CONVERTERS[known](settings)
