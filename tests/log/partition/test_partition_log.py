"""Appending, rolling and reading, case by case; `test_log_model` has the combinations."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    InvalidRecordError,
    LogError,
    MalformedRecordSetError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    StorageError,
)
from headrace.log.filesystem import Data, OperatingSystem
from headrace.wire.record_batch import read_header, scan
from tests.log.batches import NOW, batch, contents, open_log

SIZE = len(batch(b"x" * 10))


def bases(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in path.glob("*.log"))


def open_files(folder: Path) -> int:
    """Files below a folder that this process has open; threads of other tests may open other files."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += descriptor.readlink().is_relative_to(folder)
    return found


# Appending


def test_offsets_and_epoch_are_written_into_the_batch(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a", b"b"), now_ms=NOW)
    data = batch(b"c", b"d", b"e")
    appended = log.append(data, now_ms=NOW)
    assert (appended.base_offset, appended.last_offset) == (2, 4)
    assert (appended.log_append_time, appended.log_start_offset, appended.duplicate) == (-1, 0, False)
    assert (read_header(data).base_offset, read_header(data).leader_epoch) == (2, 0)
    written = (log.folder / "00000000000000000000.log").read_bytes()
    assert [header.base_offset for header in scan(written)] == [0, 2]
    assert written.endswith(data)
    folder.close()


def test_a_batch_is_written_once_and_not_copied(tmp_path: Path) -> None:
    written: list[object] = []

    class Watched(OperatingSystem):
        def pwrite(self, descriptor: int, data: Data, position: int) -> int:  # type: ignore[override, misc]
            written.append(data)
            return os.pwrite(descriptor, data, position)

    folder, log = open_log(tmp_path, filesystem=Watched())
    log.append(batch(b"first"), now_ms=NOW)
    data = memoryview(batch(b"a"))
    written.clear()
    log.append(data, now_ms=NOW)
    assert len(written) == 1
    assert written[0] is data
    folder.close()


def test_log_append_time(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(timestamp_type="LogAppendTime"))
    appended = log.append(batch(b"a", timestamps=[5]), now_ms=NOW)
    assert appended.log_append_time == NOW
    assert contents(log) == [(0, NOW, b"a")]
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)
    folder.close()


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (bytearray(), InvalidRecordError),
        (bytearray(5), InvalidRecordError),
        (batch(b"a")[:-1], InvalidRecordError),
        (batch(b"a")[:40], InvalidRecordError),
        (batch(b"a") + batch(b"b"), InvalidRecordError),
        (batch(b"a")[:-1] + b"!", CorruptRecordError),
        (batch(b"a")[:8] + b"\x00\x00\x00\x05" + batch(b"a")[12:], CorruptRecordError),
        (batch(b"a")[:16] + b"\x01" + batch(b"a")[17:], MalformedRecordSetError),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path: Path, records: bytearray, error: type[LogError]) -> None:
    folder, log = open_log(tmp_path)
    with pytest.raises(error):
        log.append(records, now_ms=NOW)
    assert (log.end_offset, log.size_bytes) == (0, 0)
    assert not log.folder.exists()
    folder.close()


