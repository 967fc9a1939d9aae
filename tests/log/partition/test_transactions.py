"""Transactions in a log: what readers see, through stops, damage and deletions."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTransactionStateError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producers.verification import Coordinator, TransactionEnd
from headrace.testing.faulty_filesystem import FaultyFileSystem
from headrace.wire.control_batches import EndMarker, build_end_marker
from headrace.wire.record_batch import read_header, scan
from headrace.wire.records import Record, build_batch
from tests.log.batches import NOW, batch, contents, open_log
from tests.log.transactional import committed_records, end, transactional_batch, write

SMALL = LogConfig(segment_bytes=300, file_delete_delay_ms=0, retention_ms=-1)


def values(log: PartitionLog) -> list[bytes]:
    return [value for _, value in committed_records(log)]


def aborted(log: PartitionLog) -> list[tuple[int, int, int, int]]:
    return [tuple(each) for each in log.aborted_between(0, log.end_offset)]


def test_records_are_seen_when_their_transaction_is_committed(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        log.append(batch(b"before"), now_ms=NOW)
        write(log, b"one", b"two")
        log.append(batch(b"after"), now_ms=NOW)
        assert (log.last_stable_offset, log.high_water_mark) == (1, 4)
        assert values(log) == [b"before"]
        assert len(contents(log)) == 4
        appended = end(log, committed=True)
        assert (appended.base_offset, appended.last_offset) == (4, 4)
        assert log.last_stable_offset == log.end_offset == 5
        assert values(log) == [b"before", b"one", b"two", b"after"]
        assert not list(log.folder.glob("*.txnindex"))


def test_records_of_an_aborted_transaction_are_left_out(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        write(log, b"one")
        log.append(batch(b"between"), now_ms=NOW)
        write(log, b"two", sequence=1)
        end(log, committed=False)
        write(log, b"three", epoch=1)
        end(log, committed=True, epoch=2)
        assert values(log) == [b"between", b"three"]
        read = log.read_committed(0, 1 << 20, at_least_one=True)
        assert read.aborted == ((7, 0),)
        assert log.read_committed(3, 1 << 20, at_least_one=True).aborted == ((7, 0),)
        assert log.read_committed(4, 1 << 20, at_least_one=True).aborted == ()


def test_the_oldest_open_transaction_holds_readers_back(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        write(log, b"slow", producer=1)
        write(log, b"quick", producer=2)
        end(log, committed=True, producer=2)
        assert (log.last_stable_offset, values(log)) == (0, [])
        assert log.read_committed(0, 100, at_least_one=True).result.ranges is None
        end(log, committed=False, producer=1)
        assert (log.last_stable_offset, values(log)) == (4, [b"quick"])


def test_a_reader_is_told_no_more_than_it_needs(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    with folder:
        for number in range(20):
            write(log, b"x" * 50, epoch=number)
            end(log, committed=False, epoch=number + 1)
        size = log.size_bytes // 20
        read = log.read_committed(20, 2 * size, at_least_one=True)
        assert [first for _, first in read.aborted] == [20, 22, 24][: len(read.aborted)]
        assert len(read.aborted) >= 2
        assert log.read_committed(0, 1 << 20, at_least_one=True).aborted[-1] == (7, 38)


def test_a_transaction_over_several_segments(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, SMALL)
    with folder:
        for number in range(8):
            write(log, b"%d" % number * 60, sequence=number)
            log.append(batch(b"kept" * 10), now_ms=NOW)
        end(log, committed=False)
        assert len(log.segments) > 4
        assert values(log) == [b"kept" * 10] * 8
        assert log.read_committed(0, 10, at_least_one=True).aborted == ((7, 0),)
        assert aborted(log) == [(7, 0, 16, 17)]


@pytest.mark.parametrize("how", ["clean", "kill", "checkpoint and kill", "power"])
@pytest.mark.parametrize("config", [SMALL, LogConfig()])
def test_everything_is_there_again_after_a_stop(tmp_path: Path, how: str, config: LogConfig) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, config, filesystem=disk)
    for number in range(6):
        write(log, b"%d" % number * 30, producer=number % 2, epoch=number // 2)
        if number == 3 and how == "checkpoint and kill":
            folder.checkpoint(NOW)
        if number < 4:
            end(
                log,
                committed=number % 3 == 0,
                producer=number % 2,
                epoch=number // 2 + 1,
                coordinator_epoch=4,
            )
    before = (log.last_stable_offset, committed_records(log), aborted(log), dict(log.parts.producers.ongoing))
    assert before[3] == {0: 8, 1: 9}
    assert len(before[2]) == 2
    if how == "clean":
        folder.close()
    elif how == "power":
        log.flush()
        disk.power_loss("all")
        disk = FaultyFileSystem()
    else:
        disk = disk.kill()
    folder, log = open_log(tmp_path, config, filesystem=disk)
    with folder:
        assert (
            log.last_stable_offset,
            committed_records(log),
            aborted(log),
            log.parts.producers.ongoing,
        ) == before
        with pytest.raises(TransactionCoordinatorFencedError):
            end(log, committed=True, producer=0, epoch=3, coordinator_epoch=3)
        with pytest.raises(InvalidProducerEpochError):
            end(log, committed=True, producer=0, epoch=2, coordinator_epoch=4)
        end(log, committed=False, producer=0, epoch=3, coordinator_epoch=4)
        end(log, committed=True, producer=1, epoch=3, coordinator_epoch=4)
        assert log.last_stable_offset == log.end_offset
        assert values(log)[-1] == b"5" * 30
        assert b"4" * 30 not in values(log)


@pytest.mark.parametrize("damage", [None, b"noise", b"\xff" * 34])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: bytes | None) -> None:
    folder, log = open_log(tmp_path, SMALL)
    for number in range(10):
        write(log, b"%d" % number * 40, producer=number % 3, epoch=number // 3)
        if number >= 2:
            began = number - 2
            end(log, committed=began % 2 == 0, producer=began % 3, epoch=began // 3 + 1)
    before = (committed_records(log), aborted(log))
    folder.close()
    indexes = sorted(log.folder.glob("*.txnindex"))
    assert len(indexes) > 2
    folder, log = open_log(tmp_path, SMALL)
    with folder:
        # After the start, which only looks at file names.
        for path in indexes:
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
        assert (committed_records(log), aborted(log)) == before
    assert all(len(path.read_bytes()) % 34 == 0 for path in indexes)


def test_deleting_records_of_an_open_transaction(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        write(log, b"one", b"two")
        log.append(batch(b"three"), now_ms=NOW)
        assert log.delete_records_before(1) == 1
        assert log.last_stable_offset == 1
        log.delete_records_before(2)
        assert log.last_stable_offset == 2
        end(log, committed=False)
        assert (log.last_stable_offset, values(log)) == (4, [b"three"])


def test_segments_go_with_their_index(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, SMALL)
    with folder:
        for number in range(6):
            write(log, b"%d" % number * 100, epoch=number)
            end(log, committed=False, epoch=number + 1)
        log.roll()
        folder.checkpoint(NOW)
        write(log, b"open", epoch=6)
        assert list(log.folder.glob("*.txnindex"))
        log.delete_records_before(log.end_offset - 1)
        assert log.last_stable_offset == log.start_offset
        log.remove_deleted(NOW)
        log.remove_deleted(NOW)
        assert not list(log.folder.glob("*.txnindex*"))
        end(log, committed=True, epoch=7)
        assert values(log) == [b"open"]


def test_a_snapshot_from_before_the_first_segment_opens_no_transaction(tmp_path: Path) -> None:
    """The marker is deleted with its segment; an older snapshot would hold readers back forever."""
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    write(log, b"one")
    log.roll()
    log.delete_records_before(1)
    end(log, committed=False)
    log.append(batch(b"x" * 200), now_ms=NOW)
    log.append(batch(b"y" * 200), now_ms=NOW)
    disk = disk.kill()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    log.delete_records_before(3)
    assert log.segments.bases[0] == 3
    disk = disk.kill()
    folder, log = open_log(tmp_path, SMALL, filesystem=disk)
    with folder:
        assert (log.parts.producers.ongoing, log.last_stable_offset) == ({}, 4)
        assert values(log) == [b"y" * 200]


def test_an_index_without_its_log_is_removed_at_the_start(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"x"), now_ms=NOW)
    folder.close()
    stray = log.folder / f"{50:020d}.txnindex"
    stray.write_bytes(b"\x00" * 34)
    with open_log(tmp_path)[0]:
        assert not stray.exists()


def test_with_durable_an_end_counts_when_it_is_on_the_disk(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, durable=True)
    with folder:
        write(log, b"one")
        log.flush()
        end(log, committed=True)
        assert (log.high_water_mark, log.last_stable_offset) == (1, 0)
        assert values(log) == []
        ticket = log.begin_flush()
        write(log, b"two", epoch=1)
        assert ticket is not None
        ticket.sync()
        log.flushed(ticket)
        assert (log.high_water_mark, log.last_stable_offset) == (2, 2)
        assert values(log) == [b"one"]
        log.flush()
        assert (log.high_water_mark, log.last_stable_offset) == (3, 2)
        end(log, committed=False, epoch=2)
        assert log.last_stable_offset == 2


def test_a_marker_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, filesystem=disk)
    write(log, b"one")
    disk.fail_write()
    with pytest.raises(StorageError):
        end(log, committed=False)
    assert (log.end_offset, log.last_stable_offset, aborted(log)) == (1, 0, [])
    end(log, committed=False)
    assert (log.last_stable_offset, aborted(log)) == (2, [(7, 0, 1, 2)])
    folder.close()


def test_a_late_marker_does_not_touch_a_newer_transaction(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        write(log, b"one")
        end(log, committed=True)
        write(log, b"two", epoch=1)
        for late in (0, 1):
            with pytest.raises(InvalidProducerEpochError):
                end(log, committed=True, epoch=late)
        assert (log.end_offset, log.last_stable_offset) == (3, 2)
        end(log, committed=False, epoch=2)
        end(log, committed=False, epoch=2)
        assert values(log) == [b"one"]
        assert aborted(log) == [(7, 2, 3, 4)]


def test_clients_cannot_write_markers_or_unverified_records(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    with folder:
        marker = build_end_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp=NOW)
        with pytest.raises(InvalidRecordError):
            log.append(marker, now_ms=NOW)
        with pytest.raises(InvalidTransactionStateError):
            log.append(transactional_batch(b"x", producer=7, epoch=0, sequence=0), now_ms=NOW)
        nobody = build_batch([Record(0, value=b"x")], transactional=True)
        with pytest.raises(InvalidTransactionStateError):
            log.append(nobody, now_ms=NOW)
        assert log.end_offset == 0


def test_offsets_of_a_group_in_a_transaction(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    with folder:
        guard = log.begin_verification(7, -1, 0, epoch_bump=True, now_ms=NOW)
        for value in (b"one", b"two"):
            records = [Record(0, 0, b"key", value)]
            offsets = build_batch(
                records, base_timestamp=NOW, producer_id=7, producer_epoch=0, transactional=True
            )
            log.append(offsets, now_ms=NOW, permission=Coordinator(guard=guard))
        assert log.last_stable_offset == 0
        end(log, committed=True)
        assert values(log) == [b"one", b"two"]


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(timestamp_type="LogAppendTime"),
        LogConfig(compression_type="zstd"),
        LogConfig(cleanup_policy=frozenset({"compact"})),
        LogConfig(max_message_bytes=77),
        LogConfig(timestamp_before_max_ms=1, timestamp_after_max_ms=1),
    ],
)
def test_markers_on_topics_of_all_kinds(tmp_path: Path, config: LogConfig) -> None:
    folder, log = open_log(tmp_path, LogConfig())
    with folder:
        write(log, b"x")
        log.configure(config)
        log.append_marker(
            TransactionEnd(EndMarker(True, 0), 2),
            producer_id=7,
            producer_epoch=1,
            now_ms=NOW + 5,
        )
        data = log.read(1, 1000, at_least_one=True)
        assert data.ranges is not None
        header = scan(data.ranges.read())[0]
        assert (header.control, header.compression, header.max_timestamp) == (True, 0, NOW + 5)
        assert header.log_append_time == (config.timestamp_type == "LogAppendTime")
        assert header == read_header(data.ranges.read())
        assert values(log) == [b"x"]
