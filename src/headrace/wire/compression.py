"""Compresses and decompresses records with the four codecs of Kafka.

Codec numbers are those of a batch's attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. The formats are
those that Java clients and librdkafka read: snappy is written in xerial's framing (a header of 16 bytes, then
blocks of at most 32 KiB of input, each with its length in front) and read with or without it; lz4 is a frame
of independent blocks, as Java's reader requires.

Invariants: `decompress` never returns more than the limit and never allocates more, whatever the data claims
(a few KiB can announce gigabytes). Data that cannot be
decompressed is a CorruptBatchError. Never touches batch headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's name says nothing on its own
from typing import Any, Final

import cramjam

from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK: Final = 32 * 1024
_LENGTH: Final = Struct(">i")
_GZIP_DEFAULT_LEVEL: Final = 6
_LZ4_DEFAULT_LEVEL: Final = 9
_ZSTD_DEFAULT_LEVEL: Final = 3
_STREAMS: Final[dict[int, Any]] = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the data. `level` is as in Kafka's settings (KIP-390); None is the default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        # -1 is Kafka's value for zlib's default.
        chosen = _GZIP_DEFAULT_LEVEL if level is None or level < 0 else level
        return bytes(cramjam.gzip.compress(data, level=chosen))
    if codec == SNAPPY:
        return b"".join(_xerial_pieces(data))
    if codec == LZ4:
        compressor = cramjam.lz4.Compressor(
            level=_LZ4_DEFAULT_LEVEL if level is None else level, content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_DEFAULT_LEVEL if level is None else level))
    raise ValueError(f"there is no compression {codec}")


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Decompress the data. Raises CorruptBatchError if that fails or gives more than `limit` bytes."""
    if codec == NONE:
        if len(data) > limit:
            raise CorruptBatchError(f"{len(data)} bytes of records, more than the limit of {limit}")
        return bytes(data)
    if codec == SNAPPY:
        return _decompress_snappy(data, limit)
    stream = _STREAMS.get(codec)
    if stream is None:
        raise CorruptBatchError(f"Unknown compression type id: {codec}")
    # Pages of an anonymous map cost nothing until they are written. So the whole limit is mapped at once, and
    # a decompression bomb cannot make it grow.
    with mmap(-1, max(limit, 1)) as room:
        try:
            size = stream.decompress_into(data, room)
        except cramjam.DecompressionError as error:
            raise CorruptBatchError(
                f"the records cannot be decompressed with {CODEC_NAMES[codec]} into {limit} bytes: {error}"
            ) from error
        if size > limit:
            raise CorruptBatchError(f"{size} bytes of records, more than the limit of {limit}")
        return room[:size]


def _xerial_pieces(data: Buffer) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            yield _LENGTH.pack(len(block))
            yield block


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    with memoryview(data) as view:
        if bytes(view[:8]) != _XERIAL_MAGIC:
            return _decompress_snappy_block(view, limit)
        pieces = []
        room = limit
        position = 0
        while position < len(view):
            # Several streams may follow each other, each with its header.
            if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
                position += len(_XERIAL_HEADER)
                if position > len(view):
                    raise CorruptBatchError("the records end inside the header of snappy's framing")
                continue
            try:
                (length,) = _LENGTH.unpack_from(view, position)
            except StructError as error:
                raise CorruptBatchError("the records end inside a length of snappy's framing") from error
            position += _LENGTH.size
            if not 0 <= length <= len(view) - position:
                raise CorruptBatchError(f"a snappy block of {length} bytes, {len(view) - position} are left")
            piece = _decompress_snappy_block(view[position : position + length], room)
            room -= len(piece)
            pieces.append(piece)
            position += length
        return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise CorruptBatchError(f"a snappy block announces {size} bytes, {limit} are allowed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"the records cannot be decompressed with snappy: {error}") from error
