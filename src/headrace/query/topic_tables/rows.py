"""Records as rows of a topic's table: of each, the columns that a question needs and no others.

Invariant: every record is a row, whatever is in it. What cannot be read is NULL, and `_problem` says why; one
odd record never fails a question. Values in Avro are read for all records at once; where that does not work
for one of them, one by one. Belongs to one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import columns_of
from headrace.lake.columns.arrays import binaries, texts
from headrace.lake.columns.rows import values_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.types import Struct
from headrace.query.decoding import RecordDecoder
from headrace.query.result_values import encoded
from headrace.query.tail.avro_rows import row_reader
from headrace.query.tail.outcomes import RefusedError, UnsureError
from headrace.query.topic_tables.columns import (
    AVRO,
    BYTES,
    FORM,
    HEADERS,
    IS_AVRO,
    IS_BINARY,
    IS_NULL,
    IS_TEXT,
    KEY,
    OFFSET,
    PARTITION,
    PROBLEM,
    TEXT,
    TIMESTAMP,
    columns_read,
    fields_shown,
)
from headrace.query.topic_tables.ranges import FIRST_MS, LAST_MS
from headrace.wire.column_reader import Bytes, Flags
from headrace.wire.record_columns import RecordColumns, Slices

# Confluent's wire format: a zero byte, the schema's id, the body.
_FRAME: Final = struct.Struct(">bI")

# Control characters other than line breaks and tabs mean that this is no text.
_CONTROLS: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
# Bytes that only look like Avro may have any number where Avro has the id of a schema.
_MOST_UNKNOWN: Final = 100

SchemaById = Callable[[int], str | None]


def fields_of(newest: str | None) -> Struct:
    """The fields that get columns, of the newest schema of a topic's values; none if it has no columns."""
    if newest is None:
        return Struct(fields=())
    try:
        return fields_shown(columns_of(newest))
    except HeadraceError:
        # A schema that the lake has no columns for: its values are in `_value`.
        return Struct(fields=())


