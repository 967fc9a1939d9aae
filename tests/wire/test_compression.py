"""Compressions there and back, the shapes that other clients write, bombs, and damaged data."""

from __future__ import annotations

import gzip
import io
import resource
import struct
import zlib
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire import compression
from headrace.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from headrace.wire.errors import CorruptBatchError

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
LIMIT = 1 << 20
TEXT = b"the wheel turns " * 10_000


@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=5_000))
def test_there_and_back(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), LIMIT) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, TEXT * 5])
def test_there_and_back_in_any_buffer(codec: int, data: bytes) -> None:
    compressed = compress(codec, memoryview(bytearray(data)))
    padded = b"--" + compressed + b"--"
    assert decompress(codec, memoryview(padded)[2:-2], LIMIT) == data


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_passes_and_one_byte_more_does_not(codec: int) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatchError):
        decompress(codec, compressed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_two_streams_one_behind_the_other_are_one(codec: int) -> None:
    assert decompress(codec, compress(codec, b"up") + compress(codec, b"stream"), LIMIT) == b"upstream"


@pytest.mark.parametrize(
    ("codec", "levels"), [(GZIP, [-1, 1, 9]), (LZ4, [1, 9, 17]), (ZSTD, [-131_072, -1, 1, 3, 22])]
)
def test_all_levels_that_kafka_allows(codec: int, levels: list[int]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), LIMIT) == TEXT
    assert len(compress(codec, TEXT, levels[-1])) <= len(compress(codec, TEXT, levels[1]))


def test_gzip_is_read_by_the_standard_library_and_reads_it() -> None:
    assert gzip.decompress(compress(GZIP, TEXT)) == TEXT
    written = io.BytesIO()
    with gzip.GzipFile(fileobj=written, mode="wb", filename="with-a-name") as file:
        file.write(TEXT)
    assert decompress(GZIP, written.getvalue(), LIMIT) == TEXT


def test_snappy_is_framed_as_java_frames_it() -> None:
    compressed = compress(SNAPPY, TEXT)
    assert compressed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, blocks = 16, []
    while position < len(compressed):
        (size,) = struct.unpack_from(">i", compressed, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(compressed[position + 4 : position + 4 + size])))
        position += 4 + size
    assert b"".join(blocks) == TEXT
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}


def test_snappy_without_framing_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT) == TEXT


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    flags = compress(LZ4, TEXT)[4]
    assert flags >> 6 == 1
    assert flags & 0x20


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_ends_at_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptBatchError):
        decompress(codec, bomb, LIMIT)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(b"\xff\xff\xff\xff\x0f\x00", id="raw block of 4 GiB"),
        pytest.param(
            b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 6) + b"\xff\xff\xff\xff\x0f\x00", id="framed"
        ),
        pytest.param(b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"x", id="length"),
        pytest.param(b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, -5) + b"x", id="negative length"),
        pytest.param(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"xy", id="half a length"),
    ],
)
def test_snappy_that_announces_more_than_there_is(bomb: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(SNAPPY, bomb, LIMIT)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD, SNAPPY])
def test_cut_off_data_is_corrupt(codec: int) -> None:
    compressed = compress(codec, TEXT)
    for size in (0, 1, 10, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(CorruptBatchError):
            decompress(codec, compressed[:size], LIMIT)


@given(codec=st.sampled_from(CODECS), data=st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes_give_bytes_within_the_limit_or_a_corrupt_batch(codec: int, data: bytes) -> None:
    with suppress(CorruptBatchError):
        assert len(decompress(codec, data, 4_096)) <= 4_096


@given(
    codec=st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]), at=st.integers(min_value=0), flip=st.integers(1, 255)
)
@settings(max_examples=300)
def test_a_changed_byte_gives_bytes_within_the_limit_or_a_corrupt_batch(
    codec: int, at: int, flip: int
) -> None:
    compressed = bytearray(compress(codec, TEXT[:5_000]))
    compressed[at % len(compressed)] ^= flip
    with suppress(CorruptBatchError):
        assert len(decompress(codec, compressed, 8_192)) <= 8_192


def test_a_codec_that_does_not_exist() -> None:
    with pytest.raises(CorruptBatchError, match="Unknown compression type id: 5"):
        decompress(5, b"", LIMIT)
    with pytest.raises(ValueError, match="no compression 5"):
        compress(5, b"")


def test_names_are_in_the_order_of_the_numbers() -> None:
    names = [compression.CODEC_NAMES[codec] for codec in CODECS]
    assert names == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert zlib.decompress(compress(GZIP, b"x"), wbits=31) == b"x"
