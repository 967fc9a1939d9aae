"""The records of whole batches as columns: offsets, times, and where keys, values and headers are.

`records.py` has the byte format. It makes an object of each record; here only the lengths of the records are
read one by one, because each says where the next one begins. Everything else is read for all records at once
(`column_reader.py`).

Invariants: the same as of `records.py`; one bad record is a CorruptBatchError for all. Keys, values and
headers are not copied: a column says where they are in the buffer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.wire.column_reader import INT_BYTES, Bytes, ColumnReader, Flags, Numbers, padded
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import BatchHeader, Buffer, check
from headrace.wire.records import payload, read_varint

# A batch of a few bytes can be decompressed to so many records, and each takes some hundred bytes here.
MOST_RECORDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Where the values of a column are in a buffer. The length of null is -1."""

    start: Numbers
    length: Numbers

    @property
    def is_null(self) -> Flags:
        return self.length < 0

    def only(self, wanted: Flags | slice) -> Slices:
        return Slices(start=self.start[wanted], length=self.length[wanted])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Some records, in the order of their batches. `headers` has the key and the value of the first header of
    each record, of the second, and so on; a record with fewer headers has null for both.
    """

    buffer: Bytes
    offset: Numbers
    timestamp: Numbers
    key: Slices
    value: Slices
    headers: tuple[tuple[Slices, Slices], ...]

    def __len__(self) -> int:
        return len(self.offset)

    def only(self, wanted: Flags | slice) -> RecordColumns:
        """The wanted records."""
        if not isinstance(wanted, slice) and wanted.all():
            return self
        return RecordColumns(
            buffer=self.buffer,
            offset=self.offset[wanted],
            timestamp=self.timestamp[wanted],
            key=self.key.only(wanted),
            value=self.value.only(wanted),
            headers=tuple((key.only(wanted), value.only(wanted)) for key, value in self.headers),
        )

    def pieces(self, most: int) -> Iterator[RecordColumns]:
        """The records, at most so many at a time."""
        for start in range(0, len(self), most):
            yield self.only(slice(start, start + most)) if len(self) > most else self


def record_columns(
    buffer: Buffer, batches: Iterable[BatchHeader], *, most_headers: int, about_bytes: int
) -> Iterator[RecordColumns]:
    """All records of these batches in the buffer, whose checksums are checked; together as long as they have
    less than `about_bytes`, since compressed batches may become much larger.

    Raises CorruptBatchError, also if a record has more headers than `most_headers`, each of which takes time
    for all records.
    """
    opened: list[tuple[BatchHeader, bytes]] = []
    size = 0
    for header in batches:
        check(buffer, header)
        if header.record_count > MOST_RECORDS:
            raise CorruptBatchError(f"a batch has {header.record_count} records, {MOST_RECORDS} are allowed")
        opened.append((header, payload(buffer, header)))
        size += len(opened[-1][1])
        if size >= about_bytes:
            yield _columns(opened, most_headers)
            opened, size = [], 0
    if opened:
        yield _columns(opened, most_headers)


def _columns(opened: Sequence[tuple[BatchHeader, bytes]], most_headers: int) -> RecordColumns:
    starts: list[Numbers] = []
    ends: list[Numbers] = []
    base = 0
    for header, content in opened:
        start, end = _boundaries(content, header.record_count)
        starts.append(start + base)
        ends.append(end + base)
        base += len(content)
    batches = [header for header, _ in opened]
    counts = [header.record_count for header in batches]
    reader = ColumnReader(
        padded(*(content for _, content in opened)), np.concatenate(starts), np.concatenate(ends)
    )
    reader.byte()
    timestamp = reader.zigzag()
    offset = reader.zigzag(INT_BYTES)
    key, value = _bytes(reader), _bytes(reader)
    headers = tuple(_headers(reader, most_headers))
    is_whole = reader.good & (reader.left == 0)
    if not is_whole.all():
        raise CorruptBatchError(
            f"record {int(np.argmin(is_whole))} of {len(reader)} is not as long as it says"
        )
    return RecordColumns(
        buffer=reader.buffer,
        offset=offset + _repeated([header.base_offset for header in batches], counts),
        timestamp=_timestamps(timestamp, batches, counts),
        key=key,
        value=value,
        headers=headers,
    )


def _boundaries(content: bytes, count: int) -> tuple[Numbers, Numbers]:
    """Where the records begin, behind their lengths, and where they end. Raises CorruptBatchError.

    Flat on purpose, as it runs for every record: lengths of one and two bytes are read without a call.
    """
    # Not lists: an object for each number would take five times the memory.
    starts, ends = array("q"), array("q")
    position = 0
    try:
        for _ in range(count):
            byte = content[position]
            if byte < 0x80:
                length = byte
                position += 1
            else:
                second = content[position + 1]
                if second < 0x80:
                    length = byte & 0x7F | second << 7
                    position += 2
                else:
                    size, position = read_varint(content, position)
                    length = size << 1 if size >= 0 else 1
            if length & 1:
                raise CorruptBatchError("a record says that it has less than no bytes")
            starts.append(position)
            position += length >> 1
            ends.append(position)
    except IndexError as error:
        raise CorruptBatchError("Incorrect declared batch size, premature EOF reached") from error
    if position != len(content):
        raise CorruptBatchError("Incorrect declared batch size, records still remaining in file")
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def _bytes(reader: ColumnReader) -> Slices:
    length = reader.zigzag(INT_BYTES)
    start = reader.position
    is_null = length == -1
    has_null = bool(is_null.any())
    found = reader.skip(np.where(is_null, 0, length) if has_null else length)
    return Slices(start=start, length=np.where(is_null, -1, found) if has_null else found)


def _headers(reader: ColumnReader, most: int) -> Iterator[tuple[Slices, Slices]]:
    count = reader.zigzag(INT_BYTES)
    reader.damage(count < 0)
    highest = int(count.max(initial=0))
    if highest > most:
        raise CorruptBatchError(f"a record has {highest} headers, {most} are allowed")
    for number in range(highest):
        lanes = np.flatnonzero(count > number)
        if len(lanes) == len(count):
            yield _bytes(reader), _bytes(reader)
            continue
        some = reader.some(lanes)
        pair = _bytes(some), _bytes(some)
        reader.merge(lanes, some)
        yield _spread(pair[0], lanes, reader), _spread(pair[1], lanes, reader)


def _spread(slices: Slices, lanes: Numbers, reader: ColumnReader) -> Slices:
    """For all records; null for those that are not among the lanes."""
    start, length = reader.position.copy(), np.full(len(reader), -1, np.int64)
    start[lanes], length[lanes] = slices.start, slices.length
    return Slices(start=start, length=length)


def _repeated(values: Sequence[int], counts: Sequence[int]) -> Numbers:
    return np.repeat(np.array(values, np.int64), counts)


def _timestamps(deltas: Numbers, batches: Sequence[BatchHeader], counts: Sequence[int]) -> Numbers:
    """With log append time, a batch has one time for all of its records."""
    found = deltas + _repeated([header.base_timestamp for header in batches], counts)
    appended = [header.log_append_time for header in batches]
    if not any(appended):
        return found
    is_appended = np.repeat(np.array(appended, np.bool_), counts)
    return np.where(is_appended, _repeated([header.max_timestamp for header in batches], counts), found)
