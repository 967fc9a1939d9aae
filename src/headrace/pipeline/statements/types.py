"""ksqlDB's data types.

`str(type)` is the type as statements write it and as ksqlDB shows it. Frozen values; `expressions/` knows
Spark's names for types.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ScalarType(Enum):
    """The types without parameters."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class DecimalType:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: DataType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'`{field.name}` {field.type}' for field in self.fields)}>"

    def field(self, name: str) -> StructField | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type made by `CREATE TYPE`, by name. Resolving names replaces it."""

    name: str

    def __str__(self) -> str:
        return self.name


DataType = ScalarType | DecimalType | ArrayType | MapType | StructType | NamedType

BOOLEAN = ScalarType.BOOLEAN
INTEGER = ScalarType.INTEGER
BIGINT = ScalarType.BIGINT
DOUBLE = ScalarType.DOUBLE
VARCHAR = ScalarType.VARCHAR
BYTES = ScalarType.BYTES
DATE = ScalarType.DATE
TIME = ScalarType.TIME
TIMESTAMP = ScalarType.TIMESTAMP
