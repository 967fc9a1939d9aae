"""Rows of a table from the records of a topic, in columns: the fields of Avro values, and the coordinates.

Raises UnusualRecordsError for anything that is not as expected; then the records have no rows here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.columns.avro_decoding import RecordDecoder, UnsupportedShapeError, decoder_of
from headrace.lake.columns.coordinates import coordinates_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.layout import COORDINATE_COLUMNS
from headrace.lake.types import Struct
from headrace.wire.column_reader import ColumnReader, Flags
from headrace.wire.record_columns import RecordColumns

# Before the body: a zero byte and the id of the schema in four bytes.
_FRAME: Final = 5

# The text of a schema; None if it is not known.
SchemaById = Callable[[int], str | None]


def rows_of(
    records: RecordColumns, *, partition: int, topic_id: str, columns: Struct, schema_by_id: SchemaById
) -> pa.Table:
    """The columns of values, which are `columns`, and then `COORDINATE_COLUMNS`; some of these are encoded as
    dictionaries. `partition` and `topic_id` are where the records were read.
    """
    found = values_of(records, columns, schema_by_id) | coordinates_of(
        records, partition=partition, topic_id=topic_id
    )
    names = [*(each.name for each in columns.fields), *(each.name for each in COORDINATE_COLUMNS)]
    return pa.table([found[name] for name in names], names=names)


def values_of(records: RecordColumns, columns: Struct, schema_by_id: SchemaById) -> dict[str, pa.Array]:
    """The columns of values alone."""
    start, length = records.value.start, records.value.length
    if (length < _FRAME).any() or records.buffer[start].any():
        raise UnusualRecordsError("a value is not in Confluent's wire format")
    ids = np.zeros(len(records), np.int64)
    for place in range(1, _FRAME):
        ids = ids << 8 | records.buffer[start + place]
    present = np.unique(ids)
    if len(present) == 1:
        return _decoded(records, int(present[0]), columns, schema_by_id)
    # Records of several schemas are rare: those of each are read together, and then put in order again.
    parts = [
        (ids == each, _decoded(records.only(ids == each), int(each), columns, schema_by_id))
        for each in present
    ]
    order = np.argsort(np.concatenate([np.flatnonzero(lanes) for lanes, _ in parts]))
    place = pa.array(order)
    return {
        field.name: pa.concat_arrays([part[field.name] for _, part in parts]).take(place)
        for field in columns.fields
    }


def _decoded(
    records: RecordColumns, schema_id: int, columns: Struct, schema_by_id: SchemaById
) -> dict[str, pa.Array]:
    """All columns of values."""
    schema = schema_by_id(schema_id)
    if schema is None:
        raise UnusualRecordsError(f"a record has the schema {schema_id}, which is new")
    start, length = records.value.start, records.value.length
    reader = ColumnReader(records.buffer, start + _FRAME, start + length)
    found = _decoder(schema, columns).arrays(reader)
    _check_whole(reader.good & (reader.left == 0), schema_id)
    return {
        field.name: found[field.name]
        if field.name in found
        else pa.nulls(len(records), arrow_type(field.type))
        for field in columns.fields
    }


def _check_whole(is_whole: Flags, schema_id: int) -> None:
    if not is_whole.all():
        raise UnusualRecordsError(f"a record cannot be read with its schema {schema_id}")


@lru_cache(maxsize=256)
def _decoder(schema: str, columns: Struct) -> RecordDecoder:
    try:
        return decoder_of(schema, columns)
    except UnsupportedShapeError as error:
        raise UnusualRecordsError(str(error)) from error
