"""Which types a key may have."""

from __future__ import annotations

from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import ArrayType, DataType, MapType, StructType


def check_key_type(name: str, data_type: DataType, at: Position) -> None:
    if has_map(data_type):
        raise StatementError(
            f"{name} is {data_type}, and keys cannot contain a MAP.",
            at,
            remedy="Equal maps may have different bytes, so equal keys could land in different partitions.",
        )


def has_map(data_type: DataType) -> bool:
    match data_type:
        case MapType():
            return True
        case ArrayType(element):
            return has_map(element)
        case StructType(fields):
            return any(has_map(field.type) for field in fields)
        case _:
            return False
