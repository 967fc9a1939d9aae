"""Offsets that somebody has seen are never used again, whatever a power loss takes and wherever it hits."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import LogError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.folder.reservations import RESERVED_OFFSETS, Reservations, ReservedLog
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.recovery import Reserved
from headrace.log.partition.reservation import FEWEST, MOST, Reservation
from headrace.testing.faulty_filesystem import FaultyFileSystem, Survivors
from tests.log.batches import NOW, batch, contents

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)
TOPIC = "events"


def open_folder(path: Path, disk: FaultyFileSystem, *, durable: bool = False) -> DataFolder:
    return DataFolder.open(
        path,
        config_of=lambda _overrides: SMALL,
        reserving=True,
        durable=durable,
        filesystem=disk,
        clock=lambda: NOW,
    )


def open_log(path: Path, disk: FaultyFileSystem, *, durable: bool = False) -> tuple[DataFolder, PartitionLog]:
    folder = open_folder(path, disk, durable=durable)
    if TOPIC not in folder.topics:
        folder.create_topic(TOPIC, 1, {}, SMALL)
    return folder, folder.topics[TOPIC].partitions[0]


def append(folder: DataFolder, log: PartitionLog, *values: bytes) -> int:
    """Append a batch and reserve as the broker does. Return its first offset."""
    appended = log.append(batch(*values), now_ms=NOW)
    if appended.last_offset >= log.reservation.ask_at:
        reserve(folder, log)
    return appended.base_offset


def reserve(folder: DataFolder, *logs: PartitionLog) -> None:
    ticket = folder.reserving.ask(logs, 0.0)
    ticket.write()
    folder.reserving.granted(ticket)


def folders(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def test_a_log_that_lost_records_continues_behind_its_reservation(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"kept")
    log.flush()
    for _ in range(5):
        append(folder, log, b"lost", b"lost")
    bound = log.reservation.bound
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", FaultyFileSystem())
    assert (log.end_offset, log.high_water_mark) == (bound, bound)
    assert contents(log) == [(0, NOW, b"kept")]
    assert append(folder, log, b"new") == bound
    assert [offset for offset, _, _ in contents(log)] == [0, bound]
    # A reader in the hole finds its way too.
    assert log.read(bound - 1, 1 << 20, at_least_one=True).ranges is not None
    assert log.leader_epoch == 1
    # Who has read the lost records is not ahead of their epoch.
    assert log.end_of_epoch(0) == (0, bound)
    folder.close()


def test_a_killed_process_leaves_no_hole(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"first")
    disk = disk.kill()
    folder, log = open_log(tmp_path / "data", disk)
    assert (log.end_offset, log.leader_epoch) == (1, 0)
    syncs = disk.syncs
    assert append(folder, log, b"second") == 1
    assert log.high_water_mark == 2
    # The reservation of the killed process is still good.
    assert disk.syncs == syncs
    folder.close()


def test_a_clean_stop_leaves_no_hole_and_no_reservation(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"first")
    folder.close()
    assert not (tmp_path / "data" / RESERVED_OFFSETS).exists()
    disk.power_loss()
    # The power loss brought the file back, and the mark of the clean stop makes it void.
    assert (tmp_path / "data" / RESERVED_OFFSETS).exists()
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    assert log.end_offset == 1
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", FaultyFileSystem())
    assert log.end_offset == 1
    assert append(folder, log, b"second") == 1
    folder.close()


def test_a_copy_of_a_live_folder_counts_as_one_that_lost_records(tmp_path: Path) -> None:
    """The original goes on, so the copy lacks records that others have seen."""
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"in both")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert append(folder, log, b"only in the original") == 1
    copied, copy = open_log(tmp_path / "copy", FaultyFileSystem(boot=disk.boot))
    assert append(copied, copy, b"only in the copy") == log.reservation.bound
    folder.close()
    copied.close()


def test_an_idle_log_is_not_touched_by_a_power_loss(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder = open_folder(tmp_path / "data", disk)
    folder.create_topic(TOPIC, 500, {}, SMALL)
    for number in (7, 8):
        append(folder, folder.topics[TOPIC].partitions[number], b"lost")
    disk.power_loss()
    # The first reservation has synced the names in the data folder, and with them only the first partition's.
    assert folders(tmp_path / "data") == [f"{TOPIC}-7"]
    folder = open_folder(tmp_path / "data", FaultyFileSystem())
    ends = [log.end_offset for log in folder.topics[TOPIC].partitions]
    assert ends[7] == ends[8] == 1 + FEWEST
    assert sum(ends) == 2 * ends[7]
    assert folders(tmp_path / "data") == [f"{TOPIC}-7", f"{TOPIC}-8"]
    folder.close()


def test_a_topic_that_is_created_again_begins_at_0(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"old")
    folder.delete_topic(TOPIC)
    folder.create_topic(TOPIC, 1, {}, SMALL)
    disk.power_loss()
    folder, log = open_log(tmp_path / "data", FaultyFileSystem())
    assert log.end_offset == 0
    assert append(folder, log, b"new") == 0
    folder.close()


def test_partitions_that_were_added_have_reservations(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, _log = open_log(tmp_path / "data", disk)
    folder.add_partitions(TOPIC, 3)
    added = folder.topics[TOPIC].partitions[2]
    append(folder, added, b"lost")
    disk.power_loss()
    folder = open_folder(tmp_path / "data", FaultyFileSystem())
    assert [log.end_offset for log in folder.topics[TOPIC].partitions] == [0, 0, 1 + FEWEST]
    folder.close()


def test_deleted_records_stay_deleted_behind_the_hole(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    for _ in range(10):
        append(folder, log, b"lost")
    log.delete_records_before(8)
    bound = log.reservation.bound
    disk.power_loss("some")
    folder, log = open_log(tmp_path / "data", FaultyFileSystem())
    assert log.end_offset == bound
    assert log.delete_records_before(bound) == bound
    assert append(folder, log, b"new") == bound
    folder.close()


def test_a_folder_that_changes_to_fsync_always_keeps_its_holes(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder = open_folder(tmp_path / "data", disk)
    # The first is in the reservations' first version; of the second, even the folder is lost.
    for log in folder.create_topic(TOPIC, 2, {}, SMALL).partitions:
        append(folder, log, b"lost")
    disk.power_loss()
    for _ in range(2):
        disk = FaultyFileSystem()
        folder = open_folder(tmp_path / "data", disk, durable=True)
        for log in folder.topics[TOPIC].partitions:
            assert log.end_offset == log.high_water_mark == 1 + FEWEST
        disk.power_loss()


def test_the_leader_epoch_survives_with_the_reservation(tmp_path: Path) -> None:
    """Without a sync its own file comes back old; an epoch that was used must not be used again."""
    epochs = []
    for _ in range(3):
        disk = FaultyFileSystem()
        folder, log = open_log(tmp_path / "data", disk)
        append(folder, log, b"lost")
        epochs.append(log.leader_epoch)
        disk.power_loss()
    assert epochs == [0, 1, 2]


def test_a_hole_longer_than_a_segment_may_be_takes_several(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"lost")
    far = 5_000_000_000
    topic_id = folder.topics[TOPIC].id
    disk.power_loss()
    disk = FaultyFileSystem()
    reservations = Reservations(disk, str(tmp_path / "data"))
    reservations.load()
    reservations.write({ReservedLog(topic_id, 0): Reserved(bound=far, leader_epoch=7)})
    folder, log = open_log(tmp_path / "data", disk)
    assert (log.end_offset, log.leader_epoch, len(log.segments)) == (far, 8, 3)
    assert append(folder, log, b"new") == far
    assert contents(log) == [(far, NOW, b"new")]
    folder.close()


def test_a_damaged_line_does_not_count_and_a_full_file_is_replaced(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    append(folder, log, b"first")
    path = tmp_path / "data" / RESERVED_OFFSETS
    size = path.stat().st_size
    key = ReservedLog(folder.topics[TOPIC].id, 0)
    folder.abandon()
    reservations = Reservations(disk, str(tmp_path / "data"))
    for bound in range(2_000, 4_000):
        reservations.write({key: Reserved(bound=bound, leader_epoch=0)})
    assert path.stat().st_size <= 2 * size
    content = path.read_bytes()
    path.write_bytes(content.replace(b" 3999 ", b" 9999 "))
    reservations = Reservations(disk, str(tmp_path / "data"))
    reservations.load()
    assert reservations.of(key) == Reserved(bound=3_998, leader_epoch=0)


def test_how_far_ahead_follows_the_rate() -> None:
    reservation = Reservation()
    reservation.enforce(0, 0)
    end, seconds, bounds = 0, 0.0, []
    for rate in (10, 10, 100_000, 100_000, 10_000_000, 10, 10):
        end, seconds = end + rate, seconds + 1.0
        bound = reservation.ask(end, seconds)
        reservation.grant(bound)
        bounds.append(bound - end)
    assert bounds[:2] == [FEWEST, FEWEST]
    assert bounds[2:4] == [1_000_000, 1_000_000]
    assert bounds[4] == MOST
    # It never shrinks below what is reserved already.
    assert bounds[5] == MOST - 10


class Witness:
    """Remembers every offset that a client could have seen, and with which value."""

    def __init__(self) -> None:
        self.seen: dict[int, bytes] = {}
        self.latest = 0

    def look(self, log: PartitionLog) -> None:
        for offset, _, value in contents(log):
            assert self.seen.setdefault(offset, value) == value, f"offset {offset} was used again"
        assert log.high_water_mark >= self.latest, "the end went backwards"
        self.latest = log.high_water_mark


@pytest.mark.parametrize("survivors", ["none", "some", "all"])
@pytest.mark.parametrize("seed", range(12))
def test_no_offset_is_used_twice(
    tmp_path: Path, survivors: Survivors, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends, reservations late or early, rolls, syncs, deletions, kills and power losses by chance."""
    monkeypatch.setattr("headrace.log.partition.reservation.FEWEST", 10)
    monkeypatch.setattr("headrace.log.partition.reservation.SECONDS_AHEAD", 1.0)
    chance = random.Random(seed)
    numbers = itertools.count()
    witness = Witness()
    disk = FaultyFileSystem(seed=seed)
    path = tmp_path / "data"
    folder, log = open_log(path, disk)
    for _ in range(12):
        for _ in range(chance.randrange(25)):
            action = chance.random()
            if action < 0.7:
                count = chance.choice([1, 3, 8])
                values = [b"%d" % next(numbers) for _ in range(count)]
                log.append(batch(*values), now_ms=NOW)
            elif action < 0.8:
                reserve(folder, log)
            elif action < 0.85:
                log.flush()
            elif action < 0.9:
                folder.checkpoint(NOW)
            elif action < 0.95 and log.high_water_mark > log.start_offset:
                log.delete_records_before(chance.randrange(log.start_offset, log.high_water_mark + 1))
            else:
                ticket = folder.reserving.ask([log], 0.0)
                disk.fail_from(chance.randrange(1, 6))
                try:
                    ticket.write()
                except OSError:
                    pass
                else:
                    folder.reserving.granted(ticket)
                disk.fail_from(None)
            witness.look(log)
        how = chance.random()
        if how < 0.2:
            folder.close()
            disk.end()
            disk = FaultyFileSystem(boot=disk.boot, seed=chance.randrange(1000))
        elif how < 0.4:
            disk = disk.kill()
        else:
            disk.power_loss(survivors)
            disk = FaultyFileSystem(seed=chance.randrange(1000))
        # Several starts end before they are through, by a kill or another power loss.
        while chance.random() < 0.5:
            disk.fail_from(chance.randrange(1, 30))
            try:
                folder, log = open_log(path, disk)
                witness.look(log)
            except (LogError, OSError):
                pass
            disk.fail_from(None)
            if chance.random() < 0.5:
                disk = disk.kill()
            else:
                disk.power_loss(survivors)
                disk = FaultyFileSystem(seed=chance.randrange(1000))
        folder, log = open_log(path, disk)
        witness.look(log)
    folder.close()


