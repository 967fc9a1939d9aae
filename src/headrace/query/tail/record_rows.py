"""Single records as rows of a table: values, coordinates and folders, for whatever columns cannot decide.

The rules are those of `pipeline/spark/lake/`: `shape.py` (null values), `rows.py` (coordinates) and
`partitioning.py` (values that cannot name a folder). Pure but for the schemas, which are looked up.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.avro_columns import VALUE
from headrace.lake.columns.folders import FolderColumn, folder_text
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, parse_source
from headrace.lake.new_partitions import NO_VALUE
from headrace.lake.sink import ConverterKind, LakeSink, NullValues
from headrace.lake.types import Simple, Struct
from headrace.query.tail.avro_rows import row_reader
from headrace.query.tail.json_rows import json_row
from headrace.query.tail.outcomes import (
    Dropped,
    Outcome,
    Refused,
    RefusedError,
    Row,
    Unsure,
    UnsureError,
)
from headrace.wire.records import Record

# The years 1 to 9999, in milliseconds.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
_POSTED_DIGITS: Final = 18
# Before the body of an Avro value: a zero byte and the id of the schema in four bytes.
_FRAME: Final = 5
_EPOCH: Final = datetime.date(1970, 1, 1)

_Body = Callable[[bytes], Mapping[str, Any]]


class RecordRows:
    """Of one table. `columns` are those of values, also those that folders add. Belongs to one thread."""

    def __init__(
        self,
        sink: LakeSink,
        columns: Struct,
        folders: tuple[FolderColumn, ...],
        *,
        topic_id: str,
        schema_by_id: Callable[[int], str | None],
        partition_column: str = "",
    ) -> None:
        """`partition_column` gets the number of the topic's partition; empty if none does.

        `schema_by_id` may raise HeadraceError, which ends the decoding.
        """
        self._sink = sink
        self._columns = columns
        self._folders = folders
        self._topic_id = topic_id
        self._schema_by_id = schema_by_id
        self._partition_column = partition_column
        self._readers: dict[int, _Body | str] = {}

    def outcome(self, record: Record, *, partition: int, offset: int, timestamp: int) -> Outcome:
        """What becomes of the record; `timestamp` is its own, in milliseconds."""
        try:
            values: Mapping[str, Any] = {}
            if record.value is None:
                match self._sink.null_values:
                    case NullValues.IGNORE:
                        return Dropped()
                    case NullValues.FAIL:
                        return Refused(reason="The value is null.")
            else:
                values = self._values(record.value)
            if self._partition_column:
                values = {**values, self._partition_column: partition}
            self._check_folders(values)
            return Row(values={**values, **self._coordinates(record, partition, offset, timestamp)})
        except RefusedError as error:
            return Refused(reason=str(error))
        except UnsureError as error:
            return Unsure(reason=str(error))

    def _values(self, value: bytes) -> Mapping[str, Any]:
        match self._sink.value.kind:
            case ConverterKind.AVRO:
                return self._avro(value)
            case ConverterKind.JSON:
                return json_row(value, self._columns)
            case ConverterKind.STRING:
                return self._only(_text(value), Simple.STRING)
            case ConverterKind.BYTES:
                return self._only(value, Simple.BINARY)

    def _only(self, value: object, kind: Simple) -> Mapping[str, Any]:
        column = self._columns.find(VALUE)
        if column is None or column.type is not kind:
            raise UnsureError(f"the table has no column {VALUE} of the type {kind.value}")
        return {column.name: value}

    def _avro(self, value: bytes) -> Mapping[str, Any]:
        if len(value) < _FRAME or value[0]:
            raise RefusedError(
                "The value is not in Confluent's wire format: it has no zero byte and schema id in front."
            )
        schema_id = int.from_bytes(value[1:_FRAME])
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._reader(schema_id)
        if isinstance(reader, str):
            raise UnsureError(reader)
        return reader(value[_FRAME:])

    def _reader(self, schema_id: int) -> _Body | str:
        text = self._schema_by_id(schema_id)
        if text is None:
            # It may have it later: not remembered.
            raise RefusedError(f"The registry has no schema with id {schema_id}.")
        try:
            return row_reader(text, self._columns)
        except HeadraceError as error:
            return f"schema {schema_id}: {error.message}"

    def _check_folders(self, values: Mapping[str, Any]) -> None:
        for column in self._folders:
            value = values.get(column.name)
            if value is not None and column.type is Simple.DATE:
                value = _EPOCH + datetime.timedelta(days=value)
            try:
                folder_text(value, column)
            except UnusualRecordsError as error:
                if value == NO_VALUE:
                    raise UnsureError(str(error)) from error
                raise RefusedError(f"{error}.") from error

    def _coordinates(self, record: Record, partition: int, offset: int, timestamp: int) -> dict[str, Any]:
        # Of headers with the same name the last one counts.
        headers = dict(record.headers)
        source = _header(headers.get(SOURCE_HEADER.encode()))
        try:
            found = None if source is None else parse_source(source)
        except ValueError:
            found = None
        return {
            layout.QUERY: "" if found is None else found.query,
            layout.SOURCE_TOPIC_ID: self._topic_id if found is None else found.topic_id,
            layout.SOURCE_PARTITION: partition if found is None else found.partition,
            layout.SOURCE_OFFSET: offset if found is None else found.offset,
            layout.SOURCE_ORDINAL: 0 if found is None else found.ordinal,
            layout.TOPIC_PARTITION: partition,
            layout.TOPIC_OFFSET: offset,
            layout.POSTED_AT: 1_000 * _posted_at(_header(headers.get(POSTED_AT_HEADER.encode())), timestamp),
        }


def _header(value: bytes | None) -> bytes | None:
    if value is not None:
        _text(value)
    return value


def _posted_at(header: bytes | None, timestamp: int) -> int:
    if header is not None:
        if not header.isdigit() or len(header) > _POSTED_DIGITS:
            raise UnsureError("the time when a record was posted is not a plain number")
        if int(header) <= _LAST_MS:
            return int(header)
    return min(max(timestamp, _FIRST_MS), _LAST_MS)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise UnsureError("a text is not UTF-8") from error
