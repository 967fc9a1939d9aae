"""The records inside a batch: reading them, outlining them without their content, and building batches.

Byte format of a record, all numbers zigzag varints: length of what follows, one byte of attributes
(unused), timestamp delta, offset delta, length and bytes of the key (-1 for none), length and bytes of
the value (-1 for none), number of headers, and for each of them length and bytes of its key and of its
value (-1 for none). The records of a batch follow each other; compression, if any, covers all of them
together.

Invariants: there are as many records as the header declares, each has exactly its declared length, and
nothing follows the last one; anything else is a CorruptBatchError with Kafka's message. Produce and Fetch do
not use this for topics with default settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headrace.wire import compression as codecs
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    write_header,
)

# Larger batches could not have been sent without compression (socket.request.max.bytes).
DECOMPRESSED_LIMIT: Final = 100 * 1024 * 1024
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record, relative to its batch."""

    offset_delta: int
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


# A record without its content: offset delta, timestamp delta, size of the key and of the value. A negative
# size means null.
Outline = tuple[int, int, int, int]


def payload(buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """The records of a batch as bytes, decompressed. Raises CorruptBatchError."""
    with memoryview(buffer) as view:
        inside = view[header.position + HEADER_SIZE : header.position + header.size]
        try:
            return codecs.decompress(header.compression, inside, limit)
        finally:
            inside.release()


def read_records(buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """The records of the batch, one by one. Raises CorruptBatchError at the first bad record."""
    data = payload(buffer, header, limit)
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(data, position)
        yield record
    if position != len(data):
        raise CorruptBatchError("Incorrect declared batch size, records still remaining in file")


def read_outlines(data: bytes, count: int) -> list[Outline]:
    """The outlines of the `count` records in a payload, each checked. Raises CorruptBatchError."""
    outlines: list[Outline] = []
    finish = _outline(data, 0, count, outlines)
    if finish != len(data):
        raise CorruptBatchError("Incorrect declared batch size, records still remaining in file")
    return outlines


def encode_record(record: Record) -> bytes:
    """One record with its length in front."""
    body = bytearray(b"\x00")
    write_varint(body, record.timestamp_delta)
    write_varint(body, record.offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key)
        _write_bytes(body, value)
    encoded = bytearray()
    write_varint(encoded, len(body))
    encoded += body
    return bytes(encoded)


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    base_timestamp: int = 0,
    max_timestamp: int | None = None,
    compression: int = codecs.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    log_append_time: bool = False,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """A whole batch. `max_timestamp` defaults to the timestamp of the newest record."""
    listed = list(records)
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((record.timestamp_delta for record in listed), default=0)
    content = b"".join(map(encode_record, listed))
    attributes = compression
    attributes |= LOG_APPEND_TIME if log_append_time else 0
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=listed[-1].offset_delta if listed else 0,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(listed),
    )
    return batch_of(header, content, level=level)[0]


def batch_of(
    header: BatchHeader, content: Buffer, *, level: int | None = None
) -> tuple[bytearray, BatchHeader]:
    """A batch with the fields of `header`, whose attributes say how to compress the records."""
    batch = bytearray(HEADER_SIZE)
    batch += codecs.compress(header.compression, content, level)
    return batch, write_header(batch, header._replace(position=0))


def write_varint(buffer: bytearray, value: int) -> None:
    """Append a zigzag varint."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    while raw > 0x7F:
        buffer.append((raw & 0x7F) | 0x80)
        raw >>= 7
    buffer.append(raw)


def read_varint(data: bytes, position: int, bits: int = _VARINT_BITS) -> tuple[int, int]:
    """A zigzag varint of at most `bits` bits, and the position after it. Raises CorruptBatchError."""
    try:
        raw = data[position]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        byte = data[position + 1]
        raw = (raw & 0x7F) | byte << 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 2
        raw &= 0x3FFF
        position += 2
        shift = 14
        while byte >= 0x80:
            if shift >= bits:
                raise CorruptBatchError(f"a number of more than {bits} bits")
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
    except IndexError as error:
        raise CorruptBatchError("Incorrect declared batch size, premature EOF reached") from error
    if raw >> bits:
        raise CorruptBatchError(f"a number of more than {bits} bits")
    return (raw >> 1) ^ -(raw & 1), position


def _write_bytes(buffer: bytearray, content: bytes | None) -> None:
    if content is None:
        buffer.append(1)
        return
    write_varint(buffer, len(content))
    buffer += content


def _outline(data: bytes, position: int, count: int, outlines: list[Outline]) -> int:  # noqa: PLR0912
    """Append the outlines of `count` records; the position behind them.

    Flat on purpose: this runs for every record of a topic whose records are looked at. Numbers of one byte,
    which most are, are read without a call.
    """
    end = len(data)
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                size = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                size, position = read_varint(data, position)
            finish = position + size
            if size < 0 or finish > end:
                raise CorruptBatchError(
                    f"Invalid record size: expected {size} bytes in record payload, but instead the buffer "
                    f"has only {end - position} remaining bytes."
                )
            # The attributes byte is unused.
            position += 1
            byte = data[position]
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(data, position, _VARLONG_BITS)
            byte = data[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = read_varint(data, position)
            byte = data[position]
            if byte < 0x80:
                key_size = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                key_size, position = read_varint(data, position)
            if key_size > 0:
                position += key_size
            byte = data[position]
            if byte < 0x80:
                value_size = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                value_size, position = read_varint(data, position)
            if value_size > 0:
                position += value_size
            if data[position]:
                position = _skip_headers(data, position)
            else:
                position += 1
            if position != finish:
                raise CorruptBatchError(
                    f"Invalid record size: expected to read {size} bytes in record payload, but instead read "
                    f"{size + position - finish}"
                )
            outlines.append((offset_delta, timestamp_delta, key_size, value_size))
    except IndexError as error:
        raise CorruptBatchError("Incorrect declared batch size, premature EOF reached") from error
    return position


def _skip_bytes(data: bytes, position: int) -> tuple[int, int]:
    size, position = read_varint(data, position)
    return size, position + max(size, 0)


def _skip_headers(data: bytes, position: int) -> int:
    count, position = read_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptBatchError(f"Found invalid number of record headers {count}")
    for _ in range(count):
        key_size, position = _skip_bytes(data, position)
        if key_size < 0:
            raise CorruptBatchError(f"Invalid negative header key size {key_size}")
        _, position = _skip_bytes(data, position)
    return position


def _read_record(data: bytes, position: int) -> tuple[Record, int]:
    outlines: list[Outline] = []
    finish = _outline(data, position, 1, outlines)
    offset_delta, timestamp_delta, _, _ = outlines[0]
    # The outline has checked every length, so reads stay inside the record.
    _, position = read_varint(data, position)
    _, position = read_varint(data, position + 1, _VARLONG_BITS)
    _, position = read_varint(data, position)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    count, position = read_varint(data, position)
    headers = []
    for _ in range(count):
        header_key, position = _read_bytes(data, position)
        header_value, position = _read_bytes(data, position)
        headers.append((header_key or b"", header_value))
    return Record(offset_delta, timestamp_delta, key, value, tuple(headers)), finish


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size
