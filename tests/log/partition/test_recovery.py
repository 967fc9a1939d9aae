"""Which bytes a start reads, and what it does with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import OutOfOrderSequenceError
from headrace.testing.faulty_filesystem import FaultyFileSystem
from headrace.wire.record_batch import scan
from tests.log.batches import NOW, batch, contents, open_log

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class ReadingDisk(FaultyFileSystem):
    """Counts the bytes that are read of logs."""

    def __init__(self, boot: str | None = None) -> None:
        super().__init__(boot=boot)
        self.read_from: dict[str, int] = {}
        self._log_paths: dict[int, str] = {}

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        descriptor = super().open(path, write=write, create=create)
        self._log_paths[descriptor] = path
        return descriptor

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        path = self._log_paths[descriptor]
        if path.endswith(".log"):
            self.read_from[Path(path).name] = min(position, self.read_from.get(Path(path).name, position))
        return super().pread(descriptor, size, position)


def fill(path: Path, disk: FaultyFileSystem, count: int = 30, *, checkpoint: bool = False) -> None:
    folder, log = open_log(path, SMALL, filesystem=disk)
    for number in range(count):
        log.append(batch(b"%d" % number, producer_id=2, producer_epoch=0, sequence=number), now_ms=NOW)
    if checkpoint:
        folder.checkpoint(NOW)


def test_a_clean_stop_leaves_nothing_to_read(tmp_path: Path) -> None:
    disk = ReadingDisk()
    fill(tmp_path, disk)
    folder, _ = open_log(tmp_path, SMALL, filesystem=disk.kill())
    folder.close()
    disk = ReadingDisk()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    assert disk.read_from == {}
    assert (log.end_offset, log.flushed_offset, len(log.parts.producers)) == (30, 30, 1)
    assert log.leader_epoch == 0
    folder.close()


def test_after_a_kill_only_what_came_after_the_checkpoint_is_read(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    for number in range(30):
        log.append(batch(b"%d" % number, producer_id=2, producer_epoch=0, sequence=number), now_ms=NOW)
    folder.checkpoint(NOW)
    last = f"{log.segments.active.base_offset:020d}.log"
    before_last_batch = log.segments.active.tail_positions[-1]
    log.append(batch(b"30", producer_id=2, producer_epoch=0, sequence=30), now_ms=NOW)
    watched = ReadingDisk(boot=disk.boot)
    disk.kill()
    folder, log = open_log(tmp_path, SMALL, filesystem=watched)
    # The producers are known as of the last roll, so headers are read from there on.
    assert set(watched.read_from) == {last}
    assert before_last_batch > 0
    assert (log.end_offset, len(contents(log))) == (31, 31)
    assert log.append(batch(b"30", producer_id=2, producer_epoch=0, sequence=30), now_ms=NOW).duplicate
    # The same epoch as before: nobody could have read records that are gone.
    assert log.leader_epoch == 0
    folder.close()


def test_the_index_has_no_gap_after_a_kill(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=100), filesystem=disk)
    for number in range(30):
        log.append(batch(b"%d" % number, timestamps=[NOW + number]), now_ms=NOW)
        if number in (10, 20):
            folder.checkpoint(NOW)
    wanted = log.segments.active.offset_index().to_bytes(), log.segments.active.time_index().timestamps[:-1]
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=100), filesystem=disk.kill())
    found = (
        log.segments.active.offset_index().to_bytes(),
        log.segments.active.time_index().timestamps[: len(wanted[1])],
    )
    assert found == wanted
    folder.close()


def test_after_a_power_loss_everything_not_synced_is_read(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    fill(tmp_path, disk, checkpoint=True)
    disk.power_loss("all")
    watched = ReadingDisk()
    folder, log = open_log(tmp_path, SMALL, filesystem=watched)
    assert watched.read_from == dict.fromkeys((f"{base:020d}.log" for base in log.segments.bases), 0)
    assert len(log.segments.bases) > 2
    assert len(contents(log)) == 30
    folder.close()


def test_producers_come_back_from_snapshots_of_several_ages(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    fill(tmp_path, disk)
    disk = disk.kill()
    for path in sorted((tmp_path / "events-0").glob("*.snapshot"))[1:]:
        path.write_bytes(b"damaged")
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    for sequence in (29, 28, 26):
        again = batch(b"%d" % sequence, producer_id=2, producer_epoch=0, sequence=sequence)
        assert log.append(again, now_ms=NOW).base_offset == sequence
    with pytest.raises(OutOfOrderSequenceError):
        log.append(batch(b"x", producer_id=2, producer_epoch=0, sequence=31), now_ms=NOW)
    log.append(batch(b"x", producer_id=2, producer_epoch=0, sequence=30), now_ms=NOW)
    folder.close()


def test_each_start_after_a_power_loss_begins_an_epoch(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    for number in range(3):
        log.append(batch(b"%d" % number), now_ms=NOW)
        disk.power_loss("all")
        disk = FaultyFileSystem()
        folder, log = open_log(tmp_path, SMALL, filesystem=disk)
        assert log.leader_epoch == number + 1
    log.append(batch(b"last"), now_ms=NOW)
    data = (log.folder / "00000000000000000000.log").read_bytes()
    assert [header.leader_epoch for header in scan(data)] == [0, 1, 2, 3]
    assert (log.folder / "leader-epoch-checkpoint").read_text() == "0\n4\n0 0\n1 1\n2 2\n3 3\n"
    assert log.parts.epochs.end_offset_for(1, log.end_offset) == (1, 2)
    folder.close()


def test_epochs_are_learnt_from_the_batches_if_their_file_is_gone(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    log.append(batch(b"0"), now_ms=NOW)
    disk.power_loss("all")
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    log.append(batch(b"1"), now_ms=NOW)
    disk.power_loss("all")
    (log.folder / "leader-epoch-checkpoint").unlink()
    folder, log = open_log(tmp_path, SMALL, filesystem=FaultyFileSystem())
    assert log.parts.epochs.entries == ((0, 0), (1, 1), (2, 2))
    folder.close()


def test_a_point_that_does_not_fit_is_not_believed(tmp_path: Path) -> None:
    """Somebody restored an older or shorter copy of a segment."""
    disk = FaultyFileSystem()
    fill(tmp_path, disk)
    folder, log = open_log(tmp_path, SMALL, filesystem=disk.kill())
    folder.close()
    last = log.folder / f"{log.segments.bases[-1]:020d}.log"
    content = last.read_bytes()
    last.write_bytes(content[:-5])
    folder, log = open_log(tmp_path, SMALL, filesystem=FaultyFileSystem())
    assert log.end_offset == 29
    assert len(contents(log)) == 29
    folder.close()


@pytest.mark.parametrize("name", ["written-points.json", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 50, b"{", b"0\n7\n", b'{"version": 9}', b"[]"])
def test_damaged_checkpoints_only_cost_time(tmp_path: Path, name: str, content: bytes) -> None:
    fill(tmp_path, disk := FaultyFileSystem(), checkpoint=True)
    folder, log = open_log(tmp_path, SMALL, filesystem=disk.kill())
    folder.close()
    (tmp_path / name).write_bytes(content)
    folder, log = open_log(tmp_path, SMALL, filesystem=FaultyFileSystem())
    assert len(contents(log)) == 30
    folder.close()


def test_leftovers_are_removed(tmp_path: Path) -> None:
    fill(tmp_path, disk := FaultyFileSystem())
    folder_path = tmp_path / "events-0"
    leftovers = ["00000000000000000000.log.deleted", "partition.metadata.tmp", "00000000000000000007.index"]
    for name in leftovers:
        (folder_path / name).write_bytes(b"left")
    folder, log = open_log(tmp_path, SMALL, filesystem=disk.kill())
    assert not [name for name in leftovers if (folder_path / name).exists()]
    assert len(contents(log)) == 30
    folder.close()


def test_snapshots_between_segments_are_replaced(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    for number in range(2500):
        log.append(batch(b"x", producer_id=2, producer_epoch=0, sequence=number), now_ms=NOW)
        if number % 600 == 599:
            folder.checkpoint(NOW)
    assert [path.name for path in log.folder.glob("*.snapshot")] == ["00000000000000002400.snapshot"]
    folder.close()
    assert [path.name for path in log.folder.glob("*.snapshot")] == ["00000000000000002500.snapshot"]
