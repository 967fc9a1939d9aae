"""A full disk, or one that accepts part of a write: the log stays unchanged and continues later."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, batch, contents, open_log

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.mark.parametrize("keep", [0, 1, 8, 60, 61, 70])
def test_a_failed_write_leaves_nothing(tmp_path: Path, keep: int) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    size = log.size_bytes
    disk.fail_write(keep=keep)
    with pytest.raises(StorageError):
        log.append(batch(b"lost", producer_id=1, producer_epoch=0, sequence=0), now_ms=NOW)
    assert (log.end_offset, log.size_bytes, len(log.parts.producers)) == (1, size, 0)
    assert (log.folder / "00000000000000000000.log").stat().st_size == size
    again = log.append(batch(b"second", producer_id=1, producer_epoch=0, sequence=0), now_ms=NOW)
    assert (again.base_offset, again.duplicate) == (1, False)
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()


def test_short_writes_are_completed(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    disk.short_writes = 7
    log.append(batch(b"first"), now_ms=NOW)
    log.append(memoryview(batch(b"second")), now_ms=NOW)
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()


def test_no_append_until_torn_bytes_are_cut_off(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    disk.fail_write(keep=70, code=errno.ENOSPC)
    disk.refuse_truncate = True
    with pytest.raises(StorageError):
        log.append(batch(b"torn" * 100), now_ms=NOW)
    with pytest.raises(StorageError):
        log.append(batch(b"x"), now_ms=NOW)
    with pytest.raises(StorageError):
        log.roll(now_ms=NOW)
    assert [value for _, _, value in contents(log)] == [b"first"]
    disk.refuse_truncate = False
    log.append(batch(b"y"), now_ms=NOW)
    assert [value for _, _, value in contents(log)] == [b"first", b"y"]
    assert (log.folder / "00000000000000000000.log").stat().st_size == log.size_bytes
    folder.close()


class UnreadableDisk(FaultyFileSystem):
    unreadable = False

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        if self.unreadable:
            raise OSError(errno.EIO, "cannot be read")
        return super().pread(descriptor, size, position)


def test_a_roll_that_cannot_read_the_indexes_leaves_no_new_segment(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", SMALL)
    log.append(batch(b"first"), now_ms=NOW)
    folder.close()
    disk = UnreadableDisk()
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=disk)
    disk.unreadable = True
    with pytest.raises(StorageError):
        log.roll(now_ms=NOW)
    assert [path.name for path in log.folder.glob("*.log")] == ["00000000000000000000.log"]
    disk.unreadable = False
    log.roll(now_ms=NOW)
    log.append(batch(b"second"), now_ms=NOW)
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()


@pytest.mark.parametrize("room", range(0, 900, 45))
def test_the_log_continues_when_there_is_space_again(tmp_path: Path, room: int) -> None:
    """Wherever the disk becomes full: in an append, a roll, a checkpoint or closing."""
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=disk)
    written: list[bytes] = []
    failures = 0

    def append_some() -> None:
        nonlocal failures
        for number in range(12):
            value = b"%d-%d" % (len(written), number)
            try:
                log.append(batch(value, producer_id=4, producer_epoch=0, sequence=len(written)), now_ms=NOW)
            except StorageError:
                failures += 1
                continue
            written.append(value)

    append_some()
    disk.room = room
    append_some()
    assert failures > 0
    assert [value for _, _, value in contents(log)] == written
    try:
        folder.checkpoint(NOW)
    except StorageError:
        assert disk.room < 200
    disk.room = None
    append_some()
    folder.checkpoint(NOW)
    assert [value for _, _, value in contents(log)] == written
    disk.room = room // 4
    append_some()
    try:
        folder.close()
    except StorageError:
        assert disk.room < 200
    disk.end()
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=FaultyFileSystem(boot=disk.boot))
    assert [value for _, _, value in contents(log)] == written
    assert log.append(batch(b"z"), now_ms=NOW).base_offset == len(written)
    folder.close()


def test_a_topic_that_cannot_be_made_is_not_there(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, _ = open_log(tmp_path / "data", filesystem=disk)
    for room in range(0, 2000, 100):
        disk.room = room
        try:
            folder.create_topic("new", 3, {}, LogConfig())
        except StorageError:
            assert "new" not in folder.topics
            disk.room = None
        else:
            break
    disk.room = None
    assert len(folder.topics["new"].partitions) == 3
    folder.close()
    folder, _ = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert set(folder.topics) == {"new", "events"}
    folder.close()
