"""Keys and values of cases, from their text to bytes and back, in the format of their topic.

Written without the formats of the pipeline: what both got wrong in the same way would not be seen.
Everything comes down to text that can be compared: JSON with sorted fields, or `~text`.
"""

from __future__ import annotations

import decimal
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import fastavro

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format
from headrace.pipeline.statements.types import BIGINT, DOUBLE, INTEGER
from tests.pipeline.plans.harness import MemoryRegistry

_STRUCTS = {INTEGER: ">i", BIGINT: ">q", DOUBLE: ">d"}


def to_bytes(
    text: str, encoding: Encoding, columns: tuple[Column, ...], schema: Callable[[], tuple[int, str]]
) -> bytes | None:
    """`schema` gives the id and the text of the schema that Avro is written with."""
    plain = plain_bytes(text)
    if plain is not None:
        return plain
    value = json.loads(text)
    if value is None and not (encoding.format is Format.JSON and text != "null"):
        return None
    match encoding.format:
        case Format.KAFKA:
            kind = _STRUCTS.get(columns[0].type)  # type: ignore[call-overload]
            return struct.pack(kind, value) if kind else value.encode()
        case Format.DELIMITED:
            assert isinstance(value, str), f"a line of fields is a JSON string, not {text}"
            return value.encode()
        case Format.AVRO:
            number, avro = schema()
            body = io.BytesIO()
            fastavro.schemaless_writer(body, fastavro.parse_schema(_without_times(json.loads(avro))), value)
            return b"\x00" + number.to_bytes(4, "big") + body.getvalue()
        case _:
            return text.encode()


def to_text(
    raw: bytes | None, encoding: Encoding, columns: tuple[Column, ...], registry: MemoryRegistry
) -> str:
    if raw is None:
        return "null"
    match encoding.format:
        case Format.KAFKA:
            kind = _STRUCTS.get(columns[0].type)  # type: ignore[call-overload]
            return canonical(struct.unpack(kind, raw)[0] if kind else raw.decode())
        case Format.DELIMITED:
            return canonical(raw.decode())
        case Format.AVRO:
            assert raw[0] == 0, raw
            schema = _without_times(json.loads(registry.by_id[int.from_bytes(raw[1:5], "big")]))
            return canonical(
                fastavro.schemaless_reader(io.BytesIO(raw[5:]), fastavro.parse_schema(schema), None)
            )
        case _:
            try:
                return canonical(json.loads(raw))
            except ValueError:
                return raw_text(raw)


def plain_bytes(text: str) -> bytes | None:
    """The bytes of `~text` and of `x'00ff'`."""
    if text.startswith("~"):
        return text[1:].encode()
    if text.startswith("x'"):
        return bytes.fromhex(text[2:-1])
    return None


def raw_text(raw: bytes | None) -> str:
    """Bytes as a case writes them whatever their format."""
    if raw is None:
        return "null"
    try:
        return f"~{raw.decode()}"
    except UnicodeDecodeError:
        return f"x'{raw.hex()}'"


def canonical(value: Any) -> str:
    """One text for equal values; 1 and 1.0 and true are different ones."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)


def expected_text(text: str) -> str:
    return text if plain_bytes(text) is not None else canonical(json.loads(text))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    assert isinstance(value, decimal.Decimal), value
    return str(value)


def _without_times(schema: Any) -> Any:
    """Dates and times as the numbers that they are written as."""
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_decimal = schema.get("logicalType") == "decimal"
    return {
        name: _without_times(each) for name, each in schema.items() if name != "logicalType" or is_decimal
    }
