"""What the mark of a clean stop covers is on the disk; a deleted log leaves no traces in the checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from headrace.log.config import LogConfig
from headrace.log.folder.checkpoints import read_written_points
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, TOPIC, batch, contents, open_log
from tests.log.transactional import committed_records, end, write


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_aborted_records_stay_invisible_after_a_power_loss(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    write(log, b"aborted")
    end(log, committed=False)
    log.append(batch(b"plain"), now_ms=NOW)
    folder.close()
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert [value for _, value in committed_records(log)] == [b"plain"]
    folder.close()


def test_the_leader_epoch_survives(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    folder.close()
    # An unclean stop: the next start begins a new epoch, and nothing is written in it.
    disk = FaultyFileSystem()
    open_log(tmp_path / "data", filesystem=disk)
    disk.end()
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    epoch = log.leader_epoch
    assert epoch > 0
    folder.close()
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert log.leader_epoch == epoch
    folder.close()


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    for number in range(5):
        log.append(batch(b"%d" % number), now_ms=NOW)
    log.delete_records_before(3)
    folder.close()
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert [value for _, _, value in contents(log)] == [b"3", b"4"]
    folder.close()


def test_producers_and_their_sequences_survive(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"once", producer_id=9, producer_epoch=0, sequence=0), now_ms=NOW)
    folder.close()
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    again = log.append(batch(b"once", producer_id=9, producer_epoch=0, sequence=0), now_ms=NOW)
    assert again.duplicate
    folder.close()


def test_an_idle_log_is_not_synced_at_the_stop(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    folder.close()
    syncs = []
    for _ in range(2):
        disk = FaultyFileSystem()
        folder, log = open_log(tmp_path / "data", filesystem=disk)
        before = disk.syncs
        folder.close()
        syncs.append(disk.syncs - before)
    # The checkpoints of the folder, and nothing of the log.
    assert syncs == [2, 2]


def test_a_late_sync_of_a_deleted_topic_does_not_write_a_point_for_its_successor(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, deleted = open_log(tmp_path / "data", filesystem=disk)
    for number in range(20):
        deleted.append(batch(b"old %d" % number), now_ms=NOW)
    folder.checkpoint(NOW)
    under_way = deleted.begin_flush()
    assert under_way is not None
    folder.delete_topic(TOPIC)
    (log,) = folder.create_topic(TOPIC, 1, {}, LogConfig()).partitions
    values = [b"new, and longer, %d" % number for number in range(40)]
    for first in range(0, 40, 4):
        log.append(batch(*values[first : first + 4]), now_ms=NOW)
    folder.checkpoint(NOW)
    under_way.sync()
    deleted.flushed(under_way)
    folder.checkpoint(NOW)
    assert read_written_points(disk, folder.path).points[log.name].end_offset == 40
    disk = disk.kill()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    assert [value for _, _, value in contents(log)] == values
    folder.close()


def test_a_point_always_names_the_last_batch(tmp_path: Path) -> None:
    """Recovery compares it with the file; a point without it would be believed whatever the file has."""
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    log.append(batch(b"second"), now_ms=NOW)
    folder.close()
    folder, log = open_log(tmp_path / "data", filesystem=disk)
    point = log.take_point()
    assert (point.end_offset, point.last_batch) == (2, point.position // 2)
    folder.close()


def test_a_producer_is_remembered_over_a_restart_as_long_as_the_setting_says(tmp_path: Path) -> None:
    """The setting is known only after the logs have been opened."""
    two_days, week = 2 * 86_400_000, 7 * 86_400_000
    once = batch(b"once", timestamps=[NOW - two_days], producer_id=9, producer_epoch=0, sequence=0)
    folder, log = open_log(tmp_path / "data")
    log.expire_producers_after(week)
    log.append(bytearray(once), now_ms=NOW)
    folder.close()
    folder, log = open_log(tmp_path / "data")
    log.expire_producers_after(week)
    log.remove_expired_producers(NOW)
    assert log.append(bytearray(once), now_ms=NOW).duplicate
    log.expire_producers_after(two_days)
    log.remove_expired_producers(NOW)
    assert not list(log.active_producers())
    folder.close()


def test_a_clock_that_is_set_back_delays_neither_checkpoints_nor_deletions(tmp_path: Path) -> None:
    hour = 3_600_000
    config = LogConfig(file_delete_delay_ms=60_000)
    folder, log = open_log(tmp_path / "data", config)
    log.append(batch(b"first"), now_ms=NOW)
    log.roll(now_ms=NOW)
    log.append(batch(b"second"), now_ms=NOW)
    log.flush()
    folder.checkpoint(NOW)
    points = tmp_path / "data" / "recovery-point-offset-checkpoint"
    until(points.exists)
    log.delete_records_before(1)
    folder.checkpoint(NOW + 1_000)
    assert list(log.folder.glob("*.deleted"))
    # The clock is set back by an hour, and a minute passes.
    points.unlink()
    log.flush()
    folder.checkpoint(NOW - hour)
    later = NOW - hour + 61_000

    def saved() -> bool:
        # While the save before it is under way, a checkpoint begins none.
        log.append(batch(b"third"), now_ms=later)
        log.flush()
        folder.checkpoint(later)
        return points.exists()

    until(saved)
    assert not list(log.folder.glob("*.deleted"))
    folder.close()
