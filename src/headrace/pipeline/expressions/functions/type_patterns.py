"""Type patterns of signatures, with open places: `ARRAY<T>`, `MAP<VARCHAR, V>`, `(T) => R`.

Patterns are read from text, so a signature is a line of data. Matching binds the open places (single capital
letters) to types; a bound place matches only that type. NULL matches everything and binds nothing. Values
only; this module knows no functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.pipeline.statements.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)


@dataclass(frozen=True, slots=True)
class LambdaShape:
    """A lambda of which only the number of parameters is known so far."""

    count: int


@dataclass(frozen=True, slots=True)
class LambdaResult:
    """A compiled lambda: the types of its parameters and of its result."""

    parameters: tuple[DataType, ...]
    result: DataType


class Unit(Enum):
    """A bare unit of time as an argument: `DAYS`."""

    UNIT = "UNIT"

    def __str__(self) -> str:
        return "UNIT"


UNIT: Final = Unit.UNIT

Argument = DataType | None | LambdaShape | LambdaResult | Unit


class Special(Enum):
    """Patterns that match several types, or units."""

    DECIMAL = "DECIMAL"
    UNIT = "UNIT"
    ANY = "ANY"


@dataclass(frozen=True, slots=True)
class Open:
    """`T`: the type that it is bound to."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: Pattern


@dataclass(frozen=True, slots=True)
class MapOf:
    key: Pattern
    value: Pattern


@dataclass(frozen=True, slots=True)
class StructOf:
    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class LambdaOf:
    parameters: tuple[Pattern, ...]
    result: Pattern


Pattern = ScalarType | Special | Open | ArrayOf | MapOf | StructOf | LambdaOf

Bound = dict[str, DataType]

# From narrow to wide: each type converts to the later ones.
_NUMBERS: Final = (INTEGER, BIGINT, DecimalType, DOUBLE)
_DECIMAL_OF: Final[dict[Argument, DecimalType]] = {
    INTEGER: DecimalType(10, 0),
    BIGINT: DecimalType(19, 0),
}
_LARGE_DECIMAL: Final = DecimalType(38, 18)
_FROM_TEXT: Final = (DATE, TIME, TIMESTAMP, BYTES)


def shown(pattern: Pattern) -> str:
    match pattern:
        case ScalarType() | Special():
            return str(pattern.value)
        case Open(name):
            return name
        case ArrayOf(element):
            return f"ARRAY<{shown(element)}>"
        case MapOf(key, value):
            return f"MAP<{shown(key)}, {shown(value)}>"
        case StructOf(fields):
            return f"STRUCT<{', '.join(f'{name} {shown(each)}' for name, each in fields)}>"
        case LambdaOf(parameters, result):
            return f"LAMBDA ({', '.join(map(shown, parameters))}) => {shown(result)}"


