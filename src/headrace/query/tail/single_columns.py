"""Columns of records (`pipeline/sink_records/columns.py`) as functions of a single record.

Nulls are None. Values are as `fitting.py` has them, decimals as `Decimal`. A function may raise UnsureError:
only the lake can tell then. It is called only where its value counts, so a branch that is not taken leaves
nothing out.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type
from headrace.pipeline.sink_records.columns import CAST_TYPES, INTEGER_BITS, Cast
from headrace.query.tail import single_times
from headrace.query.tail.single_casting import as_boolean, as_floating, as_integer, as_single, as_text

_DAY_MS: Final = 86_400_000
_LONGS: Final = (-(2**63), 2**63 - 1)
_SHOWN_CHARACTERS: Final = 40
_NUMBERS: Final = frozenset(
    {
        *(Simple.BOOLEAN, Simple.DATE, Simple.TIMESTAMP, Simple.TIMESTAMP_NTZ, Simple.STRING),
        *(Simple.INT, Simple.BIGINT, Simple.FLOAT, Simple.DOUBLE),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One record as it was read. `timestamp` is in microseconds."""

    key: Any
    value: Any
    headers: Sequence[Mapping[str, Any]] | None
    timestamp: int | None
    partition: int
    offset: int


Cell = Callable[[Seen], Any]


class SingleColumns:
    """Of any record."""

    def constant(self, value: object, kind: Type) -> Cell:
        if kind is Simple.FLOAT and isinstance(value, float):
            value = as_single(value)
        return lambda _: value

    def null(self, kind: Type) -> Cell:  # noqa: ARG002
        return _none

    def empty(self, kind: Type) -> Cell | None:
        match kind:
            case Simple.BINARY:
                return None
            case Decimal():
                zero = decimal.Decimal(0).scaleb(-kind.scale)
                return lambda _: zero
            case Array() | Map():
                return lambda _: []
            case Struct():
                return lambda _: {}
            case _:
                value = _EMPTY.get(kind, 0)
                return lambda _: value

    def field(self, value: Cell, name: str) -> Cell:
        def found(seen: Seen) -> Any:
            record = value(seen)
            return None if record is None else record.get(name)

        return found

    def record(self, fields: Sequence[tuple[str, Cell]]) -> Cell:
        return lambda seen: {name: cell(seen) for name, cell in fields}

    def is_present(self, value: Cell) -> Cell:
        return lambda seen: value(seen) is not None

    def when(self, condition: Cell, value: Cell, otherwise: Cell | None = None) -> Cell:
        if otherwise is None:
            return lambda seen: value(seen) if condition(seen) else None
        return lambda seen: value(seen) if condition(seen) else otherwise(seen)

    def first(self, values: Sequence[Cell]) -> Cell:
        return lambda seen: next((found for each in values if (found := each(seen)) is not None), None)

    def both(self, one: Cell, other: Cell) -> Cell:
        return lambda seen: one(seen) and other(seen)

    def opposite(self, condition: Cell) -> Cell:
        return lambda seen: not condition(seen)

    def has_header(self, headers: Cell, name: str) -> Cell:
        return lambda seen: any(each["key"] == name for each in headers(seen) or ())

    def problem(self, start: str, value: Cell) -> Cell:
        def text(seen: Seen) -> str:
            found = value(seen)
            return f"{start}{'null' if found is None else str(found)[:_SHOWN_CHARACTERS]}."

        return text

    def cast(self, value: Cell, kind: Type, target: str) -> Cast[Cell] | None:
        is_known = kind in _NUMBERS or isinstance(kind, Decimal)
        if not is_known and not (target == "string" and kind is Simple.BINARY):
            return None

        def converted(seen: Seen) -> Any:
            found = value(seen)
            return None if found is None else _cast(found, kind, target)

        def fails(seen: Seen) -> bool:
            return value(seen) is not None and converted(seen) is None

        return Cast(column=converted, fails=fails if kind is Simple.STRING else None)

    # Times.

    def read_time(self, text: Cell, pattern: str) -> Cell:
        return _of_present(text, single_times.reader(pattern))

    def written_time(self, moment: Cell, pattern: str) -> Cell:
        return _of_present(moment, single_times.writer(pattern))

    def from_unix(self, number: Cell, units: int) -> Cell:
        if units >= 1000:
            return _of_present(number, lambda value: _divided(value, units // 1000))
        return _of_present(number, lambda value: _times(value, 1000 // units))

    def to_unix(self, moment: Cell, units: int) -> Cell:
        if units >= 1000:
            return _of_present(moment, lambda value: _times(value, units // 1000))
        return _of_present(moment, lambda value: _divided(value, 1000 // units))

    def midnight(self, day: Cell) -> Cell:
        return _of_present(day, lambda value: value * _DAY_MS)

    def moment(self, timestamp: Cell) -> Cell:
        return _of_present(timestamp, lambda value: value // 1_000)

    def between(self, moment: Cell, first: int, last: int) -> Cell:
        return _of_present(moment, lambda value: value if first <= value <= last else None)

    def day(self, moment: Cell) -> Cell:
        return _of_present(moment, lambda value: value // _DAY_MS)

    def time_of_day(self, moment: Cell) -> Cell:
        return _of_present(moment, lambda value: value % _DAY_MS)

    def timestamp(self, moment: Cell) -> Cell:
        return _of_present(moment, lambda value: value * 1_000)


SINGLE: Final = SingleColumns()
_EMPTY: Final[dict[Type, Any]] = {
    Simple.BOOLEAN: False,
    Simple.STRING: "",
    Simple.FLOAT: 0.0,
    Simple.DOUBLE: 0.0,
}


def _none(_: Seen) -> None:
    return None


def _of_present(value: Cell, convert: Callable[[Any], Any]) -> Cell:
    def converted(seen: Seen) -> Any:
        found = value(seen)
        return None if found is None else convert(found)

    return converted


def _cast(value: Any, kind: Type, target: str) -> Any:
    if target == "string":
        return as_text(value, kind)
    if target == "boolean":
        return as_boolean(value, kind)
    if target in INTEGER_BITS:
        return as_integer(value, kind, target)
    return as_floating(value, kind, CAST_TYPES[target])


def _divided(value: int, divisor: int) -> int:
    """Without its fraction."""
    whole = abs(value) // divisor
    return whole if value >= 0 else -whole


def _times(value: int, factor: int) -> int:
    return min(max(value * factor, _LONGS[0]), _LONGS[1])
