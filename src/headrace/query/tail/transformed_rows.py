"""Rows of records that the sink transforms: the same transformations as in the pipeline
(`pipeline/sink_records/transforms/`), of single records.

They work on what the pipeline reads, whose columns are in the table's commits (`lake/read_columns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.lake.read_columns import ReadColumns
from headrace.lake.sink import Converter, ConverterKind, LakeSink
from headrace.lake.types import Struct, Type
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed, typed
from headrace.pipeline.sink_records.stored_columns import stored_columns, value_columns
from headrace.pipeline.sink_records.transforms import transformed
from headrace.query.tail.retyping import Fit, fitted
from headrace.query.tail.single_columns import SINGLE, Cell, Seen

_BARE: Final = (ConverterKind.STRING, ConverterKind.BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """What became of a record. `reason` says why it cannot be transformed; empty if it can.

    `fields` are those of the new value, `columns` those of the table that are not derived.
    """

    reason: str = ""
    is_dropped: bool = False
    is_null: bool = False
    fields: Mapping[str, Any]
    columns: Mapping[str, Any]


class TransformedRows:
    """Of one table. `columns` are the table's."""

    def __init__(self, sink: LakeSink, topic: str, reads: ReadColumns, columns: Struct) -> None:
        """Raises lake_unsupported if the lake refuses such a sink, or knows more than is known here."""
        record: Record[Cell] = transformed(
            Record(
                topic=topic,
                key=None if reads.key is None else _typed(reads.key, sink.key, lambda seen: seen.key),
                value=_typed(reads.value, sink.value, lambda seen: seen.value),
                headers=lambda seen: seen.headers,
                timestamp=lambda seen: seen.timestamp,
                partition=lambda seen: seen.partition,
                offset=lambda seen: seen.offset,
                reason=lambda _: None,
            ),
            sink.transformations,
        )
        self._record = record
        self._fields: tuple[NamedColumn[Cell], ...] = value_columns(record.value)
        stored = stored_columns(record, stores_keys=sink.stores_keys, stores_headers=sink.stores_headers)
        self._columns: list[tuple[str, Cell, Fit]] = []
        for each in (*self._fields, *stored):
            column = columns.find(each.name)
            if column is not None:
                fit = fitted(each.field.type, column.type, column.name)
                self._columns.append((column.name, each.column, fit))

    @property
    def values(self) -> Struct:
        """The columns of the new values."""
        return Struct(fields=tuple(each.field for each in self._fields))

    def of(self, seen: Seen) -> Transformed:
        """Raises RefusedError if it does not fit the table, and UnsureError."""
        record = self._record
        nothing: Mapping[str, Any] = {}
        reason = record.reason(seen)
        if reason is not None:
            return Transformed(reason=reason, fields=nothing, columns=nothing)
        if record.keep is not None and not record.keep(seen):
            return Transformed(is_dropped=True, fields=nothing, columns=nothing)
        is_null = not record.value.present(seen)
        return Transformed(
            is_null=is_null,
            fields={each.name: each.column(seen) for each in self._fields},
            columns={name: fit(cell(seen)) for name, cell, fit in self._columns},
        )


def _typed(columns: Struct, converter: Converter, cell: Cell) -> Typed[Cell]:
    """Texts and bytes are not records: they are the only column."""
    has_schema = converter.kind is not ConverterKind.JSON or converter.has_schemas
    kind: Type = columns
    if converter.kind in _BARE:
        (only,) = columns.fields
        kind = only.type
    return typed(SINGLE, kind, cell, has_schema=has_schema)
