"""Replaces the names of types made by CREATE TYPE with the types."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.type_parser import SCALARS
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    MapType,
    NamedType,
    StructField,
    StructType,
)


def resolved(data_type: DataType, types: Mapping[str, DataType], at: Position) -> DataType:
    match data_type:
        case NamedType(name):
            if name not in types:
                hint = did_you_mean(name, (*types, *SCALARS))
                raise StatementError(
                    f"There is no type {name}.", at, remedy=hint.strip() or "CREATE TYPE makes one."
                )
            return resolved(types[name], types, at)
        case ArrayType(element):
            return ArrayType(resolved(element, types, at))
        case MapType(key, value):
            return MapType(resolved(key, types, at), resolved(value, types, at))
        case StructType(fields):
            return StructType(
                tuple(StructField(field.name, resolved(field.type, types, at)) for field in fields)
            )
        case _:
            return data_type
