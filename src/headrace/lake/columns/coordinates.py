"""The coordinates of rows: where each comes from and when it was posted, from the headers of its record.

The same as `pipeline/spark/lake/rows.py` finds for single rows. The records of a topic almost always have
headers of the same form; a mixture of forms is left to the way of single rows.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake import layout
from headrace.lake.columns import arrays
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, SOURCE_PATTERN
from headrace.wire.column_reader import Bytes, Flags, Numbers
from headrace.wire.record_columns import RecordColumns, Slices

# The years 1 to 9999, in milliseconds.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
# `<query>/<source topic id>/<partition>`, in front of `/<offset>/<ordinal>` (`lake/coordinates.py`).
_SOURCE_START: Final = re.compile(r"([^/]*)/([^/]+)/([0-9]{1,9})")
_OFFSET_DIGITS: Final = 18
_ORDINAL_DIGITS: Final = 9
_POSTED_DIGITS: Final = 15


def coordinates_of(records: RecordColumns, *, partition: int, topic_id: str) -> dict[str, pa.Array]:
    """The columns of `layout.COORDINATE_COLUMNS`. `partition` and `topic_id` are where the records were read.

    Raises UnusualRecordsError.
    """
    count = len(records)
    found = {
        layout.QUERY: _constant("", count),
        layout.SOURCE_TOPIC_ID: _constant(topic_id, count),
        layout.SOURCE_PARTITION: pa.array(np.full(count, partition, np.int32)),
        layout.SOURCE_OFFSET: pa.array(records.offset),
        layout.SOURCE_ORDINAL: pa.array(np.zeros(count, np.int32)),
    }
    source = _last_header(records, SOURCE_HEADER.encode())
    if source is not None:
        found |= _sources(records, source)
    posted = _posted_at(records, _last_header(records, POSTED_AT_HEADER.encode()))
    return found | {
        layout.TOPIC_PARTITION: pa.array(np.full(count, partition, np.int32)),
        layout.TOPIC_OFFSET: pa.array(records.offset),
        layout.POSTED_AT: pa.array(posted * 1000, pa.timestamp("us", "UTC")),
    }


def _sources(records: RecordColumns, source: Slices) -> dict[str, pa.Array]:
    """Where derived records come from. Nothing if their headers have another form, as those of rows of many
    records: then they count as records of the topic itself.
    """
    text = _texts(records, source)
    parts = pc.split_pattern(text, "/", max_splits=2, reverse=True)
    if pc.min(pc.list_value_length(parts)).as_py() < 3:
        return _of_another_form(text)
    flat = parts.flatten()
    place = np.arange(0, len(flat), 3)
    starts, offsets, ordinals = (flat.take(pa.array(place + number)) for number in range(3))
    encoded = starts.dictionary_encode()
    known = [_SOURCE_START.fullmatch(each) for each in encoded.dictionary.to_pylist()]
    are_numbers = _are_numbers(offsets, _OFFSET_DIGITS) and _are_numbers(ordinals, _ORDINAL_DIGITS)
    if not all(known) or not are_numbers:
        return _of_another_form(text)
    queries, topics, partitions = zip(*(each.groups() for each in known if each), strict=True)
    codes = encoded.indices
    return {
        layout.QUERY: pa.DictionaryArray.from_arrays(codes, pa.array(queries, pa.string())),
        layout.SOURCE_TOPIC_ID: pa.DictionaryArray.from_arrays(codes, pa.array(topics, pa.string())),
        layout.SOURCE_PARTITION: pa.array([int(each) for each in partitions], pa.int32()).take(codes),
        layout.SOURCE_OFFSET: offsets.cast(pa.int64()),
        layout.SOURCE_ORDINAL: ordinals.cast(pa.int32()),
    }


def _posted_at(records: RecordColumns, header: Slices | None) -> Numbers:
    """Milliseconds since 1970: as the header says, or when the record was written."""
    if header is None:
        return np.clip(records.timestamp, _FIRST_MS, _LAST_MS)
    text = _texts(records, header)
    if not _are_numbers(text, _POSTED_DIGITS):
        raise UnusualRecordsError("the time when a record was posted is not a number")
    posted = np.asarray(text.cast(pa.int64()), np.int64)
    if int(posted.max()) > _LAST_MS:
        raise UnusualRecordsError("a record was posted after the year 9999")
    return posted


def _texts(records: RecordColumns, header: Slices) -> pa.Array:
    if header.is_null.any():
        raise UnusualRecordsError("not all records have the same of our headers")
    return arrays.texts(records.buffer, header.start, header.length)


def _of_another_form(text: pa.Array) -> dict[str, pa.Array]:
    """No coordinates, if none of the headers has them."""
    if pc.any(pc.match_substring_regex(text, rf"\A{SOURCE_PATTERN}\z")).as_py():
        raise UnusualRecordsError("some records have coordinates of their source, others have not")
    return {}


def _are_numbers(texts: pa.Array, most: int) -> bool:
    """Whether all of them are digits and nothing else, at most so many."""
    return (
        bool(pc.all(pc.ascii_is_decimal(texts)).as_py()) and pc.max(pc.binary_length(texts)).as_py() <= most
    )


def _constant(text: str, count: int) -> pa.Array:
    """Not a value for each row: Parquet writes the dictionary as it is."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _last_header(records: RecordColumns, name: bytes) -> Slices | None:
    """The value of the last header with this name of each record; None if no record has any."""
    found: Slices | None = None
    for key, value in records.headers:
        named = _equal(records.buffer, key, name)
        if named.all():
            found = value
        elif named.any():
            before = found or Slices(start=value.start, length=np.full(len(records), -1, np.int64))
            found = Slices(
                start=np.where(named, value.start, before.start),
                length=np.where(named, value.length, before.length),
            )
    return found


def _equal(buffer: Bytes, slices: Slices, text: bytes) -> Flags:
    """Whether each slice is this text."""
    equal = slices.length == len(text)
    lanes = np.flatnonzero(equal)
    if len(lanes):
        windows = np.lib.stride_tricks.sliding_window_view(buffer, len(text))
        equal[lanes] = (windows[slices.start[lanes]] == np.frombuffer(text, np.uint8)).all(axis=1)
    return np.asarray(equal, np.bool_)
