"""A power loss takes nothing that was acknowledged, on logs that sync before they acknowledge."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem, Survivors
from tests.log.batches import NOW, TOPIC, batch, contents, open_log

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)


class Producer:
    """Appends numbered records, and remembers the acknowledgements."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.acknowledged: list[tuple[int, bytes]] = []
        self.sent: set[bytes] = set()

    def append(self, log: PartitionLog, sizes: list[int], *, synced: bool = True) -> None:
        """Append batches of these sizes, which share one sync and are then acknowledged."""
        written = []
        for size in sizes:
            values = [b"%d" % next(self.numbers) + b"." * size for _ in range(2)]
            self.sent.update(values)
            base_offset = log.append(batch(*values), now_ms=NOW).base_offset
            written += [(base_offset + number, value) for number, value in enumerate(values)]
        if synced:
            log.flush()
            self.acknowledged += written

    def check(self, log: PartitionLog) -> None:
        """Every acknowledged record is at its offset; nothing is there twice or was never sent."""
        found = [(offset, value) for offset, _, value in contents(log)]
        assert found[: len(self.acknowledged)] == self.acknowledged
        assert len({value for _, value in found}) == len(found)
        assert {value for _, value in found} <= self.sent
        assert log.high_water_mark == log.end_offset


@pytest.mark.parametrize("survivors", ["none", "some", "all"])
@pytest.mark.parametrize("seed", range(8))
def test_acknowledged_records_survive(tmp_path: Path, survivors: Survivors, seed: int) -> None:
    choices = random.Random(seed)
    producer = Producer()
    disk = FaultyFileSystem(seed=seed)
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=disk, durable=True)
    for _ in range(5):
        for _ in range(choices.randrange(12)):
            producer.append(log, [choices.randrange(120) for _ in range(choices.choice([1, 1, 8]))])
            if choices.random() < 0.2:
                folder.checkpoint(NOW)
        # Written, but not acknowledged: it may be there or not.
        producer.append(log, [choices.randrange(120) for _ in range(choices.randrange(4))], synced=False)
        disk.power_loss(survivors)
        disk = FaultyFileSystem(seed=choices.randrange(1000))
        folder, log = open_log(tmp_path / "data", SMALL, filesystem=disk, durable=True)
        producer.check(log)
        # Records that survived without an acknowledgement count from now on.
        producer.acknowledged = [(offset, value) for offset, _, value in contents(log)]
    folder.close()


def test_a_batch_torn_at_each_byte_is_cut_off(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    log.append(batch(b"first"), now_ms=NOW)
    log.flush()
    whole = batch(b"second", b"third")
    path = log.folder / "00000000000000000000.log"
    before = path.read_bytes()
    for torn in range(len(whole)):
        disk.power_loss("none")
        path.write_bytes(before + whole[:torn])
        disk = FaultyFileSystem()
        folder, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
        assert [value for _, _, value in contents(log)] == [b"first"]
        assert path.read_bytes() == before
    assert log.append(batch(b"fourth"), now_ms=NOW).base_offset == 1
    folder.close()


def test_bytes_missing_in_the_middle_end_the_log_there(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", SMALL, filesystem=disk)
    for number in range(20):
        log.append(batch(b"%d" % number * 20), now_ms=NOW)
    assert len(log.segments) == 3
    disk.power_loss("all")
    second = log.folder / f"{log.segments.bases[1]:020d}.log"
    content = bytearray(second.read_bytes())
    content[100:200] = bytes(100)
    second.write_bytes(content)
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=FaultyFileSystem())
    # The rest of the segment and the segments after it are gone: no hole in the middle.
    assert [offset for offset, _, _ in contents(log)] == list(range(log.end_offset))
    assert log.segments.bases[-1] < log.end_offset <= log.segments.bases[-1] + 1
    assert len(log.segments) == 2
    folder.close()


@pytest.mark.parametrize("at", [0, 11, 15, 16, 17, 20, 21, 23, 30, 43, 57, 61, -1])
def test_a_wrong_byte_anywhere_in_a_batch_is_noticed(tmp_path: Path, at: int) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk)
    for number in range(3):
        log.append(batch(b"%d" % number * 20), now_ms=NOW)
    disk.power_loss("all")
    path = log.folder / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    size = len(content) // 3
    content[size + at if at >= 0 else 2 * size - 1] ^= 0x80
    path.write_bytes(content)
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    # The checksum does not cover the leader epoch: a wrong one is trusted.
    assert log.end_offset == (3 if at == 15 else 1)
    folder.close()


