"""Which columns each format can hold."""

from __future__ import annotations

import re
from typing import Final

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import (
    BIGINT,
    BYTES,
    DOUBLE,
    INTEGER,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

_KAFKA_TYPES: Final = (INTEGER, BIGINT, DOUBLE, VARCHAR, BYTES)
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_columns(encoding: Encoding, columns: tuple[Column, ...], part: str, at: Position) -> None:
    """`part` is key or value. Raises StatementError."""
    written_as = encoding.format
    if written_as is Format.NONE and columns:
        raise StatementError(
            f"The {part} has columns, but the format NONE holds none.", at, remedy=_other(part)
        )
    if written_as is Format.KAFKA and len(columns) > 1:
        raise StatementError(
            f"The {part} has {len(columns)} columns, but the format KAFKA holds only one.",
            at,
            remedy=_other(part),
        )
    for column in columns:
        reason = _reason(written_as, column)
        if reason:
            raise StatementError(
                f"The format {written_as.value} cannot hold the {part} column {column.name}: {reason}.",
                at,
                remedy=_other(part),
            )


def _other(part: str) -> str:
    return f"Choose another {part.upper()}_FORMAT, or other columns."


def _reason(written_as: Format, column: Column) -> str:
    data_type = column.type
    if written_as is Format.KAFKA and data_type not in _KAFKA_TYPES:
        return f"{data_type} is not one of {', '.join(str(each) for each in _KAFKA_TYPES)}"
    if written_as is Format.DELIMITED and isinstance(data_type, ArrayType | MapType | StructType):
        return f"{data_type} cannot be written as text"
    if written_as in (Format.JSON, Format.AVRO) and (found := _map_without_text_keys(data_type)) is not None:
        return f"the keys of {found} are not VARCHAR"
    if written_as is Format.AVRO and (name := _bad_avro_name(column.name, data_type)) is not None:
        return f"{name} is not a valid name in Avro"
    return ""


def _map_without_text_keys(data_type: DataType) -> MapType | None:
    match data_type:
        case MapType(key, value):
            return data_type if key is not VARCHAR else _map_without_text_keys(value)
        case ArrayType(element):
            return _map_without_text_keys(element)
        case StructType(fields):
            found = (_map_without_text_keys(field.type) for field in fields)
            return next((each for each in found if each is not None), None)
        case _:
            return None


def _bad_avro_name(name: str, data_type: DataType) -> str | None:
    if not _AVRO_NAME.fullmatch(name):
        return name
    match data_type:
        case ArrayType(element):
            return _bad_avro_name(name, element)
        case MapType(_, value):
            return _bad_avro_name(name, value)
        case StructType(fields):
            found = (_bad_avro_name(field.name, field.type) for field in fields)
            return next((each for each in found if each is not None), None)
        case _:
            return None
