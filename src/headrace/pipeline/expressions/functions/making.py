"""Constructors for the tables of functions: a name, a description, and the signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.pipeline.expressions.functions.function import Argument, Function, FunctionKind, Signature
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructType,
)


def scalar(name: str, description: str, *signatures: Signature) -> Function:
    return Function(name=name, kind=FunctionKind.SCALAR, description=description, signatures=signatures)


def aggregate(name: str, description: str, *signatures: Signature) -> Function:
    return Function(name=name, kind=FunctionKind.AGGREGATE, description=description, signatures=signatures)


def table(name: str, description: str, *signatures: Signature) -> Function:
    return Function(name=name, kind=FunctionKind.TABLE, description=description, signatures=signatures)


def same_as_first(arguments: Sequence[Argument]) -> DataType | None:
    """The result type of functions that keep a decimal's precision and scale."""
    first = arguments[0]
    return first if isinstance(first, DecimalType) else None


def widest_decimal(arguments: Sequence[Argument]) -> DataType | None:
    """A DECIMAL that can hold every argument."""
    found = [each for each in arguments if isinstance(each, DecimalType)]
    if not found:
        return None
    scale = max(each.scale for each in found)
    return DecimalType(max(each.precision - each.scale for each in found) + scale, scale)


def has_map(data_type: DataType) -> bool:
    """Whether the type is or contains a map, which Spark cannot compare."""
    match data_type:
        case MapType():
            return True
        case ArrayType(element):
            return has_map(element)
        case StructType(fields):
            return any(has_map(each.type) for each in fields)
        case _:
            return False


def comparable(place: str) -> Callable[[Mapping[str, DataType]], bool]:
    """Condition: the open type can be compared for equality."""
    return lambda bound: place not in bound or not has_map(bound[place])


def primitive(place: str) -> Callable[[Mapping[str, DataType]], bool]:
    """Condition: the open type is not a collection, so it has an order."""
    return lambda bound: place not in bound or isinstance(bound[place], ScalarType | DecimalType)