def test_indexes_and_snapshots_of_closed_segments_are_synced_with_them(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", SMALL, filesystem=disk, durable=True)
    for number in range(20):
        log.append(batch(b"%d" % number * 20, timestamps=[NOW + number]), now_ms=NOW)
    log.flush()
    closed = [path for base in log.segments.bases[:-1] for path in log.folder.glob(f"{base:020d}.*index")]
    closed += [log.folder / f"{base:020d}.snapshot" for base in log.segments.bases[1:]]
    before = [path.read_bytes() for path in closed]
    assert len(before) == 6
    disk.power_loss("none")
    assert [path.read_bytes() for path in closed] == before


def test_a_lost_end_of_a_segment_is_not_jumped_over(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", SMALL, filesystem=disk)
    for number in range(20):
        log.append(batch(b"%d" % number * 20), now_ms=NOW)
    disk.power_loss("all")
    path = log.folder / f"{log.segments.bases[0]:020d}.log"
    size = len(batch(b"0" * 20))
    path.write_bytes(path.read_bytes()[:size])
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=FaultyFileSystem())
    assert (log.end_offset, len(log.segments)) == (1, 1)
    folder.close()


def test_synced_segments_are_not_read_again(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=disk, durable=True)
    for number in range(20):
        log.append(batch(b"%d" % number * 20), now_ms=NOW)
        log.flush()
    folder.checkpoint(NOW)
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    while not path.exists():
        time.sleep(0.001)
    # Waits for the thread, which still has to sync the name.
    folder.abandon()
    disk.power_loss("none")
    # A byte that only reading the first segment would find.
    first = log.folder / f"{log.segments.bases[0]:020d}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=FaultyFileSystem(), durable=True)
    assert log.end_offset == 20
    folder.close()


def test_a_folder_that_could_not_be_completed_is_completed_and_synced(tmp_path: Path) -> None:
    """The first append creates the folder; if the epoch file cannot be written, the next one tries again."""
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    log.flush()
    disk.fail_write(nth=2)
    with pytest.raises(StorageError):
        log.append(batch(b"first"), now_ms=NOW)
    log.append(batch(b"first"), now_ms=NOW)
    assert (log.folder / "leader-epoch-checkpoint").exists()
    log.flush()
    disk.power_loss("none")
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem(), durable=True)
    assert [value for _, _, value in contents(log)] == [b"first"]
    folder.close()


def test_a_failed_sync_is_not_taken_for_a_good_one(tmp_path: Path) -> None:
    """fsync=always: unsynced records are not readable, and the next good sync covers them."""
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", SMALL, filesystem=disk, durable=True)
    log.append(batch(b"first"), now_ms=NOW)
    log.flush()
    log.append(batch(b"second", producer_id=9, producer_epoch=0, sequence=0), now_ms=NOW)
    disk.fail_sync()
    with pytest.raises(StorageError):
        log.flush()
    assert log.high_water_mark == 1
    assert [value for _, _, value in contents(log)] == [b"first"]
    again = log.append(batch(b"second", producer_id=9, producer_epoch=0, sequence=0), now_ms=NOW)
    assert (again.base_offset, again.duplicate) == (1, True)
    log.flush()
    disk.power_loss("none")
    folder, log = open_log(tmp_path / "data", SMALL, filesystem=FaultyFileSystem(), durable=True)
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()


def test_after_a_failed_sync_the_next_one_writes_everything_again(tmp_path: Path) -> None:
    """fsync=interval: acknowledged records stay, and pages that only look clean must not lose them."""
    disk = FaultyFileSystem()
    _, log = open_log(tmp_path / "data", filesystem=disk)
    log.append(batch(b"first"), now_ms=NOW)
    disk.fail_sync()
    with pytest.raises(StorageError):
        log.flush()
    assert log.flushed_offset == 0
    log.append(batch(b"second"), now_ms=NOW)
    log.flush()
    assert log.flushed_offset == 2
    disk.power_loss("none")
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem())
    assert [value for _, _, value in contents(log)] == [b"first", b"second"]
    folder.close()


@pytest.mark.parametrize("survivors", ["none", "some", "all"])
@pytest.mark.parametrize("seed", range(6))
def test_topics_survive_as_their_creation_was_answered(
    tmp_path: Path, survivors: Survivors, seed: int
) -> None:
    choices = random.Random(seed)
    disk = FaultyFileSystem(seed=seed)
    config = LogConfig(file_delete_delay_ms=0)
    folder = DataFolder.open(tmp_path / "data", filesystem=disk, clock=lambda: NOW, durable=True)
    cluster_id = folder.cluster_id
    there: dict[str, tuple[object, list[int]]] = {}
    given: set[int] = set()
    for _ in range(4):
        for _ in range(12):
            name = choices.choice("abc")
            if name not in there:
                partitions = choices.randrange(1, 4)
                topic = folder.create_topic(name, partitions, {"retention.ms": "5"}, config)
                there[name] = (topic.id, [0] * partitions)
            elif choices.random() < 0.3:
                folder.delete_topic(name)
                del there[name]
            elif choices.random() < 0.5:
                ends = there[name][1]
                folder.add_partitions(name, len(ends) + 1)
                ends.append(0)
            else:
                ends = there[name][1]
                number = choices.randrange(len(ends))
                log = folder.topics[name].partitions[number]
                log.append(batch(b"%s %d" % (name.encode(), ends[number])), now_ms=NOW)
                log.flush()
                ends[number] += 1
            ids = set(folder.reserve_producer_ids(10))
            assert not ids & given
            given |= ids
            if choices.random() < 0.3:
                folder.housekeep(NOW + 1)
        disk.power_loss(survivors)
        disk = FaultyFileSystem(seed=choices.randrange(1000))
        folder = DataFolder.open(tmp_path / "data", filesystem=disk, clock=lambda: NOW, durable=True)
        assert there == {
            name: (topic.id, [log.end_offset for log in topic.partitions])
            for name, topic in folder.topics.items()
        }
        assert folder.cluster_id == cluster_id
        folders = {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}
        assert folders <= {f"{name}-{n}" for name, (_, ends) in there.items() for n in range(len(ends))}
    folder.close()


def test_a_topic_made_again_does_not_get_the_records_of_the_old_one(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", filesystem=disk, durable=True)
    log.append(batch(b"old"), now_ms=NOW)
    log.flush()
    folder.delete_topic(TOPIC)
    # The names of folders were not synced by the deletion; creating the topic again does.
    topic = folder.create_topic(TOPIC, 1, {}, LogConfig())
    assert topic.partitions[0].end_offset == 0
    disk.power_loss("none")
    folder, log = open_log(tmp_path / "data", filesystem=FaultyFileSystem(), durable=True)
    assert folder.topics[TOPIC].id == topic.id
    assert log.end_offset == 0
    folder.close()
