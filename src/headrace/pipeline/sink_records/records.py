"""A record on its way from a topic to a table, as columns whose types are known before any record is read.

Transformations change it, partitioning reads it, and the table's columns follow from its value. A struct is
kept as one column for each field, not as one column: so a chain of transformations makes an expression for
each field, and does not build and take apart the struct again at each step.

Invariants: the columns of a struct's fields are null where the struct is. Nothing here fails on any data: a
record that cannot be transformed has a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from headrace.lake.types import Field, Struct, Type
from headrace.pipeline.sink_records.columns import C, Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumn(Generic[C]):
    """A field with its values."""

    field: Field
    column: C

    @property
    def name(self) -> str:
        return self.field.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed(Generic[C]):
    """A key or a value.

    `columns` are those of the fields if the type is a struct, otherwise the value alone. `present` is false
    where the key or value is null. `has_schema` is false for JSON without a schema, where the type was found
    in the data: some of Kafka's transformations then behave differently.
    """

    type: Type
    columns: tuple[C, ...] = field(repr=False)
    present: C = field(repr=False)
    made_by: Columns[C] = field(repr=False)
    has_schema: bool = True

    @property
    def column(self) -> C:
        """The key or value as a whole."""
        if not isinstance(self.type, Struct):
            return self.columns[0]
        fields = self.made_by.record([(each.name, each.column) for each in self.fields])
        return self.made_by.when(self.present, fields)

    @property
    def fields(self) -> tuple[NamedColumn[C], ...]:
        """Of a struct."""
        assert isinstance(self.type, Struct), self.type
        pairs = zip(self.type.fields, self.columns, strict=True)
        return tuple(NamedColumn(field=each, column=column) for each, column in pairs)

    def find(self, name: str) -> NamedColumn[C] | None:
        """The field of a struct with exactly this name: Kafka's transformations respect case."""
        return next((each for each in self.fields if each.name == name), None)

    def with_fields(self, fields: Sequence[NamedColumn[C]]) -> Typed[C]:
        """A struct with other fields, null where this is null."""
        return replace(
            self,
            type=Struct(fields=tuple(each.field for each in fields)),
            columns=tuple(each.column for each in fields),
        )

    def with_value(self, kind: Type, column: C) -> Typed[C]:
        """Another value."""
        return typed(self.made_by, kind, column, has_schema=self.has_schema)


def typed(made_by: Columns[C], kind: Type, column: C, *, has_schema: bool = True) -> Typed[C]:
    """The key or value that a column has."""
    columns = (
        tuple(made_by.field(column, each.name) for each in kind.fields)
        if isinstance(kind, Struct)
        else (column,)
    )
    present = made_by.is_present(column)
    return Typed(type=kind, columns=columns, present=present, made_by=made_by, has_schema=has_schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Generic[C]):
    """`topic` is the name of the topic, and of the table unless it is changed. `key` is None if keys are not
    read. `headers` is an ARRAY<STRUCT<key STRING, value BINARY>>, or null; `timestamp` a TIMESTAMP, null if
    the record has none; `partition` an INT and `offset` a BIGINT.

    `reason` says why a record cannot be read or transformed, and is null if it can. It comes before `keep`,
    which is false for other records that are dropped; None if none are.
    """

    topic: str
    key: Typed[C] | None
    value: Typed[C]
    headers: C = field(repr=False)
    timestamp: C = field(repr=False)
    partition: C = field(repr=False)
    offset: C = field(repr=False)
    reason: C = field(repr=False)
    keep: C | None = field(default=None, repr=False)

    @property
    def made_by(self) -> Columns[C]:
        return self.value.made_by

    def failing(self, reason: C | None) -> Record[C]:
        """With a further reason. The first one stays, and records that were dropped before get none."""
        if reason is None:
            return self
        if self.keep is not None:
            reason = self.made_by.when(self.keep, reason)
        return replace(self, reason=self.made_by.first([self.reason, reason]))