class TopicRows:
    """Of one topic. `fields` are those with columns."""

    def __init__(self, fields: Struct, schema_by_id: SchemaById) -> None:
        self.schema = columns_read(fields)
        self._fields = fields
        self._names = {field.name for field in fields.fields}
        self._ask = schema_by_id
        self._unknown: set[int] = set()
        self._decoder = RecordDecoder(self._known)
        self._readers: dict[int, Callable[[bytes], Mapping[str, Any] | None] | str] = {}

    def batch(self, records: RecordColumns, partition: int, wanted: Collection[str]) -> pa.RecordBatch:
        """Of these columns, in the order of the schema."""
        count = len(records)
        found: dict[str, pa.Array] = {}
        if PARTITION in wanted:
            found[PARTITION] = pa.array(np.full(count, partition, np.int32))
        if OFFSET in wanted:
            found[OFFSET] = pa.array(records.offset, pa.int64())
        if TIMESTAMP in wanted:
            known = (
                (records.timestamp >= FIRST_MS) & (records.timestamp <= LAST_MS) & (records.timestamp != -1)
            )
            micros = np.where(known, records.timestamp, 0) * 1_000
            found[TIMESTAMP] = pa.array(micros, pa.timestamp("us", "UTC"), mask=~known)
        if KEY in wanted:
            found[KEY] = self._keys(records)
        if HEADERS in wanted:
            found[HEADERS] = pa.array(_headers(records), self.schema.field(HEADERS).type)
        if BYTES in wanted:
            found[BYTES] = _binaries(records.buffer, records.value)
        if not {TEXT, AVRO, FORM, PROBLEM, *self._names}.isdisjoint(wanted):
            found |= self._values(records, wanted)
        columns = [field for field in self.schema if field.name in wanted]
        return pa.RecordBatch.from_arrays([found[field.name] for field in columns], schema=pa.schema(columns))

    def _values(self, records: RecordColumns, wanted: Collection[str]) -> dict[str, pa.Array]:
        present = ~records.value.is_null
        ids = _schema_ids(records)
        is_avro = np.zeros(len(records), np.bool_)
        for schema_id in np.unique(ids[ids >= 0]):
            if self._schema_by_id(int(schema_id)) is not None:
                is_avro |= ids == schema_id
        found: dict[str, pa.Array] = {}
        if {TEXT, FORM} & set(wanted):
            text = _texts(records.buffer, records.value, present & ~is_avro)
            is_text = np.asarray(text.is_valid(), np.bool_)
            forms = np.array([IS_NULL, IS_AVRO, IS_TEXT, IS_BINARY], dtype=object)
            number = np.where(~present, 0, np.where(is_avro, 1, np.where(is_text, 2, 3)))
            found |= {TEXT: text, FORM: pa.array(forms[number], pa.string())}
        problems: list[str | None] = [None] * len(records)
        for lane in np.flatnonzero((ids >= 0) & ~is_avro):
            if records.value.length[lane] > _FRAME.size:
                problems[lane] = f"The registry has no schema {ids[lane]} in Avro."
        if AVRO in wanted or PROBLEM in wanted:
            found[AVRO] = self._avro_texts(records, is_avro, problems)
        names = self._names if PROBLEM in wanted else self._names & set(wanted)
        if names:
            found |= self._field_columns(records, is_avro, problems, names)
        found[PROBLEM] = pa.array(problems, pa.string())
        return found

    def _avro_texts(self, records: RecordColumns, is_avro: Flags, problems: list[str | None]) -> pa.Array:
        rows: list[str | None] = [None] * len(records)
        for lane in np.flatnonzero(is_avro):
            decoded = self._decoder.avro(_bytes_at(records.buffer, records.value, lane))
            if decoded is None:
                problems[lane] = "The value cannot be read with the schema of its id."
            else:
                rows[lane] = encoded(decoded.value).decode()
        return pa.array(rows, pa.string())

    def _field_columns(
        self, records: RecordColumns, is_avro: Flags, problems: list[str | None], names: Collection[str]
    ) -> dict[str, pa.Array]:
        types = {name: self.schema.field(name).type for name in names}
        lanes = np.flatnonzero(is_avro)
        if not len(lanes):
            return {name: pa.nulls(len(records), kind) for name, kind in types.items()}
        # Only these are decoded.
        fields = Struct(fields=tuple(field for field in self._fields.fields if field.name in names))
        try:
            found = values_of(records.only(is_avro), fields, self._schema_by_id)
        except UnusualRecordsError:
            rows = self._one_by_one(records, lanes, problems)
            return {name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
        place = np.zeros(len(records), np.int64)
        place[lanes] = np.arange(len(lanes))
        taken = pa.array(place, mask=~is_avro)
        return {name: found[name].cast(kind).take(taken) for name, kind in types.items()}

    def _one_by_one(
        self, records: RecordColumns, lanes: Any, problems: list[str | None]
    ) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = [{}] * len(records)
        for lane in lanes:
            value = _bytes_at(records.buffer, records.value, lane)
            _, schema_id = _FRAME.unpack_from(value)
            reader = self._reader(schema_id)
            if isinstance(reader, str):
                problems[lane] = reader
                continue
            try:
                # A null has no fields; the whole value says that it is one.
                rows[lane] = reader(value[_FRAME.size :]) or {}
            except (RefusedError, UnsureError) as error:
                problems[lane] = str(error)
        return rows

    def _reader(self, schema_id: int) -> Callable[[bytes], Mapping[str, Any] | None] | str:
        """What reads the bodies of a schema, or why nothing can."""
        if schema_id not in self._readers:
            try:
                self._readers[schema_id] = row_reader(self._known(schema_id), self._fields)
            except HeadraceError as error:
                self._readers[schema_id] = error.message
        return self._readers[schema_id]

    def _schema_by_id(self, schema_id: int) -> str | None:
        if schema_id in self._unknown or len(self._unknown) > _MOST_UNKNOWN:
            return None
        found = self._ask(schema_id)
        if found is None:
            self._unknown.add(schema_id)
        return found

    def _known(self, schema_id: int) -> str:
        found = self._schema_by_id(schema_id)
        if found is None:
            raise HeadraceError("schema_not_found", f"The registry has no schema {schema_id} in Avro.")
        return found

    def _keys(self, records: RecordColumns) -> pa.Array:
        present = ~records.key.is_null
        first = records.buffer[records.key.start.clip(max=len(records.buffer) - 1)]
        if not ((first == 0) & (records.key.length > 0)).any():
            try:
                return texts(records.buffer, records.key.start, records.key.length.clip(min=0), present)
            except UnusualRecordsError:
                pass
        keys: list[str | None] = [None] * len(records)
        for lane in np.flatnonzero(present):
            keys[lane] = self._key(_bytes_at(records.buffer, records.key, lane))
        return pa.array(keys, pa.string())

    def _key(self, key: bytes) -> str:
        decoded = self._decoder.avro(key)
        if decoded is not None:
            return decoded.value if isinstance(decoded.value, str) else encoded(decoded.value).decode()
        return _text(key) or key.hex()


def _schema_ids(records: RecordColumns) -> Any:
    """The ids that values seem to have; -1 for those that are not in the wire format."""
    start, length = records.value.start, records.value.length
    is_framed = length >= _FRAME.size
    last = len(records.buffer) - 1
    is_framed &= records.buffer[start.clip(max=last)] == 0
    ids = np.zeros(len(records), np.int64)
    for place in range(1, _FRAME.size):
        ids = ids << 8 | records.buffer[(start + place).clip(max=last)]
    return np.where(is_framed, ids, -1)


def _binaries(buffer: Bytes, slices: Slices) -> pa.Array:
    return binaries(buffer, slices.start, slices.length.clip(min=0), ~slices.is_null)


def _texts(buffer: Bytes, slices: Slices, wanted: Flags) -> pa.Array:
    """Those of the slices that are UTF-8 without control characters; the others are null."""
    length = np.where(wanted, slices.length, 0)
    try:
        found = texts(buffer, slices.start, length, wanted)
    except UnusualRecordsError:
        rows: list[str | None] = [None] * len(length)
        for lane in np.flatnonzero(wanted):
            rows[lane] = _decoded(_bytes_at(buffer, slices, lane))
        found = pa.array(rows, pa.string())
    has_controls = pc.fill_null(pc.match_substring_regex(found, _CONTROLS), False)
    return (
        pc.if_else(has_controls, pa.scalar(None, pa.string()), found)
        if pc.any(has_controls).as_py()
        else found
    )


def _bytes_at(buffer: Bytes, slices: Slices, lane: Any) -> bytes:
    """Of one record, which has some."""
    start = int(slices.start[lane])
    return buffer[start : start + int(slices.length[lane])].tobytes()


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _text(data: bytes) -> str | None:
    """Without control characters, which mean that it is no text."""
    text = _decoded(data)
    return None if text is None or any(ord(letter) < 32 for letter in text) else text


def _headers(records: RecordColumns) -> list[list[tuple[str, list[str | None]]]]:
    """The headers of each record: their names with all their values."""
    rows: list[dict[str, list[str | None]]] = [{} for _ in range(len(records))]
    for key, value in records.headers:
        for lane in np.flatnonzero(~key.is_null):
            name = _bytes_at(records.buffer, key, lane).decode("utf-8", "replace")
            data = None if value.length[lane] < 0 else _bytes_at(records.buffer, value, lane)
            rows[lane].setdefault(name, []).append(None if data is None else _decoded(data) or data.hex())
    return [list(row.items()) for row in rows]
