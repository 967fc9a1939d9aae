"""Which log is cleaned, what keeps it from being cleaned, and at what pace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.log.compaction.cleaner import Cleaner
from headrace.log.compaction.cleaning_task import Pace
from headrace.log.errors import StorageError
from headrace.log.folder import checkpoints
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import (
    append,
    clean,
    compact_config,
    names_in,
    offsets_of,
    records_of,
)

CONFIG = compact_config()


def test_the_dirtiest_log_is_first(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    other = folder.create_topic("other", 1, {}, CONFIG).partitions[0]
    plain = folder.create_topic("plain", 1, {}, replace(CONFIG, cleanup_policy=frozenset({"delete"})))
    for each in (log, other, plain.partitions[0]):
        for number in range(10):
            append(each, (b"k", b"%d" % number))
        each.roll(now_ms=NOW)
        each.flush()
    cleaner = Cleaner(folder)
    assert cleaner.clean(NOW)
    assert cleaner.clean(NOW)
    assert not cleaner.clean(NOW)
    append(log, (b"k", b"x"))
    for number in range(4):
        append(other, (b"k", b"y%d" % number))
    for each in (log, other):
        each.roll(now_ms=NOW)
        each.flush()
    job = cleaner.begin(NOW)
    assert job is not None
    assert job.log is other
    assert len(offsets_of(plain.partitions[0])) == 10
    folder.close()


def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    other = folder.create_topic("other", 1, {}, CONFIG).partitions[0]
    for each in (log, other):
        for number in range(10):
            append(each, (b"k", b"%d" % number))
        each.roll(now_ms=NOW)
        each.flush()
    damaged = Path(log.segments[0].log_path)
    content = bytearray(damaged.read_bytes())
    content[65] ^= 1
    damaged.write_bytes(content)
    cleaner = Cleaner(folder)
    for _ in range(5):
        cleaner.clean(NOW)
    assert cleaner.left_alone == {log}
    assert offsets_of(other) == [9]
    assert damaged.read_bytes() == bytes(content)
    assert not [name for name in names_in(log) if name.endswith(".cleaned")]
    folder.close()


def test_a_full_disk_is_waited_out(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path / "data", CONFIG, filesystem=disk)
    for number in range(30):
        append(log, (b"k%d" % (number % 5), b"v" * 20))
    log.roll(now_ms=NOW)
    log.flush()
    before = records_of(log)
    cleaner = Cleaner(folder)
    disk.room = 0
    assert cleaner.clean(NOW)
    assert not cleaner.left_alone
    assert records_of(log) == before
    assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap"))]
    disk.room = None
    assert cleaner.clean(NOW)
    assert len(records_of(log)) == 5
    folder.close()


def test_a_topic_made_again_begins_dirty(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    append(log, (b"k", b"1"), (b"k", b"2"))
    assert clean(folder, log)
    assert folder.cleaned_offset(log) == 2
    folder.delete_topic("events")
    folder.create_topic("events", 1, {}, CONFIG)
    assert folder.cleaned_offset(folder.topics["events"].partitions[0]) is None
    text = (tmp_path / "data" / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n0\n"
    folder.close()


def test_holes_stay_when_a_topic_is_not_compacted_any_more(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", compact_config(segment_bytes=200))
    for number in range(30):
        append(log, (b"k%d" % (number % 2 + (number % 7 == 0) * number), b"v" * 20))
    assert clean(folder, log)
    append(log, (b"x", b"y"))
    log.flush()
    before = records_of(log)
    bases = log.segments.bases
    assert len(bases) > 3
    folder.abandon()
    (tmp_path / "data" / "written-points.json").unlink()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    folder, log = open_log(tmp_path / "data", replace(log.config, cleanup_policy=frozenset({"delete"})))
    assert (log.segments.bases, records_of(log)) == (bases, before)
    folder.close()


def test_a_cleaned_offset_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, log = open_log(tmp_path / "data", compact_config())

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoints, "write_cleaned_offsets", full)
    folder.set_cleaned_offset(log, 2)
    assert folder.cleaned_offset(log) == 2
    with pytest.raises(StorageError, match=r"cleaned offsets cannot be written: no space left"):
        folder.close()


def test_the_pace_of_reading_and_writing() -> None:
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(1000, lambda: now[0], sleep)
    for _ in range(10):
        pace.passed(500)
    assert sum(slept) == pytest.approx(5)
    now[0] += 60
    pace.passed(100)
    slept.clear()
    pace.passed(1000)
    # A minute of idle time does not count as credit.
    assert sum(slept) >= 0.9
