"""Rounds of cleaning on real logs: what is left, and what readers and producers notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.log.compaction.cleaner import Cleaner, CleanerSettings
from headrace.log.compaction.cleaning_task import CleaningTask, Pace, RoundDone
from headrace.log.compaction.last_records import BYTES_PER_KEY
from headrace.log.compaction.segment_rewriting import Round
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.segments.swap_files import CleanedSegment
from headrace.log.segments.transaction_index import AbortedTransaction
from headrace.wire.control_batches import EndMarker, build_end_marker
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import (
    DELETE_HORIZON,
    append,
    clean,
    compact_config,
    headers_of,
    keyed,
    names_in,
    offsets_of,
    records_of,
    write,
)

CONFIG = compact_config()


def reopened(folder: DataFolder, log: PartitionLog) -> tuple[DataFolder, PartitionLog]:
    folder.close()
    return open_log(Path(folder.path), log.config)


@pytest.mark.parametrize("compression", range(5))
def test_the_last_record_of_each_key_is_left(tmp_path: Path, compression: int) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(30):
        append(
            log,
            (b"k%d" % (number % 4), b"v%d" % number),
            (b"once%d" % number, b"w%d" % number),
            (b"same", bytes(number)),
            timestamps=[NOW + number, NOW + number + 100, NOW - 5],
            compression=compression,
            headers=((b"h", b"%d" % number),),
        )
    before = records_of(log)
    end, size = log.end_offset, log.size_bytes
    assert clean(folder, log)
    last = {record.key: record for record in before}
    left = sorted(last.values())
    assert records_of(log) == left
    assert records_of(log, max_bytes=1) == left
    assert (log.start_offset, log.end_offset) == (0, end)
    assert log.size_bytes == sum(segment.size for segment in log.segments) < size
    assert folder.cleaned_offset(log) == log.segments.active.base_offset
    assert not clean(folder, log)
    codecs = {header.compression for header in headers_of(log) if header.record_count}
    assert codecs == {compression}
    for record in left:
        found = log.offset_for_timestamp(record.timestamp)
        first = next(each for each in left if each.timestamp >= record.timestamp)
        assert found is not None
        assert found[:2] == (first.timestamp, first.offset)
    assert log.offset_for_timestamp(NOW + 10_000) is None
    folder, log = reopened(folder, log)
    assert records_of(log) == left
    assert (log.start_offset, log.end_offset) == (0, end)
    append(log, (b"same", b"newest"))
    assert clean(folder, log)
    assert records_of(log)[:-1] == [record for record in left if record.key != b"same"]
    folder.close()


def test_the_last_segment_is_not_cleaned(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(3):
        append(log, (b"k", b"%d" % number))
    log.flush()
    assert not Cleaner(folder).clean(NOW)
    log.roll(now_ms=NOW)
    append(log, (b"k", b"new"), (b"k", b"newer"))
    log.flush()
    assert Cleaner(folder).clean(NOW)
    assert offsets_of(log) == [2, 3, 4]
    folder.close()


def test_a_record_stays_while_its_successor_is_not_synced(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    append(log, (b"k", b"old"))
    log.flush()
    append(log, (b"k", b"new"))
    log.roll(now_ms=NOW)
    cleaner = Cleaner(folder)
    assert not cleaner.clean(NOW)
    # It asks for the missing sync.
    folder.checkpoint(NOW)
    folder._upkeep._in_background().submit(lambda: None).result()
    folder.checkpoint(NOW)
    assert cleaner.clean(NOW)
    assert offsets_of(log) == [1]
    folder.close()


def test_tombstones_stay_until_their_horizon(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", compact_config(delete_retention_ms=5000))
    append(log, (b"a", b"1"), (b"b", b"2"))
    append(log, (b"a", None), (b"c", b"3"), timestamps=[NOW - 70, NOW - 60])
    assert clean(folder, log, NOW)
    assert [record[:4] for record in records_of(log)] == [
        (1, NOW, b"b", b"2"),
        (2, NOW - 70, b"a", None),
        (3, NOW - 60, b"c", b"3"),
    ]
    header = headers_of(log)[-1]
    assert header.attributes & DELETE_HORIZON
    assert (header.base_timestamp, header.max_timestamp) == (NOW + 5000, NOW - 60)
    append(log, (b"x", b"4"))
    assert clean(folder, log, NOW + 4999)
    assert offsets_of(log) == [1, 2, 3, 4]
    # The horizon stays that of the first round.
    assert headers_of(log)[1].base_timestamp == NOW + 5000
    folder, log = reopened(folder, log)
    append(log, (b"y", b"5"))
    assert clean(folder, log, NOW + 5000)
    assert [record[:4] for record in records_of(log)] == [
        (1, NOW, b"b", b"2"),
        (3, NOW - 60, b"c", b"3"),
        (4, NOW, b"x", b"4"),
        (5, NOW, b"y", b"5"),
    ]
    assert headers_of(log)[1].base_timestamp == NOW + 5000
    folder.close()


def test_small_segments_become_one(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", compact_config(segment_bytes=2000))
    for number in range(40):
        append(log, (b"k%d" % (number % 30), b"v" * 50))
        if number % 3 == 2:
            log.roll(now_ms=NOW)
    before = len(log.segments)
    assert clean(folder, log)
    assert before == 14
    assert len(log.segments) == 4
    assert all(segment.size <= 2000 for segment in log.segments)
    assert log.segments.bases == [segment.base_offset for segment in log.segments]
    folder.checkpoint(NOW)
    folder.checkpoint(NOW)
    stems = {name[:20] for name in names_in(log) if name.endswith((".log", ".index", ".timeindex"))}
    assert stems == {f"{base:020d}" for base in log.segments.bases}
    assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert offsets_of(log) == list(range(10, 40))
    folder, log = reopened(folder, log)
    assert offsets_of(log) == list(range(10, 40))
    folder.close()


def test_the_last_batch_of_a_round_stays_even_if_it_is_empty(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", compact_config(delete_retention_ms=0))
    append(log, (b"k", b"1"))
    append(log, (b"k", None))
    assert clean(folder, log, NOW)
    append(log, (b"j", None))
    assert clean(folder, log, NOW + 1)
    append(log, (b"i", b"3"))
    assert clean(folder, log, NOW + 2)
    assert offsets_of(log) == [3]
    append(log, (b"i", None))
    assert clean(folder, log, NOW + 3)
    log.flush()
    # Nothing is dirty, so the tombstone's time does not matter.
    assert not Cleaner(folder).clean(NOW + 10)
    end = log.end_offset
    folder.close()
    (tmp_path / "data" / "cleaner-offset-checkpoint").unlink()
    folder, log = reopened(folder, log)
    assert Cleaner(folder).clean(NOW + 10)
    assert [(header.next_offset, header.record_count) for header in headers_of(log)] == [(end, 0)]
    folder, log = reopened(folder, log)
    assert (log.end_offset, offsets_of(log)) == (end, [])
    folder.close()


def test_producers_are_known_as_before(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(5):
        fields = {"producer_id": 7, "producer_epoch": 1, "sequence": number}
        append(log, (b"k", b"%d" % number), **fields)
    append(log, (b"k", b"other"), producer_id=8, producer_epoch=0, sequence=0)
    append(log, (b"k", b"last"))
    assert clean(folder, log)
    assert offsets_of(log) == [6]
    assert [(header.base_offset, header.record_count, header.producer_id) for header in headers_of(log)] == [
        (4, 0, 7),
        (5, 0, 8),
        (6, 1, -1),
    ]
    empty = headers_of(log)[0]
    assert (empty.base_sequence, empty.producer_epoch, empty.max_timestamp) == (4, 1, NOW)
    log.parts.snapshots.found([])
    for path in Path(log.path).glob("*.snapshot"):
        path.unlink()
    folder.abandon()
    (tmp_path / "data" / "written-points.json").unlink()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    folder, log = open_log(tmp_path / "data", CONFIG)
    again = log.append(keyed((b"k", b"4"), producer_id=7, producer_epoch=1, sequence=4), now_ms=NOW)
    assert (again.duplicate, again.base_offset) == (True, 4)
    append(log, (b"k", b"5"), producer_id=7, producer_epoch=1, sequence=5)
    assert clean(folder, log)
    # The producer has written more since.
    assert [header.base_offset for header in headers_of(log)] == [5, 7]
    folder.close()


def test_aborted_records_go_and_their_marker_after_them(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", compact_config(delete_retention_ms=100))
    transaction: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    append(log, (b"first", b"plain"))
    write(log, keyed((b"a", b"committed"), sequence=0, **transaction))
    end_transaction(log, committed=True)
    write(log, keyed((b"a", b"aborted"), (b"b", b"aborted"), sequence=1, **transaction))
    end_transaction(log, committed=False)
    write(log, keyed((b"c", b"committed"), sequence=3, **transaction))
    end_transaction(log, committed=True)
    append(log, (b"z", b"plain"))
    aborted = AbortedTransaction(7, 3, 5, 6)

    def clean_at(now_ms: int) -> list[tuple[int, int]]:
        log.roll(now_ms=now_ms)
        log.flush()
        assert Cleaner(folder, aborted_in=lambda *_: [aborted]).clean(now_ms)
        return [(header.base_offset, header.record_count) for header in headers_of(log)]

    assert clean_at(NOW) == [(0, 1), (1, 1), (2, 1), (5, 1), (6, 1), (7, 1), (8, 1)]
    index = Path(log.path, f"{log.segments.bases[0]:020d}.txnindex").read_bytes()
    assert len(index) == 34
    # The round before removed all of its records: now its marker waits as a tombstone does.
    append(log, (b"y", b"plain"))
    assert len(clean_at(NOW + 1)) == 8
    marker = next(header for header in headers_of(log) if header.base_offset == 5)
    assert (marker.attributes & DELETE_HORIZON, marker.base_timestamp) == (DELETE_HORIZON, NOW + 101)
    append(log, (b"x", b"plain"))
    assert [offset for offset, _ in clean_at(NOW + 101)] == [0, 1, 2, 6, 7, 8, 9, 10]
    assert offsets_of(log) == [0, 1, 6, 8, 9, 10]
    folder.close()


def end_transaction(log: PartitionLog, *, committed: bool) -> None:
    write(
        log,
        build_end_marker(EndMarker(committed, 0), producer_id=7, producer_epoch=0, timestamp=NOW),
    )


def test_readers_of_replaced_segments_finish(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(20):
        append(log, (b"k", b"%d" % number))
    result = log.read(0, 1 << 20, at_least_one=True)
    assert result.ranges is not None
    before = result.ranges.read()
    assert clean(folder, log)
    folder.checkpoint(NOW)
    folder.checkpoint(NOW)
    assert not [name for name in names_in(log) if name.endswith(".deleted")]
    assert result.ranges.read() == before
    folder.close()


def test_room_for_few_keys_means_more_rounds(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(60):
        append(log, (b"k%d" % (number % 20), b"v"))
    log.roll(now_ms=NOW)
    log.flush()
    cleaner = Cleaner(folder, CleanerSettings(key_memory_bytes=7 * BYTES_PER_KEY))
    rounds = 0
    reached = 0
    while cleaner.clean(NOW):
        rounds += 1
        cleaned = folder.cleaned_offset(log)
        assert cleaned is not None
        assert reached < cleaned <= 60
        reached = cleaned
    assert reached == 60
    assert rounds == 9
    assert offsets_of(log) == list(range(40, 60))
    folder.close()


def test_compact_and_delete_together(tmp_path: Path) -> None:
    config = compact_config(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    folder, log = open_log(tmp_path / "data", config)
    for number in range(10):
        append(log, (b"old%d" % number, b"v"), (b"k", b"v"), timestamps=[NOW - 5000] * 2)
    log.roll(now_ms=NOW)
    for number in range(10):
        append(log, (b"new%d" % number, b"v"), (b"k", b"v"))
    assert clean(folder, log)
    assert len(records_of(log)) == 21
    folder.housekeep(NOW)
    assert {record.key for record in records_of(log)} == {b"k", *(b"new%d" % number for number in range(10))}
    append(log, (b"k", b"last"))
    assert clean(folder, log)
    assert len(records_of(log)) == 11
    folder.close()


def test_segments_that_go_during_a_round_are_not_brought_back(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(30):
        append(log, (b"k%d" % (number % 3), b"v" * 30))
    log.roll(now_ms=NOW)
    log.flush()
    cleaner = Cleaner(folder)
    job = cleaner.begin(NOW)
    assert job is not None
    assert cleaner.begin(NOW) is None
    said = list(carried_out(job.task, folder))
    log.delete_records_before(12)
    assert cleaner.take(job, said[0], now_ms=NOW) is False
    assert not cleaner.busy
    assert cleaner.take(job, said[-1], now_ms=NOW) is False
    cleaner.tidy(job)
    assert offsets_of(log) == list(range(12, 30))
    assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap"))]
    assert cleaner.clean(NOW)
    assert offsets_of(log) == [27, 28, 29]
    folder.close()


def test_a_segment_that_loses_nothing_is_not_written(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_bytes=4000)
    folder, log = open_log(tmp_path / "data", config)
    for number in range(200):
        append(log, (b"once%d" % number, bytes(40)))
    assert clean(folder, log)
    before = {name: (Path(log.path) / name).stat().st_ino for name in names_in(log) if name.endswith(".log")}
    assert len(before) > 3
    # This supersedes a record in the second half of one segment; the neighbouring segments stay.
    append(log, (b"once50", b"new"))
    log.roll(now_ms=NOW)
    log.flush()
    job = Cleaner(folder).begin(NOW)
    assert job is not None
    said = list(carried_out(job.task, folder))
    done = said[-1]
    assert isinstance(done, RoundDone)
    assert 0 < done.bytes_written < 3 * config.segment_bytes
    assert clean(folder, log, roll=False)
    assert offsets_of(log) == [offset for offset in range(201) if offset != 50]
    after = {name: (Path(log.path) / name).stat().st_ino for name in names_in(log) if name.endswith(".log")}
    rewritten = {name for name, number in before.items() if after.get(name) != number}
    assert 1 <= len(rewritten) <= 3
    folder, log = reopened(folder, log)
    assert offsets_of(log) == [offset for offset in range(201) if offset != 50]
    folder.close()


def carried_out(task: CleaningTask, folder: DataFolder) -> Iterator[CleanedSegment | RoundDone]:
    return Round(task, folder.filesystem, Pace(1e300, lambda: 0.0, lambda _: None)).run()
