"""KAFKA: one column, as Kafka's own serializers write it: big-endian numbers, UTF-8, bytes as they are."""

from __future__ import annotations

import struct
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.statements.types import BIGINT, BYTES, DOUBLE, INTEGER, VARCHAR, DataType

_NUMBERS: Final[dict[DataType, struct.Struct]] = {
    INTEGER: struct.Struct(">i"),
    BIGINT: struct.Struct(">q"),
    DOUBLE: struct.Struct(">d"),
}


def serialized(values: list[Any], columns: tuple[Column, ...]) -> bytes | None:
    kind = _only(columns)
    (value,) = values
    if value is None:
        return None
    if kind in _NUMBERS:
        return _NUMBERS[kind].pack(value)
    return value if isinstance(value, bytes) else str(value).encode()


def deserialized(data: bytes, columns: tuple[Column, ...]) -> list[Any]:
    kind = _only(columns)
    try:
        if kind in _NUMBERS:
            return [_NUMBERS[kind].unpack(data)[0]]
        return [data if kind is BYTES else data.decode()]
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueProblemError(f"not a {kind}: {error}") from error


def _only(columns: tuple[Column, ...]) -> DataType:
    if len(columns) != 1 or columns[0].type not in {*_NUMBERS, VARCHAR, BYTES}:
        named = ", ".join(f"{column.name} {column.type}" for column in columns)
        raise ValueProblemError(f"KAFKA holds one INTEGER, BIGINT, DOUBLE, VARCHAR or BYTES, not {named}")
    return columns[0].type
