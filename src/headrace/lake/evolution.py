"""How the columns of a table change when records of another schema arrive.

`evolved` compares the table's columns with those of a record schema and gives the new columns, or why some
values may not fit. Rules:

- A field that the table lacks becomes a new column behind the others, at any depth; older rows have null.
- A column that records lack stays and gets nulls. The order of fields has no meaning.
- A wider type widens the column if the rules allow it and no value changes: INT to BIGINT, INT or FLOAT to
  DOUBLE, DECIMAL to one with as many digits before and behind the point, INT and BIGINT to DECIMAL with room
  for them. BIGINT does not become DOUBLE, nor a date a timestamp.
- Otherwise the column keeps its type. Numbers that it can hold exactly are stored, whatever their type;
  records with other values become dead letters with the reason (`Misfit`).

A new table gets the merge of all schemas known for its topic (`merged`). An existing table is never widened:
delta-rs does not read Delta's type widening, and rewriting the table would stop its readers
([0018](../../../docs/decisions/0018-columns-of-an-existing-table-keep-their-types.md)).

Merging is idempotent and never loses a column. It gives the same columns in any order of the schemas, apart
from the order of the columns, as long as no schema has a misfit. Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.column_names import within
from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct, Type, ddl, quoted

_MOST_DIGITS: Final = 38
# The digits that a whole number needs; Delta asks for 20 of BIGINT, not 19.
_WHOLE_DIGITS: Final = {Simple.INT: 10, Simple.BIGINT: 20}
_NUMBERS: Final = frozenset({Simple.INT, Simple.BIGINT, Simple.FLOAT, Simple.DOUBLE})
_TO_DOUBLE: Final = frozenset({Simple.INT, Simple.FLOAT, Simple.DOUBLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may change: whether columns are added, and whether types are widened.

    `is_json`: the columns are found in JSON, where all numbers are one type, and texts hold everything: two
    types of numbers become DOUBLE, and types that have nothing in common STRING.
    """

    adds: bool = True
    widens: bool = False
    is_json: bool = False


# For a table that does not exist yet.
NEW_TABLE: Final = Rules(adds=True, widens=True)
NEW_JSON_TABLE: Final = Rules(adds=True, widens=True, is_json=True)


def rules_of(compatibility: str) -> Rules:
    """What a sink's `schema.compatibility` allows for an existing table.

    With Confluent's sinks, each file has one schema, and the setting says which: with BACKWARD and FULL,
    records are changed to the newest schema, with FORWARD to the oldest, with NONE they keep their own, in
    files of their own. A table has one schema for all rows. So NONE, BACKWARD and FULL add columns, and with
    FORWARD the table keeps the columns that it was created with: further fields are left out.
    """
    if compatibility not in ("NONE", "BACKWARD", "FORWARD", "FULL"):
        raise HeadraceError(
            "invalid_setting",
            f"schema.compatibility is {compatibility}.",
            remedy="Use NONE, BACKWARD, FORWARD or FULL.",
        )
    return Rules(adds=compatibility != "FORWARD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new column, or one with another type; `before` is None for a new one.

    `steps` lead to the column as in Spark's ALTER TABLE, where elements of arrays are `element` and values of
    maps `value`.
    """

    path: str
    before: Type | None
    after: Type
    steps: tuple[str, ...] = ()

    @property
    def definition(self) -> str:
        """As in ALTER TABLE … ADD COLUMNS."""
        return f"{'.'.join(map(quoted, self.steps))} {ddl(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A field with values that its column may not hold."""

    path: str
    column: Type
    field: Type

    @property
    def reason(self) -> str:
        return f"Field {self.path} is {ddl(self.field)}, its column is {ddl(self.column)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """`struct` are the columns afterwards; paths are as `a.b`, with `[]` for elements and values of maps."""

    struct: Struct
    added: tuple[Change, ...] = ()
    widened: tuple[Change, ...] = ()
    misfits: tuple[Misfit, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.added + self.widened


def evolved(table: Struct, record: Struct, *, rules: Rules) -> Evolution:
    """The table's columns after a record of that schema."""
    walk = _Walk(rules)
    struct = walk.struct(table, record, _Place())
    return Evolution(
        struct=struct,
        added=tuple(walk.added),
        widened=tuple(walk.widened),
        misfits=tuple(walk.misfits),
    )


def merged(structs: Iterable[Struct], *, rules: Rules = NEW_TABLE) -> Struct:
    """The columns of a new table for records of all these schemas, the oldest first."""
    found = Struct(fields=())
    for each in structs:
        found = evolved(found, each, rules=rules).struct
    return found


def wider(one: Type, other: Type) -> Type | None:
    """The narrowest type that holds all values of both single types unchanged; None if there is none."""
    if one == other:
        return one
    if isinstance(one, Simple) and isinstance(other, Simple):
        pair = {one, other}
        if pair == {Simple.INT, Simple.BIGINT}:
            return Simple.BIGINT
        return Simple.DOUBLE if pair <= _TO_DOUBLE else None
    first, second = _as_decimal(one), _as_decimal(other)
    if first is None or second is None:
        return None
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    return Decimal(precision=whole + scale, scale=scale) if whole + scale <= _MOST_DIGITS else None


def holds_some(column: Type, field: Type) -> bool:
    """Whether both are numbers: then the column holds those of the field's values that it has exactly."""
    return _is_number(column) and _is_number(field)


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or kind in _NUMBERS


def _as_decimal(kind: Type) -> Decimal | None:
    if isinstance(kind, Simple):
        digits = _WHOLE_DIGITS.get(kind)
        return None if digits is None else Decimal(precision=digits, scale=0)
    return kind if isinstance(kind, Decimal) else None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk is."""

    path: str = ""
    steps: tuple[str, ...] = ()

    def field(self, name: str) -> _Place:
        return _Place(within(self.path, name), (*self.steps, name))

    def inner(self, step: str) -> _Place:
        return _Place(f"{self.path}[]", (*self.steps, step))


class _Walk:
    """Collects the changes of one comparison."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.added: list[Change] = []
        self.widened: list[Change] = []
        self.misfits: list[Misfit] = []

    def struct(self, table: Struct, record: Struct, place: _Place) -> Struct:
        fields = []
        for column in table.fields:
            field = record.find(column.name)
            at = place.field(column.name)
            kind = column.type if field is None else self._type(column.type, field.type, at)
            fields.append(Field(name=column.name, type=kind))
        for field in record.fields:
            if table.find(field.name) is None and self._rules.adds:
                fields.append(field)
                at = place.field(field.name)
                self.added.append(Change(path=at.path, steps=at.steps, before=None, after=field.type))
        return Struct(fields=tuple(fields))

    def _type(self, column: Type, field: Type, place: _Place) -> Type:
        match column, field:
            case Struct(), Struct():
                return self.struct(column, field, place)
            case Array(), Array():
                return Array(element=self._type(column.element, field.element, place.inner("element")))
            case Map(), Map():
                return Map(value=self._type(column.value, field.value, place.inner("value")))
            case _:
                return self._single(column, field, place)

    def _single(self, column: Type, field: Type, place: _Place) -> Type:
        found = wider(column, field)
        if found is None and self._rules.is_json:
            found = Simple.DOUBLE if holds_some(column, field) else Simple.STRING
        if found == column:
            return column
        if found is None or not self._rules.widens:
            self.misfits.append(Misfit(path=place.path, column=column, field=field))
            return column
        self.widened.append(Change(path=place.path, steps=place.steps, before=column, after=found))
        return found
