"""A table of the statement language as rows, from its topic: what a pull query of all its rows gives.

Its columns are those of the key and of the value; `WINDOWSTART` and `WINDOWEND` if it has windows; and
`ROWTIME`. The latter three are TIMESTAMP WITH TIME ZONE, as are columns of the type TIMESTAMP.

Rows that cannot be read are left out, as in pull queries, and counted. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.serving.newest_records import (
    HEADERS,
    WRITTEN,
    NewestRecords,
    must_keep_deleted,
    rows_of,
    window_bytes_of,
)
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructType,
)
from headrace.query.statement_tables.plan import StatementTablePlan
from headrace.query.topic_tables.ranges import Ranges
from headrace.query.topic_tables.reading import Allowance, ScanNotes, TopicReading
from headrace.wire.record_columns import RecordColumns, Slices

_MOMENT: Final = pa.timestamp("us", "UTC")
_SCALARS: Final[Mapping[ScalarType, pa.DataType]] = {
    ScalarType.BOOLEAN: pa.bool_(),
    ScalarType.INTEGER: pa.int32(),
    ScalarType.BIGINT: pa.int64(),
    ScalarType.DOUBLE: pa.float64(),
    ScalarType.VARCHAR: pa.string(),
    ScalarType.BYTES: pa.binary(),
    ScalarType.DATE: pa.date32(),
    ScalarType.TIME: pa.time64("us"),
    ScalarType.TIMESTAMP: _MOMENT,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Rows that are Python's objects at once.
_PORTION: Final = 10_000


class _ReadOnlySchemas:
    """The registry as far as reading needs it."""

    def __init__(self, by_id: Callable[[int], str | None]) -> None:
        self._by_id = by_id

    def schema_by_id(self, schema_id: int, /) -> str | None:
        return self._by_id(schema_id)

    def register(self, subject: str, schema: str, /) -> int:
        raise TypeError(f"a question registers no schema ({subject}, {schema})")

    def schemas_of(self, subject: str, /) -> dict[int, str]:
        raise TypeError(f"a question asks for no subject ({subject})")

    def why_not(self, subject: str, schema: str, /) -> str | None:
        raise TypeError(f"a question proposes no schema ({subject}, {schema})")


def table_rows(
    plan: StatementTablePlan,
    allowance: Allowance,
    notes: ScanNotes,
    schema_by_id: Callable[[int], str | None],
) -> tuple[pa.Table, int]:
    """All rows of the table, and how many could not be read. Raises as `TopicReading`."""
    source = plan.source
    newest = NewestRecords(
        window_bytes=window_bytes_of(source),
        keeps_deleted=must_keep_deleted(source, len(plan.topic.stretches)),
    )
    present = {number: ends for number, ends in plan.topic.stretches.items() if ends[0] < ends[1]}
    reading = TopicReading(plan.topic, allowance, notes)
    try:
        for number, records in reading.portions(Ranges(stretches=present)):
            notes.rows += len(records)
            _take(newest, records, number)
    finally:
        reading.close()
    unreadable: list[object] = []
    schema = columns_of(source)
    batches: list[pa.RecordBatch] = []
    portion: list[dict[str, Any]] = []
    kinds = {column.name: column.type for column in source.columns}
    for row in rows_of(
        newest.records(), source, _ReadOnlySchemas(schema_by_id), on_unreadable=unreadable.append
    ):
        portion.append(_arrow_row(row, kinds, has_window=source.window is not None))
        if len(portion) == _PORTION:
            batches.append(pa.RecordBatch.from_pylist(portion, schema=schema))
            portion = []
    batches.append(pa.RecordBatch.from_pylist(portion, schema=schema))
    return pa.Table.from_batches(batches), len(unreadable)


def columns_of(source: Source) -> pa.Schema:
    """The columns of a table in SQL."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in source.columns]
    if source.window is not None:
        fields += [pa.field("WINDOWSTART", _MOMENT), pa.field("WINDOWEND", _MOMENT)]
    taken = {field.name.casefold() for field in fields}
    return pa.schema([*fields, *([] if "rowtime" in taken else [pa.field("ROWTIME", _MOMENT)])])


def arrow_type(kind: DataType) -> pa.DataType:
    match kind:
        case ScalarType():
            return _SCALARS[kind]
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case ArrayType():
            return pa.list_(arrow_type(kind.element))
        case MapType():
            return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
        case StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
        case _:
            raise TypeError(f"a column of the type {kind}")


def _arrow_row(row: Mapping[str, Any], kinds: Mapping[str, DataType], *, has_window: bool) -> dict[str, Any]:
    found = {name: _arrow_value(row.get(name), kind) for name, kind in kinds.items()}
    if has_window:
        found |= {name: _moment(row[name]) for name in ("WINDOWSTART", "WINDOWEND")}
    found.setdefault("ROWTIME", _moment(row["ROWTIME"]))
    return found


def _arrow_value(value: Any, kind: DataType) -> Any:
    """Arrow's maps are lists of pairs."""
    if value is None:
        return None
    match kind:
        case ArrayType():
            return [_arrow_value(each, kind.element) for each in value]
        case MapType():
            return [(key, _arrow_value(each, kind.value)) for key, each in value.items()]
        case StructType():
            return {field.name: _arrow_value(value.get(field.name), field.type) for field in kind.fields}
        case _:
            return value


def _moment(milliseconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def _take(newest: NewestRecords, records: RecordColumns, partition: int) -> None:
    for lane, (offset, written) in enumerate(
        zip(records.offset.tolist(), records.timestamp.tolist(), strict=True)
    ):
        position = {
            WRITTEN: written,
            "ROWPARTITION": partition,
            "ROWOFFSET": offset,
            HEADERS: _headers(records, lane),
        }
        newest.take(_bytes(records, records.key, lane), _bytes(records, records.value, lane), position)


def _headers(records: RecordColumns, lane: int) -> list[tuple[str, bytes | None]]:
    return [
        ((_bytes(records, key, lane) or b"").decode("utf-8", "replace"), _bytes(records, value, lane))
        for key, value in records.headers
        if key.length[lane] >= 0
    ]


def _bytes(records: RecordColumns, slices: Slices, lane: int) -> bytes | None:
    length = int(slices.length[lane])
    if length < 0:
        return None
    start = int(slices.start[lane])
    return np.asarray(records.buffer)[start : start + length].tobytes()
