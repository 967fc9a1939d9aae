"""The offset and time indexes: Kafka's bytes, and lookups against a plain search."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.segments.offset_index import CorruptIndexError, OffsetIndex
from headrace.log.segments.time_index import TimeIndex
from headrace.wire.record_batch import scan
from tests.log.batches import NOW, batch, contents, open_log

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5000)), max_size=60)


def offset_index(entries: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    index = OffsetIndex()
    pairs = []
    offset = position = 0
    for offset_step, position_step in entries:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        pairs.append((offset, position))
    return index, pairs


@given(entries=steps, target=st.integers(0, 70_000))
def test_floor_of_offsets(entries: list[tuple[int, int]], target: int) -> None:
    index, pairs = offset_index(entries)
    wanted = [pair for pair in pairs if pair[0] <= target]
    entry = index.floor(target)
    assert entry == len(wanted) - 1
    if wanted:
        assert (index.offsets[entry], index.positions[entry]) == wanted[-1]


@given(entries=steps, first=st.integers(0, 60))
def test_offset_index_bytes(entries: list[tuple[int, int]], first: int) -> None:
    index, pairs = offset_index(entries)
    content = index.to_bytes()
    assert content == b"".join(struct.pack(">ii", *pair) for pair in pairs)
    assert index.to_bytes(min(first, len(pairs))) == content[min(first, len(pairs)) * 8 :]
    size = pairs[-1][1] + 1 if pairs else 1
    parsed = OffsetIndex.parse(content, size)
    assert list(zip(parsed.offsets, parsed.positions, strict=True)) == pairs
    assert parsed.saved == len(pairs)


@given(entries=steps, size=st.integers(0, 100_000))
def test_offset_index_truncation(entries: list[tuple[int, int]], size: int) -> None:
    index, pairs = offset_index(entries)
    index.saved = len(pairs)
    index.truncate(size)
    kept = [pair for pair in pairs if pair[1] < size]
    assert list(zip(index.offsets, index.positions, strict=True)) == kept
    assert index.saved == len(kept)
    assert index.last_position() == (kept[-1][1] if kept else 0)


@given(entries=steps, target=st.integers(-5, 70_000))
def test_time_index(entries: list[tuple[int, int]], target: int) -> None:
    index = TimeIndex()
    pairs = []
    time = offset = 0
    for time_step, offset_step in entries:
        time += time_step
        offset += offset_step
        index.append_if_newer(time, offset)
        index.append_if_newer(time, offset + 1)
        pairs.append((time, offset))
    assert index.floor(target) == sum(time <= target for time, _ in pairs) - 1
    content = index.to_bytes()
    assert content == b"".join(struct.pack(">qi", *pair) for pair in pairs)
    parsed = TimeIndex.parse(content)
    assert list(zip(parsed.timestamps, parsed.offsets, strict=True)) == pairs
    parsed.truncate(target)
    assert list(parsed.offsets) == [offset for _, offset in pairs if offset < target]


@given(timestamp=st.integers(0, 2**63 - 1), offset=st.integers(0, 2**31 - 1))
def test_large_numbers_in_the_time_index(timestamp: int, offset: int) -> None:
    parsed = TimeIndex.parse(struct.pack(">qi", timestamp, offset))
    assert (parsed.timestamps[0], parsed.offsets[0]) == (timestamp, offset)
    assert parsed.to_bytes() == struct.pack(">qi", timestamp, offset)


@pytest.mark.parametrize(
    "content",
    [
        bytes(7),
        bytes(16),
        struct.pack(">ii", 5, 1000),
        struct.pack(">ii", 5, 0),
        struct.pack(">ii", -1, 4),
    ],
)
def test_offset_indexes_that_cannot_be(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        OffsetIndex.parse(content, 1000)


@pytest.mark.parametrize("content", [bytes(13), struct.pack(">qi", 5, -1), struct.pack(">qiqi", 9, 0, 8, 1)])
def test_time_indexes_that_cannot_be(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        TimeIndex.parse(content)


def test_entries_are_where_kafka_puts_them(tmp_path: Path) -> None:
    """An entry for the first batch that begins more than the interval after the last entry's."""
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=200))
    times = [NOW, NOW + 5, NOW + 2, NOW + 9, NOW + 9, NOW + 1, NOW + 20, NOW + 3]
    for time in times:
        log.append(batch(b"a", b"b", timestamps=[time, time]), now_ms=NOW)
    size = log.size_bytes // len(times)
    assert 200 / 3 < size < 200 / 2
    folder.close()
    index = (log.folder / "00000000000000000000.index").read_bytes()
    assert index == struct.pack(">iiii", 7, 3 * size, 13, 6 * size)
    times_index = (log.folder / "00000000000000000000.timeindex").read_bytes()
    assert times_index == struct.pack(">qiqi", NOW + 9, 7, NOW + 20, 13)


def test_closing_adds_the_newest_timestamp(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a", timestamps=[NOW + 7]), now_ms=NOW)
    log.append(batch(b"a", timestamps=[NOW]), now_ms=NOW)
    log.roll(now_ms=NOW)
    content = (log.folder / "00000000000000000000.timeindex").read_bytes()
    assert content == struct.pack(">qi", NOW + 7, 0)
    folder.close()


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["gone", "noise", "one wrong entry"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, kind: str, damage: str) -> None:
    config = LogConfig(index_interval_bytes=0, segment_bytes=1000)
    folder, log = open_log(tmp_path, config)
    for number in range(30):
        log.append(batch(b"%d" % number, timestamps=[NOW + number]), now_ms=NOW)
    wanted = contents(log)
    folder.close()
    paths = sorted(log.folder.glob(f"*.{kind}"))
    good = [path.read_bytes() for path in paths]
    for path, content in zip(paths, good, strict=True):
        if damage == "gone":
            path.unlink()
        elif damage == "noise":
            path.write_bytes(b"\x00noise" * 4)
        else:
            entry = len(content) // 24 * 12 if kind == "timeindex" else len(content) // 16 * 8
            path.write_bytes(content[: entry + 3] + b"\x05" + content[entry + 4 :])
    folder, log = open_log(tmp_path, config)
    assert contents(log) == wanted
    for offset, time, _ in wanted:
        result = log.read(offset, 1, at_least_one=True)
        assert result.ranges is not None
        assert scan(result.ranges.read())[0].base_offset == offset
        assert log.offset_for_timestamp(time) == (time, offset, 0)
    folder.close()
    if damage != "one wrong entry":
        assert [path.read_bytes() for path in paths] == good


@pytest.mark.parametrize("newest", [0, 3, 350, 698, 699])
def test_the_newest_timestamp_of_a_closed_segment(tmp_path: Path, newest: int) -> None:
    """From the ends of both files, unless the newest record is too far from the end."""
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    for number in range(700):
        log.append(batch(b"a", timestamps=[NOW + (9 if number == newest else number % 7)]), now_ms=NOW)
    log.roll(now_ms=NOW)
    folder.close()
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    segment = log.segments[0]
    assert (segment.newest_timestamp(), segment.max_timestamp_offset) == (NOW + 9, newest)
    # If the ends are enough, the indexes are not loaded.
    assert (segment.index is None) == (newest > 300)
    folder.close()
