"""Record batches made and read by the tests themselves, so that no mistake of the broker's code is shared.

Every field of a batch can be set to what it should not be. Compression is cramjam's; snappy in the framing of
Java's library (xerial), which is what Java's client writes.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cramjam
from crc32c import crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
HEADER = struct.Struct(">qiibIhiqqqhii")
XERIAL_MAGIC = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
# An hour ago: what is older than its topic's retention may be deleted under a test.
BASE_TIMESTAMP = time.time_ns() // 1_000_000 - 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; its offset and timestamp count from those of its batch."""

    value: bytes | None = b"v"
    key: bytes | None = None
    timestamp_delta: int = 0
    offset_delta: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    zigzag &= (1 << 64) - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record_bytes(record: Record, offset_delta: int) -> bytes:
    """A record with its length, as it stands in an uncompressed batch."""
    delta = offset_delta if record.offset_delta is None else record.offset_delta
    body = b"".join(
        (
            b"\x00",
            varint(record.timestamp_delta),
            varint(delta),
            _sized(record.key),
            _sized(record.value),
            varint(len(record.headers)),
            *(_sized(name.encode()) + _sized(content) for name, content in record.headers),
        )
    )
    return varint(len(body)) + body


def compress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(data))
        return XERIAL_MAGIC + struct.pack(">i", len(block)) + block
    if codec == "lz4":
        # Java's reader refuses frames whose blocks depend on each other, which are the library's default.
        compressor = cramjam.lz4.Compressor(block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    return bytes(getattr(cramjam, codec).compress(data))


def decompress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "snappy":
        if not data.startswith(XERIAL_MAGIC[:8]):
            return bytes(cramjam.snappy.decompress_raw(data))
        out, position = bytearray(), len(XERIAL_MAGIC)
        while position < len(data):
            (size,) = struct.unpack_from(">i", data, position)
            out += bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size]))
            position += 4 + size
        return bytes(out)
    return bytes(getattr(cramjam, codec).decompress(data))


def batch(records: Sequence[Record] | None = None, *, codec: str = "none", **fields: Any) -> bytes:
    """A batch of the records; `fields` overrides fields of its header, and `payload` the records' bytes."""
    records = [Record()] if records is None else records
    payload = fields.pop("payload", None)
    if payload is None:
        payload = compress(codec, b"".join(record_bytes(each, at) for at, each in enumerate(records)))
    base_timestamp = fields.get("base_timestamp", BASE_TIMESTAMP)
    latest = max((each.timestamp_delta for each in records), default=0)
    header: dict[str, Any] = {
        "base_offset": 0,
        "length": HEADER.size - 12 + len(payload),
        "leader_epoch": -1,
        "magic": 2,
        "crc": None,
        "attributes": CODECS[codec],
        "last_offset_delta": len(records) - 1,
        "base_timestamp": base_timestamp,
        "max_timestamp": base_timestamp + latest,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": len(records),
    }
    unknown = fields.keys() - header.keys()
    assert not unknown, f"no such field of a batch: {unknown}"
    header |= fields
    crc = header["crc"]
    packed = HEADER.pack(*(0 if name == "crc" else value for name, value in header.items())) + payload
    if crc is None:
        crc = crc32c(packed[21:])
    return packed[:17] + struct.pack(">I", crc) + packed[21:]


def old_message(magic: int, value: bytes = b"v", codec: int = 0) -> bytes:
    """A message of the formats before Kafka 0.11 (magic 0 and 1), for brokers to refuse."""
    timestamp = struct.pack(">q", BASE_TIMESTAMP) if magic else b""
    body = struct.pack(">bb", magic, codec) + timestamp + struct.pack(">i", -1)
    body += struct.pack(">i", len(value)) + value
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(body)) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """A batch as it came over the wire."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int
    crc_is_right: bool
    payload: bytes = field(repr=False)

    @property
    def codec(self) -> str:
        return next(name for name, number in CODECS.items() if number == self.attributes & 7)

    @property
    def records_bytes(self) -> bytes:
        return decompress(self.codec, self.payload)


def read_batches(data: bytes) -> Iterator[ReadBatch]:
    """The whole batches of a record set; one that is cut off at the end is left out."""
    position = 0
    while position + HEADER.size <= len(data):
        fields = HEADER.unpack_from(data, position)
        size = fields[1] + 12
        if position + size > len(data):
            return
        whole = data[position : position + size]
        yield ReadBatch(
            base_offset=fields[0],
            leader_epoch=fields[2],
            attributes=fields[5],
            last_offset_delta=fields[6],
            base_timestamp=fields[7],
            max_timestamp=fields[8],
            producer_id=fields[9],
            producer_epoch=fields[10],
            base_sequence=fields[11],
            record_count=fields[12],
            size=size,
            crc_is_right=crc32c(whole[21:]) == fields[4],
            payload=whole[HEADER.size :],
        )
        position += size
