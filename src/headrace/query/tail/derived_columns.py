"""Columns of a row that are no fields of its value: parts of a time, texts of nested fields, and the number
of the topic's partition. They name folders; the rules are those of `pipeline/spark/lake/partitioning.py`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.sink import TimePartitions
from headrace.lake.types import Simple, Struct, Type
from headrace.query.tail.folder_times import FolderTimes, moment_of, moments_of
from headrace.query.tail.outcomes import RefusedError, UnsureError
from headrace.wire.column_reader import Numbers

BY_RECORD: Final = "Record"
BY_FIELD: Final = "RecordField"
BY_CLOCK: Final = "Wallclock"
# Kafka's timestamp of a record that has none.
NO_TIME: Final = -1
_EPOCH: Final = datetime.date(1970, 1, 1)
_MIDNIGHT: Final = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """`nested` are paths, which are the names of their columns, too. `partition` is the column with the
    number of the topic's partition; empty if there is none.
    """

    nested: tuple[str, ...] = ()
    time: TimePartitions | None = None
    partition: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that are filled in here."""
        times = () if self.time is None else tuple(name for name, _ in self.time.columns)
        return (*self.nested, *times, *((self.partition,) if self.partition else ()))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those among them that the lake decides when it writes."""
        if self.time is None or self.time.extractor != BY_CLOCK:
            return ()
        return tuple(name for name, _ in self.time.columns)


class DerivedColumns:
    """Of one table. `values` are the fields of its values."""

    def __init__(self, derived: Derived, values: Struct) -> None:
        """Raises lake_unsupported if the lake refuses the pattern or the zone of a time."""
        self._derived = derived
        self._values = values
        self._times = None
        if derived.time is not None and derived.time.extractor != BY_CLOCK:
            self._times = FolderTimes(derived.time)

    def arrays(self, rows: pa.Table, timestamps: Numbers, *, partition: int) -> dict[str, pa.Array]:
        """For rows whose records have these timestamps. Raises UnusualRecordsError."""
        found: dict[str, pa.Array] = {}
        for path in self._derived.nested:
            found[path] = _texts_of(_column(rows, self._values, path))
        if self._times is not None:
            time = self._derived.time
            assert time is not None
            if time.extractor == BY_RECORD:
                if (timestamps == NO_TIME).any():
                    raise UnusualRecordsError("a record has no timestamp")
                moments = timestamps
            else:
                moments = moments_of(_column(rows, self._values, time.field), time.field)
            found |= self._times.columns(moments)
        found |= {name: pa.nulls(len(rows), pa.string()) for name in self._derived.unknown}
        if self._derived.partition:
            found[self._derived.partition] = pa.array(np.full(len(rows), partition, np.int32))
        return found

    def of_row(
        self, values: Mapping[str, Any], *, timestamp: int, partition: int, is_null: bool
    ) -> dict[str, Any]:
        """For one row; `is_null`: its record has no value, so that nothing about it is refused.

        Raises RefusedError and UnsureError.
        """
        found: dict[str, Any] = {}
        for path in self._derived.nested:
            value, kind = field_at(values, self._values, path)
            if value is not None:
                found[path] = text_of(value, kind)
        if self._times is not None:
            try:
                texts = self._times.texts(self._moment(values, timestamp))
                found |= dict(zip(self._times.names, texts, strict=True))
            except RefusedError:
                if not is_null:
                    raise
        if self._derived.partition:
            found[self._derived.partition] = partition
        return found

    def _moment(self, values: Mapping[str, Any], timestamp: int) -> int:
        time = self._derived.time
        assert time is not None
        if time.extractor == BY_RECORD:
            if timestamp == NO_TIME:
                raise RefusedError("The record has no timestamp for its folder.")
            return timestamp
        value, kind = field_at(values, self._values, time.field)
        return moment_of(value, kind, time.field)


def type_at(values: Struct, path: str) -> Type | None:
    """Of a field by a path with dots; None if there is none."""
    kind: Type = values
    for name in path.split("."):
        found = kind.find(name) if isinstance(kind, Struct) else None
        if found is None:
            return None
        kind = found.type
    return kind


def field_at(values: Mapping[str, Any], types: Struct, path: str) -> tuple[Any, Type]:
    """A field and its type; null if a record around it is."""
    value: Any = values
    kind: Type = types
    for name in path.split("."):
        assert isinstance(kind, Struct)
        found = kind.find(name)
        assert found is not None
        value, kind = None if value is None else value.get(found.name), found.type
    return value, kind


def text_of(value: Any, kind: Type) -> str:
    """A single value as Spark's text. Raises UnsureError."""
    match kind:
        case Simple.BOOLEAN:
            return "true" if value else "false"
        case Simple.INT | Simple.BIGINT | Simple.STRING:
            return str(value)
        case Simple.DATE:
            return (_EPOCH + datetime.timedelta(days=value)).isoformat()
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            moment = _MIDNIGHT + datetime.timedelta(microseconds=value)
            text = moment.isoformat(" ")
            return text.rstrip("0") if moment.microsecond else text
        case _:
            raise UnsureError("a number has a text that only the lake writes")


def _column(rows: pa.Table, types: Struct, path: str) -> pa.Array:
    first, *steps = path.split(".")
    field = types.find(first)
    assert field is not None
    column = rows.column(field.name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(column, pa.DictionaryArray):
        column = column.cast(column.type.value_type)
    kind = field.type
    for name in steps:
        assert isinstance(kind, Struct)
        inner = kind.find(name)
        assert inner is not None
        # Null where the record around it is.
        column, kind = pc.struct_field(column, [inner.name]), inner.type
    return column


def _texts_of(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    raise UnusualRecordsError("a nested field has texts of its own")
