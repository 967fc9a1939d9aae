"""What a schema of Avro or Connect stores, and the type of the column for it.

A tree that keeps the order of fields and branches, so that values can be read with it. `avro_columns.py` and
`connect_schemas.py` make it. Pure values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct, Type

MOST_DIGITS: Final = 38


class Stored(Enum):
    """How a single value is stored."""

    PLAIN = "plain"
    DATE = "days"
    DECIMAL = "decimal"
    MILLIS = "milliseconds"
    MICROS = "microseconds"
    NANOS = "nanoseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """Null, which no column stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A single value. `form` is its type in the schema; `symbols` are those of an `enum`, `size` that of a
    `fixed`.
    """

    type: Simple | Decimal
    form: str
    stored: Stored = Stored.PLAIN
    symbols: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """An array."""

    element: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A map."""

    value: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A map that is stored as an array of records with a key, which is a text, and a value."""

    entry: Record
    key: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A field of a record or a branch of a union: the name of its column, and `source`, that of the field."""

    name: str
    shape: Shape
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`is_pair`: a key and a value in an array of two, as Connect writes some maps in JSON."""

    fields: tuple[Part, ...]
    is_pair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """All branches in the order of the schema; `promoted` is the type that all but null become, or None."""

    branches: tuple[Part, ...]
    promoted: Simple | None = None

    @property
    def others(self) -> tuple[Part, ...]:
        """The branches that are not null."""
        return tuple(each for each in self.branches if not isinstance(each.shape, Null))

    @property
    def only(self) -> Part | None:
        """The one branch beside null."""
        others = self.others
        return others[0] if len(others) == 1 else None


Shape = Null | Leaf | Items | Values | Entries | Record | Union


def type_of(shape: Shape) -> Type | None:  # noqa: PLR0911 - one for each shape
    """The type of the column; None if there is nothing to store."""
    match shape:
        case Null():
            return None
        case Leaf():
            return shape.type
        case Items():
            element = type_of(shape.element)
            return None if element is None else Array(element=element)
        case Values():
            value = type_of(shape.value)
            return None if value is None else Map(value=value)
        case Entries():
            value = type_of(shape.entry.fields[shape.value].shape)
            return None if value is None else Map(value=value)
        case Record():
            return _struct(shape.fields)
        case Union():
            if shape.promoted is not None:
                return shape.promoted
            return type_of(shape.only.shape) if shape.only else _struct(shape.others)


def _struct(parts: tuple[Part, ...]) -> Struct | None:
    found = [(part.name, type_of(part.shape)) for part in parts]
    fields = tuple(Field(name=name, type=kind) for name, kind in found if kind is not None)
    return Struct(fields=fields) if fields else None


def digits_of(size: int) -> int:
    """How many decimal digits always fit into that many bytes."""
    return math.floor(math.log10(2) * (8 * size - 1)) if size else 0
