"""The header of a record batch (magic 2): reading, checking and patching it in place.

Byte format, all big-endian (61 bytes, then the records, compressed or not):

    0 base_offset i64 | 8 length i32 | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
    23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64 | 43 producer_id i64
    51 producer_epoch i16 | 53 base_sequence i32 | 57 record_count i32

`length` counts the bytes after it, so a batch has `length + 12` bytes. The CRC-32C covers everything from
`attributes` on, so the broker can set base offset and leader epoch without computing it again. Attributes:
bits 0-2 compression, 3 log append time, 4 transactional, 5 control, 6 delete horizon.

Invariants: nothing here copies or reads the records. A header is a copy of the fields at the time of reading;
patching the buffer does not change it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.wire.errors import CorruptBatchError, UnsupportedMagicError

Buffer = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
MAGIC: Final = 2
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
# The value of the length field for a batch without records.
SMALLEST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
NO_PRODUCER: Final = -1

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LENGTH: Final = Struct(">i")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class BatchHeader(NamedTuple):
    """The fields in byte order, then the position of the batch in the buffer."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int = 0

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.length + LOG_OVERHEAD

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap to 0 after the largest 32-bit integer."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Checks the header, but not that the whole batch is there."""
    if len(buffer) - position < HEADER_SIZE:
        if len(buffer) - position > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC:
            raise UnsupportedMagicError(f"record set of format {buffer[position + MAGIC_AT]}, not {MAGIC}")
        raise CorruptBatchError(
            f"{len(buffer) - position} bytes are left, a batch has at least {HEADER_SIZE}"
        )
    fields = _HEADER.unpack_from(buffer, position)
    if fields[3] != MAGIC:
        raise UnsupportedMagicError(f"record set of format {fields[3]}, not {MAGIC}")
    if fields[1] < SMALLEST_LENGTH:
        raise CorruptBatchError(f"a batch says that it is {fields[1] + LOG_OVERHEAD} bytes long")
    return BatchHeader._make((*fields, position))


def has_valid_checksum(buffer: Buffer, header: BatchHeader) -> bool:
    """Whether the checksum matches the bytes of the batch."""
    start = header.position
    with memoryview(buffer) as view:
        return bool(crc32c(view[start + ATTRIBUTES_AT : start + header.size]) == header.crc)


def check(buffer: Buffer, header: BatchHeader) -> None:
    """Raise CorruptBatchError unless the whole batch is in the buffer, with the right checksum."""
    if header.position + header.size > len(buffer):
        missing = header.position + header.size - len(buffer)
        raise CorruptBatchError(f"the batch at offset {header.base_offset} lacks its last {missing} bytes")
    if not has_valid_checksum(buffer, header):
        raise CorruptBatchError(f"the checksum of the batch at offset {header.base_offset} is wrong")


def scan(buffer: Buffer) -> list[BatchHeader]:
    """The headers of all batches, each checked. Raises CorruptBatchError, UnsupportedMagicError."""
    headers = []
    position = 0
    while position < len(buffer):
        header = read_header(buffer, position)
        check(buffer, header)
        headers.append(header)
        position += header.size
    return headers


def assign(buffer: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
    """Set the offset and leader epoch of the batch. The checksum does not cover them."""
    _BASE_OFFSET.pack_into(buffer, header.position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, header.position + LOG_OVERHEAD, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, header: BatchHeader, timestamp: int) -> BatchHeader:
    """Set the time of all records to their arrival (KIP-32). Returns the new header."""
    start = header.position
    attributes = header.attributes | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, start + ATTRIBUTES_AT, attributes)
    _TIMESTAMP.pack_into(buffer, start + _MAX_TIMESTAMP_AT, timestamp)
    with memoryview(buffer) as view:
        crc = crc32c(view[start + ATTRIBUTES_AT : start + header.size])
    _CRC.pack_into(buffer, start + CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=timestamp, crc=crc)


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """A batch without records that covers these offsets: readers continue behind it."""
    batch = bytearray(HEADER_SIZE)
    write_header(
        batch,
        BatchHeader(
            base_offset=base_offset,
            length=SMALLEST_LENGTH,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=0,
            last_offset_delta=last_offset - base_offset,
            base_timestamp=-1,
            max_timestamp=-1,
            producer_id=NO_PRODUCER,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=0,
        ),
    )
    return batch


def write_header(buffer: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
    """Write the header with length and checksum. Returns it."""
    start = header.position
    whole = header._replace(length=len(buffer) - start - LOG_OVERHEAD, magic=MAGIC, crc=0)
    _HEADER.pack_into(buffer, start, *whole[:13])
    with memoryview(buffer) as view:
        crc = crc32c(view[start + ATTRIBUTES_AT :])
    _CRC.pack_into(buffer, start + CRC_AT, crc)
    return whole._replace(crc=crc)