def _flip(content: bytes) -> bytes:
    """The write-back of a page has failed, say."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def _cut_and_zeroes(content: bytes) -> bytes:
    return content[:-70] + bytes(70)


@pytest.mark.parametrize("harm", [_flip, _cut_and_zeroes])
def test_damage_without_a_reboot_is_a_loss_too(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    for number in range(6):
        append(folder, log, b"a%d" % number)
    bound, path = log.reservation.bound, Path(log.segments.active.log_path)
    folder.abandon()
    path.write_bytes(harm(path.read_bytes()))
    folder, log = open_log(tmp_path / "data", disk)
    assert (log.end_offset, log.leader_epoch) == (bound, 1), "acknowledged offsets are not used again"
    folder.abandon()


@pytest.mark.parametrize("torn", [1, 11, 40, 61, 65])
def test_the_beginning_of_a_batch_after_a_kill_leaves_no_hole(tmp_path: Path, torn: int) -> None:
    """Nobody was told of it."""
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", disk)
    for number in range(3):
        append(folder, log, b"a%d" % number)
    path = Path(log.segments.active.log_path)
    before = path.stat().st_size
    append(folder, log, b"unfinished")
    folder.abandon()
    path.write_bytes(path.read_bytes()[: before + torn])
    folder, log = open_log(tmp_path / "data", disk)
    assert (log.end_offset, log.leader_epoch) == (3, 0)
    folder.abandon()
