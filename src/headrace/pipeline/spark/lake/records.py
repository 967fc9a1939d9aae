"""A record on its way from a topic to a table, as Spark columns whose types are known before the query runs.

Transformations change it, partitioning reads it, and the table's columns follow from its value. A struct is
kept as one column for each field, not as one column: so a chain of transformations makes an expression for
each field, and does not build and take apart the struct again at each step.

Invariants: the columns of a struct's fields are null where the struct is. Nothing here fails on any data: a
record that cannot be transformed has a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Self

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake.types import Field, Struct, Type, ddl


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumn:
    """A field with its values."""

    field: Field
    column: Column

    @property
    def name(self) -> str:
        return self.field.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A key or a value.

    `columns` are those of the fields if the type is a struct, otherwise the value alone. `present` is false
    where the key or value is null. `has_schema` is false for JSON without a schema, where the type was found
    in the data: some of Kafka's transformations then behave differently.
    """

    type: Type
    columns: tuple[Column, ...] = field(repr=False)
    present: Column = field(repr=False)
    has_schema: bool = True

    @classmethod
    def of(cls, kind: Type, column: Column, *, has_schema: bool = True) -> Self:
        columns = (
            tuple(column.getField(each.name) for each in kind.fields)
            if isinstance(kind, Struct)
            else (column,)
        )
        return cls(type=kind, columns=columns, present=column.isNotNull(), has_schema=has_schema)

    @property
    def column(self) -> Column:
        """The key or value as a whole."""
        if not isinstance(self.type, Struct):
            return self.columns[0]
        fields = F.struct(*(each.column.alias(each.name) for each in self.fields))
        return F.when(self.present, fields)

    @property
    def fields(self) -> tuple[NamedColumn, ...]:
        """Of a struct."""
        assert isinstance(self.type, Struct), self.type
        pairs = zip(self.type.fields, self.columns, strict=True)
        return tuple(NamedColumn(field=each, column=column) for each, column in pairs)

    def find(self, name: str) -> NamedColumn | None:
        """The field of a struct with exactly this name: Kafka's transformations respect case."""
        return next((each for each in self.fields if each.name == name), None)

    def with_fields(self, fields: Sequence[NamedColumn]) -> Typed:
        """A struct with other fields, null where this is null."""
        return replace(
            self,
            type=Struct(fields=tuple(each.field for each in fields)),
            columns=tuple(each.column for each in fields),
        )

    def with_value(self, kind: Type, column: Column) -> Typed:
        """Another value."""
        return Typed.of(kind, column, has_schema=self.has_schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`topic` is the name of the topic, and of the table unless it is changed. `key` is None if keys are not
    read. `headers` is an ARRAY<STRUCT<key STRING, value BINARY>>, or null; `timestamp` a TIMESTAMP, null if
    the record has none; `partition` an INT and `offset` a BIGINT.

    `reason` says why a record cannot be read or transformed, and is null if it can. It comes before `keep`,
    which is false for other records that are dropped; None if none are.
    """

    topic: str
    key: Typed | None
    value: Typed
    headers: Column = field(repr=False)
    timestamp: Column = field(repr=False)
    partition: Column = field(repr=False)
    offset: Column = field(repr=False)
    reason: Column = field(repr=False)
    keep: Column | None = field(default=None, repr=False)

    def failing(self, reason: Column | None) -> Record:
        """With a further reason. The first one stays, and records that were dropped before get none."""
        if reason is None:
            return self
        if self.keep is not None:
            reason = F.when(self.keep, reason)
        return replace(self, reason=F.coalesce(self.reason, reason))


def nothing(kind: Type) -> Column:
    """Null of a type."""
    return F.lit(None).cast(ddl(kind))


def midnight(day: Column) -> Column:
    """A DATE as a TIMESTAMP. Null outside the years 1 to 9999: Spark fails on the most distant days."""
    first, last = date.min.isoformat(), date.max.isoformat()
    return F.when(day.between(F.lit(first).cast("date"), F.lit(last).cast("date")), day).cast("timestamp")


def shown(value: Column) -> Column:
    """The beginning of a value, for a reason."""
    return F.coalesce(F.substring(value.cast("string"), 1, _SHOWN_CHARACTERS), F.lit("null"))


_SHOWN_CHARACTERS = 40
