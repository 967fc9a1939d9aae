"""A crash at every step of a round: the log opens, nothing is lost, and the next round does the rest."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Literal

import pytest

from headrace.log.compaction.cleaner import Cleaner
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.segments.swap_files import SWAP
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import Kept, append, compact_config, headers_of, names_in, records_of

CONFIG = compact_config(segment_bytes=500, delete_retention_ms=10_000)
Ending = Literal["kill", "none", "some", "all"]


def fill(log: PartitionLog) -> list[Kept]:
    """Closed segments with superseded records, tombstones and a producer; what a round must retain."""
    for number in range(24):
        append(
            log,
            (b"k%d" % (number % 3), b"v%d" % number),
            (b"gone%d" % (number % 5), None if number > 16 else b"x"),
            (b"once%d" % number, b"y") if number % 8 == 0 else (b"k9", b"z"),
            producer_id=7,
            producer_epoch=0,
            sequence=number * 3,
        )
    log.roll(now_ms=NOW)
    append(log, (b"tail", b"t"))
    log.flush()
    return sorted({record.key: record for record in records_of(log)}.values())


def steps_of_a_round(path: Path) -> int:
    disk = FaultyFileSystem()
    folder, log = open_log(path, CONFIG, filesystem=disk)
    fill(log)
    before = disk.changes
    assert Cleaner(folder).clean(NOW)
    steps = disk.changes - before
    folder.close()
    return steps


@pytest.mark.parametrize("ending", ["kill", "none", "some", "all"])
def test_a_crash_at_every_step(tmp_path: Path, ending: Ending) -> None:
    steps = steps_of_a_round(tmp_path / "whole")
    assert steps > 30
    for step in range(1, steps + 2):
        disk = FaultyFileSystem(seed=step)
        path = tmp_path / f"{ending}-{step}"
        folder, log = open_log(path, CONFIG, filesystem=disk)
        left = fill(log)
        before = records_of(log)
        folder.checkpoint(NOW)
        disk.fail_from(step)
        Cleaner(folder).clean(NOW)
        # Readers notice nothing, however far the round got.
        during = records_of(log)
        assert set(left) <= set(during) <= set(before)
        if ending == "kill":
            disk = disk.kill()
        else:
            disk.power_loss(ending)
            disk = FaultyFileSystem(seed=step)
        folder, log = open_log(path, CONFIG, filesystem=disk)
        after = records_of(log)
        assert after == sorted(after)
        assert set(left) <= set(after) <= set(before)
        assert log.end_offset == before[-1].offset + 1
        assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap", ".deleted"))]
        known = log.parts.producers.get(7)
        assert known is not None
        assert known.batches[-1].last_sequence == 71
        log.flush()
        Cleaner(folder).clean(NOW + 1)
        assert records_of(log) == left
        for record in left:
            found = log.offset_for_timestamp(record.timestamp)
            assert found is not None
        folder.close()
        disk.end()


def test_a_crash_while_a_crash_is_recovered_from(tmp_path: Path) -> None:
    """The swap is committed, but not finished; opening the log is interrupted at every step, too."""
    for step in itertools.count(1):
        disk = FaultyFileSystem(seed=step)
        path = tmp_path / f"{step}"
        folder, log = open_log(path, CONFIG, filesystem=disk)
        left = fill(log)
        before = records_of(log)
        folder.checkpoint(NOW)
        stop_when_it_counts(disk)
        Cleaner(folder).clean(NOW)
        disk = disk.kill()
        names = [entry.name for entry in (path / "events-0").iterdir()]
        assert any(name.endswith(".log.swap") for name in names)
        disk.fail_from(step)
        try:
            folder, log = open_log(path, CONFIG, filesystem=disk)
        except Exception:  # any error counts as the end of the process
            disk = disk.kill()
            folder, log = open_log(path, CONFIG, filesystem=disk)
            finished = False
        else:
            disk.fail_from(None)
            finished = True
        assert set(left) <= set(records_of(log)) <= set(before)
        assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap", ".deleted"))]
        log.flush()
        Cleaner(folder).clean(NOW + 1)
        assert records_of(log) == left
        folder.close()
        disk.end()
        if finished:
            assert step > 3
            return


def stop_when_it_counts(disk: FaultyFileSystem) -> None:
    """Let everything fail after the rename that commits a swap."""
    rename = disk.rename

    def watching(source: str, target: str) -> None:
        rename(source, target)
        if target.endswith(".log.swap"):
            disk.fail_from(1)

    disk.rename = watching  # type: ignore[method-assign]


def test_renames_that_fail_leave_a_log_that_works(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", CONFIG, filesystem=disk)
    left = fill(log)
    before = records_of(log)
    stop_when_it_counts(disk)
    cleaner = Cleaner(folder)
    cleaner.clean(NOW)
    disk.fail_from(None)
    del disk.rename  # type: ignore[method-assign]
    assert any(segment.suffix == SWAP for segment in log.segments)
    assert set(left) <= set(records_of(log)) < set(before)
    # The renames wait for a restart; appends and reads continue.
    assert not cleaner.clean(NOW)
    append(log, (b"more", b"m"))
    held = records_of(log)
    folder.close()
    folder, log = open_log(tmp_path / "data", CONFIG)
    assert set(left) <= set(records_of(log))
    assert records_of(log)[-1] == held[-1]
    log.flush()
    assert Cleaner(folder).clean(NOW)
    assert records_of(log)[:-1] == left
    assert headers_of(log)[-1].next_offset == log.end_offset
    folder.close()