def open_places(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Open(name):
            yield name
        case ArrayOf(element):
            yield from open_places(element)
        case MapOf(key, value):
            yield from open_places(key)
            yield from open_places(value)
        case StructOf(fields):
            for _, each in fields:
                yield from open_places(each)
        case LambdaOf(parameters, result):
            for each in (*parameters, result):
                yield from open_places(each)
        case _:
            return


def matches(pattern: Pattern, argument: Argument, bound: Bound, *, casts: bool) -> bool:
    """Whether the argument fits. Adds its bindings of open places to `bound`."""
    if argument is None:
        return True
    if isinstance(argument, Unit) or pattern is Special.UNIT:
        return isinstance(argument, Unit) and pattern is Special.UNIT
    if isinstance(argument, LambdaShape):
        return isinstance(pattern, LambdaOf) and len(pattern.parameters) == argument.count
    if isinstance(argument, LambdaResult):
        return (
            isinstance(pattern, LambdaOf)
            and len(pattern.parameters) == len(argument.parameters)
            and all(
                matches(each, given, bound, casts=False)
                for each, given in zip(pattern.parameters, argument.parameters, strict=True)
            )
            and matches(pattern.result, argument.result, bound, casts=False)
        )
    return _type_matches(pattern, argument, bound, casts=casts)


def _type_matches(pattern: Pattern, given: DataType, bound: Bound, *, casts: bool) -> bool:  # noqa: PLR0911
    match pattern, given:
        case Special.ANY, _:
            return True
        case Open(name), _:
            return bound.setdefault(name, given) == given
        case ArrayOf(element), ArrayType(given_element):
            return _type_matches(element, given_element, bound, casts=casts)
        case MapOf(key, value), MapType(given_key, given_value):
            return _type_matches(key, given_key, bound, casts=casts) and _type_matches(
                value, given_value, bound, casts=casts
            )
        case Special.DECIMAL, _:
            return isinstance(given, DecimalType) or (casts and given in _DECIMAL_OF)
        case ScalarType(), _:
            return pattern == given or (casts and _casts_by_itself(given, pattern))
        case _:
            return False


def _casts_by_itself(given: DataType, wanted: ScalarType) -> bool:
    if given is VARCHAR:
        return wanted in _FROM_TEXT
    width = _width(given)
    return width is not None and wanted in _NUMBERS and width <= _NUMBERS.index(wanted)


def _width(given: DataType) -> int | None:
    if isinstance(given, DecimalType):
        return _NUMBERS.index(DecimalType)
    return _NUMBERS.index(given) if given in _NUMBERS else None


def concrete(pattern: Pattern, bound: Bound, given: Argument = None) -> DataType | None:  # noqa: PLR0911
    """The type that a matched pattern stands for; `given` decides what the pattern leaves open."""
    match pattern:
        case ScalarType():
            return pattern
        case Special.DECIMAL:
            return given if isinstance(given, DecimalType) else _DECIMAL_OF.get(given, _LARGE_DECIMAL)
        case Special():
            return given if not isinstance(given, LambdaShape | LambdaResult | Unit) else None
        case Open(name):
            return bound.get(name)
        case ArrayOf(element):
            inner = concrete(element, bound, given.element if isinstance(given, ArrayType) else None)
            return None if inner is None else ArrayType(inner)
        case MapOf(key, value):
            keys = concrete(key, bound, given.key if isinstance(given, MapType) else None)
            values = concrete(value, bound, given.value if isinstance(given, MapType) else None)
            return None if keys is None or values is None else MapType(keys, values)
        case StructOf(fields):
            found = [(name, concrete(each, bound)) for name, each in fields]
            known = tuple(StructField(name, each) for name, each in found if each is not None)
            return StructType(known) if len(known) == len(fields) else None
        case LambdaOf():
            return None


_TOKEN: Final = re.compile(r"\s*(=>|->|\.\.\.|[A-Za-z_][A-Za-z_0-9]*|[<>(),])")


class PatternReader:
    """Reads patterns from text. The text is ours, so an error in it is a bug."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        assert "".join(self._tokens) == re.sub(r"\s", "", text), text

    def at_end(self) -> bool:
        return not self._tokens

    def take(self, token: str | None = None) -> str:
        taken: str = self._tokens.pop(0)
        assert token is None or taken == token, (taken, token)
        return taken

    def take_if(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def pattern(self) -> Pattern:
        word = self.take()
        if word == "(":
            parameters = [self.pattern()]
            while self.take_if(","):
                parameters.append(self.pattern())
            self.take(")")
            self.take("=>")
            return LambdaOf(tuple(parameters), self.pattern())
        if word == "ARRAY":
            self.take("<")
            element = self.pattern()
            self.take(">")
            return ArrayOf(element)
        if word == "MAP":
            self.take("<")
            key = self.pattern()
            self.take(",")
            value = self.pattern()
            self.take(">")
            return MapOf(key, value)
        if word == "STRUCT":
            return self._struct()
        if len(word) == 1:
            return Open(word)
        return Special(word) if word in Special.__members__ else ScalarType(word)

    def _struct(self) -> StructOf:
        self.take("<")
        fields = [(self.take(), self.pattern())]
        while self.take_if(","):
            fields.append((self.take(), self.pattern()))
        self.take(">")
        return StructOf(tuple(fields))
