"""ksqlDB's types in Spark's DDL.

Spark has no TIME that works everywhere, so TIME is an INT: the milliseconds since midnight.
"""

from __future__ import annotations

from typing import Final

from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NamedType,
    ScalarType,
    StructType,
)

_SCALARS: Final = {
    ScalarType.BOOLEAN: "BOOLEAN",
    ScalarType.INTEGER: "INT",
    ScalarType.BIGINT: "BIGINT",
    ScalarType.DOUBLE: "DOUBLE",
    ScalarType.VARCHAR: "STRING",
    ScalarType.BYTES: "BINARY",
    ScalarType.DATE: "DATE",
    ScalarType.TIME: "INT",
    ScalarType.TIMESTAMP: "TIMESTAMP",
}


def spark_type(data_type: DataType) -> str:
    match data_type:
        case ScalarType():
            return _SCALARS[data_type]
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayType(element):
            return f"ARRAY<{spark_type(element)}>"
        case MapType(key, value):
            return f"MAP<{spark_type(key)},{spark_type(value)}>"
        case StructType(fields):
            inner = (f"{spark_name(field.name)}:{spark_type(field.type)}" for field in fields)
            return f"STRUCT<{','.join(inner)}>"
        case NamedType(name):
            raise TypeError(f"the type {name} was not looked up")


def spark_name(name: str) -> str:
    """The quoted name of a column or field."""
    return f"`{name.replace('`', '``')}`"