def test_the_beginning_of_a_second_batch_is_left_out(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a") + batch(b"b")[:-1], now_ms=NOW)
    assert [value for _, _, value in contents(log)] == [b"a"]
    assert log.size_bytes == len(batch(b"a"))
    folder.close()


def test_limits_of_size(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(max_message_bytes=SIZE, segment_bytes=SIZE - 1))
    with pytest.raises(RecordTooLargeError):
        log.append(batch(b"x" * 11), now_ms=NOW)
    with pytest.raises(BatchTooLargeError):
        log.append(batch(b"x" * 10), now_ms=NOW)
    log.append(batch(b"x" * 9), now_ms=NOW)
    folder.close()


def test_idempotent_producers(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    for sequence in range(7):
        log.append(batch(b"a", producer_id=1, producer_epoch=0, sequence=sequence), now_ms=NOW)
    again = log.append(batch(b"a", producer_id=1, producer_epoch=0, sequence=4), now_ms=NOW)
    assert (again.base_offset, again.last_offset, again.duplicate) == (4, 4, True)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(batch(b"a", producer_id=1, producer_epoch=0, sequence=9), now_ms=NOW)
    assert log.end_offset == 7
    folder.close()


def test_the_folder_is_made_when_something_is_written(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    assert log.read(0, 100, at_least_one=True).ranges is None
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None
    assert log.delete_records_before(0) == 0
    assert log.apply_retention(NOW) == 0
    log.roll(now_ms=NOW)
    log.flush()
    folder.close()
    folder, log = open_log(tmp_path)
    assert not log.folder.exists()
    log.append(batch(b"a"), now_ms=NOW)
    assert {path.name for path in log.folder.iterdir()} == {
        "00000000000000000000.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    folder.close()


# Rolling


def test_roll_by_size(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    for _ in range(5):
        log.append(batch(b"x" * 10), now_ms=NOW)
    assert bases(log.folder) == [0, 2, 4]
    assert sorted(path.name for path in log.folder.glob("*.snapshot")) == [
        "00000000000000000002.snapshot",
        "00000000000000000004.snapshot",
    ]
    folder.close()


def test_roll_by_the_time_of_records(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for ago in (1000, 0, 500, -1, 600):
        log.append(batch(b"a", timestamps=[NOW - ago]), now_ms=NOW)
    assert bases(log.folder) == [0, 3]
    folder.close()
    # The first record of the segment counts, even after a restart.
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(b"a", timestamps=[NOW + 1001]), now_ms=NOW)
    log.append(batch(b"a", timestamps=[NOW + 1002]), now_ms=NOW)
    assert bases(log.folder) == [0, 3, 6]
    folder.close()


def test_roll_by_time_after_a_start_in_which_somebody_read_first(tmp_path: Path) -> None:
    """A reader opens the file of the last segment, but an append needs more than that."""
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(b"a", timestamps=[NOW]), now_ms=NOW)
    log.append(batch(b"b", timestamps=[NOW - 500]), now_ms=NOW)
    folder.close()
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000))
    assert len(contents(log)) == 2
    log.append(batch(b"c", timestamps=[NOW - 1]), now_ms=NOW)
    assert (log.segments.active.max_timestamp, log.segments.active.max_timestamp_offset) == (NOW, 0)
    log.append(batch(b"d", timestamps=[NOW + 1001]), now_ms=NOW)
    assert bases(log.folder) == [0, 3]
    folder.close()


def test_roll_by_the_clock_if_records_have_no_time(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for later in (0, 1000, 1001, 1500):
        log.append(batch(b"a", timestamps=[-1]), now_ms=NOW + later)
    assert bases(log.folder) == [0, 2]
    folder.close()


def test_jitter_makes_segments_shorter(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=1000))
    log.append(batch(b"a", timestamps=[NOW - 1000]), now_ms=NOW)
    assert NOW - 1000 < log.segments.active.roll_after_timestamp <= NOW
    folder.close()


def test_roll_when_an_index_is_full(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=48))
    for number in range(20):
        log.append(batch(b"a", timestamps=[NOW + number]), now_ms=NOW)
    # The time index has room for four entries, one of them for closing; the first batch has none.
    assert bases(log.folder) == [0, 4, 8, 12, 16]
    for path in log.folder.glob("*.timeindex"):
        assert path.stat().st_size <= 48
    folder.close()


def test_roll_when_offsets_become_too_large_to_be_relative(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a"), now_ms=NOW)
    log.segments.end_at(2**31 - 2)
    log.append(batch(b"b", b"c"), now_ms=NOW)
    assert bases(log.folder) == [0]
    log.append(batch(b"d"), now_ms=NOW)
    assert bases(log.folder) == [0, 2**31]
    folder.close()


def test_other_settings_while_open(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"x" * 10), now_ms=NOW)
    log.configure(LogConfig(segment_bytes=SIZE))
    log.append(batch(b"x" * 10), now_ms=NOW)
    assert bases(log.folder) == [0, 1]
    log.configure(LogConfig(segment_ms=10))
    log.append(batch(b"x", timestamps=[NOW + 11]), now_ms=NOW)
    assert bases(log.folder) == [0, 1, 2]
    folder.close()


# Reading


def test_an_offset_inside_a_batch_gives_the_whole_batch(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a"), now_ms=NOW)
    log.append(batch(b"b", b"c", b"d"), now_ms=NOW)
    for offset in (1, 2, 3):
        result = log.read(offset, 1 << 20, at_least_one=True)
        assert result.ranges is not None
        assert [header.base_offset for header in scan(result.ranges.read())] == [1]
    folder.close()


def test_at_least_one(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"x" * 10), now_ms=NOW)
    log.append(batch(b"x" * 10), now_ms=NOW)
    assert log.read(0, SIZE - 1, at_least_one=False).ranges is None
    assert log.read(0, SIZE - 1, at_least_one=True).size == SIZE
    assert log.read(0, SIZE + 5, at_least_one=True).size == SIZE + 5
    assert log.read(0, 0, at_least_one=True).size == SIZE
    folder.close()


def test_the_end_and_beyond(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    assert log.read(0, 100, at_least_one=True).ranges is None
    log.append(batch(b"a"), now_ms=NOW)
    at_end = log.read(1, 100, at_least_one=True)
    assert (at_end.ranges, at_end.size, at_end.high_water_mark) == (None, 0, 1)
    with pytest.raises(OffsetOutOfRangeError) as raised:
        log.read(2, 100, at_least_one=True)
    assert (raised.value.start, raised.value.end) == (0, 1)
    folder.close()


def test_only_what_is_synced_is_read_when_everything_is_to_be(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, durable=True)
    log.append(batch(b"a"), now_ms=NOW)
    assert log.high_water_mark == 0
    assert log.read(0, 1 << 20, at_least_one=True).ranges is None
    ticket = log.begin_flush()
    log.append(batch(b"b"), now_ms=NOW)
    assert ticket is not None
    ticket.sync()
    log.flushed(ticket)
    assert log.high_water_mark == 1
    assert [value for _, _, value in contents(log)] == [b"a"]
    assert log.offset_of_max_timestamp() == (NOW, 0, 0)
    log.flush()
    assert [value for _, _, value in contents(log)] == [b"a", b"b"]
    assert log.begin_flush() is None
    folder.close()


def test_a_range_stays_readable_when_its_segment_is_gone(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE, file_delete_delay_ms=0))
    for _ in range(3):
        log.append(batch(b"x" * 10), now_ms=NOW)
    result = log.read(0, 1000, at_least_one=True)
    log.delete_records_before(2)
    log.remove_deleted(NOW)
    log.remove_deleted(NOW)
    assert bases(log.folder) == [2]
    assert not list(log.folder.glob("*.deleted"))
    folder.delete_topic("events")
    folder.housekeep(NOW)
    assert not log.folder.exists()
    assert result.ranges is not None
    assert scan(result.ranges.read())[0].base_offset == 0
    folder.close()


def test_files_are_closed_when_nobody_reads_them(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE))
    for _ in range(20):
        log.append(batch(b"x" * 10), now_ms=NOW)
    folder.close()
    assert open_files(tmp_path) == 0
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE))
    log.segments.files.limit = 4
    assert len(contents(log)) == 20
    assert len(log.segments.files) == 4
    # The lock is one of them.
    assert open_files(tmp_path) <= 5
    folder.close()
    assert open_files(tmp_path) == 0


def test_a_file_that_was_put_aside_is_opened_again_to_append(tmp_path: Path) -> None:
    folder = open_log(tmp_path)[0]
    logs = folder.create_topic("many", 5, {}, LogConfig()).partitions
    logs[0].segments.files.limit = 2
    for number in range(20):
        for log in logs:
            assert log.append(batch(b"%d" % number), now_ms=NOW).base_offset == number
    assert len(logs[0].segments.files) == 2
    assert all(len(contents(log)) == 20 for log in logs)
    folder.close()


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"a"), now_ms=NOW)
    folder.close()
    with pytest.raises(StorageError):
        log.append(batch(b"a"), now_ms=NOW)
