"""After a failed sync nothing counts as safe until it was written again and synced, whoever was told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, batch, contents, open_log


def values_after_power_loss(path: Path, disk: FaultyFileSystem) -> list[bytes]:
    disk.power_loss()
    folder, log = open_log(path, filesystem=FaultyFileSystem(), durable=True)
    found = [value for _, _, value in contents(log)]
    folder.close()
    return found


def append(log: PartitionLog, value: bytes) -> None:
    log.append(batch(value), now_ms=NOW)


def test_a_sync_of_closed_segments_does_not_hide_the_failure_of_the_last_one(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    log.roll(now_ms=NOW)
    append(log, b"second")
    disk.fail_sync(2)
    with pytest.raises(StorageError):
        log.flush()
    in_background = log.begin_flush(closed_only=True)
    assert in_background is not None
    in_background.sync()
    log.flushed(in_background)
    assert log.high_water_mark == 1
    log.flush()
    assert log.high_water_mark == 2
    assert values_after_power_loss(tmp_path / "data", disk) == [b"first", b"second"]


def test_a_failure_that_another_sync_was_told_of_counts_for_all(tmp_path: Path) -> None:
    """Linux reports a failed write-back once for each descriptor, and both syncs use the same."""
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    log.roll(now_ms=NOW)
    append(log, b"second")
    for_producers, in_background = log.begin_flush(), log.begin_flush(closed_only=True)
    assert for_producers is not None
    assert in_background is not None
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        in_background.sync()
    with pytest.raises(OSError, match="Input/output error"):
        for_producers.sync()
    assert log.high_water_mark == 0
    log.flush()
    assert values_after_power_loss(tmp_path / "data", disk) == [b"first", b"second"]


def test_a_sync_that_ended_before_the_failure_was_known_does_not_count(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    good, bad = log.begin_flush(), log.begin_flush()
    assert good is not None
    assert bad is not None
    good.sync()
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        bad.sync()
    log.flushed(good)
    assert log.high_water_mark == 0
    log.flush()
    assert log.high_water_mark == 1


def test_a_second_sync_does_not_overtake_the_one_that_writes_again(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    disk.fail_sync()
    with pytest.raises(StorageError):
        log.flush()
    slow, quick = log.begin_flush(), log.begin_flush()
    assert slow is not None
    assert quick is not None
    quick.sync()
    log.flushed(quick)
    assert log.high_water_mark == 1
    assert values_after_power_loss(tmp_path / "data", disk) == [b"first"]


class StoppedInSync(FaultyFileSystem):
    """Its next sync fails, and the thread that asked for it hears of it only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = threading.Event()
        self.go_on = threading.Event()
        self.stops = False

    def fdatasync(self, descriptor: int) -> None:
        if not self.stops:
            super().fdatasync(descriptor)
            return
        self.stops = False
        try:
            super().fdatasync(descriptor)
        finally:
            self.failed.set()
            assert self.go_on.wait(120)


def test_a_sync_waits_until_the_failure_of_another_is_known(tmp_path: Path) -> None:
    disk = StoppedInSync()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    tickets = log.begin_flush(), log.begin_flush()
    results: list[OSError | None] = []

    def sync(number: int) -> None:
        ticket = tickets[number]
        assert ticket is not None
        try:
            ticket.sync()
        except OSError as error:
            results.append(error)
        else:
            results.append(None)

    disk.stops = True
    disk.fail_sync()
    threads = [threading.Thread(target=sync, args=(number,)) for number in range(2)]
    threads[0].start()
    assert disk.failed.wait(120)
    threads[1].start()
    threads[1].join(0.2)
    disk.go_on.set()
    for thread in threads:
        thread.join(120)
    assert [type(result) for result in results] == [OSError, OSError]


def test_names_are_synced_again_after_a_failure(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    append(log, b"first")
    disk.refuse_sync = True
    with pytest.raises(StorageError):
        log.flush()
    disk.refuse_sync = False
    log.flush()
    assert values_after_power_loss(tmp_path / "data", disk) == [b"first"]


def test_an_interval_that_failed_is_written_again_by_the_sync_of_the_closed_segment(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    config = LogConfig()
    _, log = open_log(tmp_path / "data", config, filesystem=disk)
    append(log, b"first")
    disk.fail_sync()
    with pytest.raises(StorageError):
        log.flush()
    log.roll(now_ms=NOW)
    ticket = log.begin_flush(closed_only=True)
    assert ticket is not None
    ticket.sync()
    log.flushed(ticket)
    assert log.flushed_offset == 1
    assert values_after_power_loss(tmp_path / "data", disk) == [b"first"]
