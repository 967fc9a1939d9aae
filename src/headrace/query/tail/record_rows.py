"""Single records as rows of a table: values, keys, headers, coordinates and folders, for whatever columns
cannot decide.

The rules are those of `pipeline/spark/lake/`: `shape.py` (null values), `rows.py` (coordinates),
`keys_and_headers.py`, and `partitioning.py` (values that cannot name a folder). Pure but for the schemas,
which are looked up.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from headrace.lake import layout
from headrace.lake.columns.folders import folder_text
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, parse_source
from headrace.lake.new_partitions import NO_VALUE
from headrace.lake.sink import NullValues
from headrace.lake.types import Simple
from headrace.pipeline.sink_records.stored_columns import HEADERS, KEY
from headrace.query.tail.derived_columns import NO_TIME, DerivedColumns
from headrace.query.tail.feeds import SchemaById
from headrace.query.tail.outcomes import (
    Dropped,
    Outcome,
    Refused,
    RefusedError,
    Row,
    Unsure,
    UnsureError,
)
from headrace.query.tail.row_shape import RowShape
from headrace.query.tail.side_values import SideValues, keys_of, read_as, values_of
from headrace.query.tail.single_columns import Seen
from headrace.query.tail.transformed_rows import Transformed, TransformedRows
from headrace.wire.records import Record

# The years 1 to 9999, in milliseconds.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
_POSTED_DIGITS: Final = 18
_EPOCH: Final = datetime.date(1970, 1, 1)


class RecordRows:
    """Of one table. Belongs to one thread."""

    def __init__(self, shape: RowShape, *, topic_id: str, schema_by_id: SchemaById) -> None:
        """`schema_by_id` may raise HeadraceError, which ends the decoding."""
        self._sink = shape.sink
        self._folders = shape.folders
        self._is_stored = shape.sink.stores_keys or shape.sink.stores_headers
        self._topic_id = topic_id
        self._derived = DerivedColumns(shape.derived, shape.values)
        self._keys: SideValues | None = None
        self._transformed: TransformedRows | None = None
        sink, reads = shape.sink, shape.reads
        if reads is not None:
            self._transformed = TransformedRows(sink, shape.topic, reads, shape.columns)
            self._values = read_as(sink.value, reads.value, side="value", schema_by_id=schema_by_id)
            if reads.key is not None:
                self._keys = read_as(sink.key, reads.key, side="key", schema_by_id=schema_by_id)
            return
        self._values = values_of(sink.value, shape.values, schema_by_id=schema_by_id)
        if sink.stores_keys:
            column = shape.columns.find(KEY)
            assert column is not None
            self._keys = keys_of(shape.sink.key, column.type, schema_by_id=schema_by_id)

    def outcome(self, record: Record, *, partition: int, offset: int, timestamp: int) -> Outcome:
        """What becomes of the record; `timestamp` is its own, in milliseconds."""
        try:
            made = self._made(record, partition=partition, offset=offset, timestamp=timestamp)
            is_null = made.is_null
            if made.reason:
                return Refused(reason=made.reason)
            if made.is_dropped or (is_null and self._sink.null_values is NullValues.IGNORE):
                return Dropped()
            if is_null and self._sink.null_values is NullValues.FAIL:
                return Refused(reason="The value is null.")
            derived = self._derived.of_row(
                made.fields, timestamp=timestamp, partition=partition, is_null=is_null
            )
            values = {**made.columns, **derived}
            if not is_null:
                self._check_folders(values)
            return Row(values=values | self._coordinates(record, partition, offset, timestamp))
        except RefusedError as error:
            return Refused(reason=str(error))
        except UnsureError as error:
            return Unsure(reason=str(error))

    def _made(self, record: Record, *, partition: int, offset: int, timestamp: int) -> Transformed:
        value = None if record.value is None else self._values.read(record.value)
        key = None if self._keys is None or record.key is None else self._keys.read(record.key)
        headers = None
        if record.headers and (self._transformed is not None or self._sink.stores_headers):
            # Without headers, Spark has null.
            headers = [{"key": _text(name), "value": content} for name, content in record.headers]
        if self._transformed is None:
            fields = {} if value is None else value
            stored = {KEY: key, HEADERS: headers} if self._is_stored else {}
            return Transformed(is_null=value is None, fields=fields, columns={**fields, **stored})
        return self._transformed.of(
            Seen(
                key=key,
                value=value,
                headers=headers,
                timestamp=None if timestamp == NO_TIME else timestamp * 1_000,
                partition=partition,
                offset=offset,
            )
        )

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
