"""Types of columns in the lake, as a table and its Parquet files have them.

They are Spark's, by their names in DDL, so that every type of Avro or JSON Schema has one. Names of fields
keep their case, but two that differ only in case are the same column: Delta does not tell them apart. Pure
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Simple(Enum):
    """Types without parameters; the value is the name in DDL."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal:
    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    element: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Keys are texts, as in Avro."""

    value: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    fields: tuple[Field, ...]

    def find(self, name: str) -> Field | None:
        """The field of that name, whatever its case."""
        return next((each for each in self.fields if each.name.casefold() == name.casefold()), None)


Type = Simple | Decimal | Array | Map | Struct


def ddl(kind: Type) -> str:
    """As in CREATE TABLE."""
    match kind:
        case Simple():
            return kind.value
        case Decimal():
            return f"DECIMAL({kind.precision},{kind.scale})"
        case Array():
            return f"ARRAY<{ddl(kind.element)}>"
        case Map():
            return f"MAP<STRING,{ddl(kind.value)}>"
        case Struct():
            inner = ",".join(f"{quoted(each.name)}:{ddl(each.type)}" for each in kind.fields)
            return f"STRUCT<{inner}>"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
