"""Damaged checkpoints: what can still be gone on from, what is put aside, and copies that end earlier."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from headrace.pipeline.spark.stateful.checkpoint_files import (
    batches_in,
    copy_up_to,
    is_whole,
    positions_after,
    put_newest_aside,
    raise_positions,
)

LAST = 4


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark leaves it after batch 4, with a snapshot of version 3."""
    folder = tmp_path / "checkpoint"
    for name in (
        "offsets",
        "commits",
        "sources/0",
        "state/0/0/SSTs",
        "state/0/0/_metadata",
        "state/0/_metadata/v2/0",
    ):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"8b0e"}')
    (folder / "state/0/0/_metadata/schema").write_text("v3")
    (folder / "sources/0/0").write_text('\0v1\n{"in":{"0":0}}')
    (folder / "state/0/_metadata/v2/0/0").write_text("v2\n{}")
    for batch in range(LAST + 1):
        ranges = json.dumps({"in": {"0": 10 * (batch + 1)}})
        (folder / f"offsets/{batch}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{ranges}')
        (folder / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
        (folder / f"state/0/0/{batch + 1}.changelog").write_bytes(b"changes")
    (folder / "state/0/0/SSTs/1.sst").write_bytes(b"12345")
    table = {"localFileName": "1.sst", "dfsSstFileName": "1.sst", "sizeBytes": 5}
    with zipfile.ZipFile(folder / "state/0/0/3.zip", "w") as snapshot:
        snapshot.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [table], "numKeys": 1}))
    return folder


def sound(folder: Path) -> list[int]:
    return [batch for batch in range(LAST + 1) if is_whole(folder, batch)]


def test_an_undamaged_checkpoint_is_sound_behind_every_batch(checkpoint: Path) -> None:
    assert sound(checkpoint) == [0, 1, 2, 3, 4]
    assert positions_after(checkpoint, 4) == {"in": {0: 50}}
    assert put_newest_aside(checkpoint, checkpoint / "aside") == []


@pytest.mark.parametrize("content", ["", "v1", "v1\n", 'v1\n{"batchWatermarkMs":0}\n{"in":{"0"', "\0" * 90])
def test_a_range_that_is_cut_off_is_put_aside(checkpoint: Path, content: str) -> None:
    (checkpoint / "commits/4").unlink()
    (checkpoint / "offsets/4").write_text(content)
    assert put_newest_aside(checkpoint, checkpoint / "aside") == ["offsets/4"]
    assert batches_in(checkpoint / "offsets") == [0, 1, 2, 3]
    assert (checkpoint / "aside/offsets-4").read_text() == content
    assert sound(checkpoint) == [0, 1, 2, 3]


def test_a_commit_that_is_cut_off_is_put_aside_and_its_batch_repeated(checkpoint: Path) -> None:
    (checkpoint / "commits/4").write_text("")
    assert put_newest_aside(checkpoint, checkpoint / "aside") == ["commits/4"]
    assert batches_in(checkpoint / "offsets") == [0, 1, 2, 3, 4]
    assert batches_in(checkpoint / "commits") == [0, 1, 2, 3]


def test_a_lost_range_of_a_committed_batch_is_not_put_aside(checkpoint: Path) -> None:
    """Without it Spark would take an earlier range for that of the batch: the query must go back."""
    (checkpoint / "offsets/4").write_text("")
    assert put_newest_aside(checkpoint, checkpoint / "aside") == []
    assert sound(checkpoint) == [0, 1, 2, 3]


def test_a_topic_that_is_read_twice_has_its_lower_position(checkpoint: Path) -> None:
    (checkpoint / "offsets/4").write_text('v1\n{}\n{"in":{"0":7}}\n-\n{"in":{"0":5,"1":2}}')
    assert positions_after(checkpoint, 4) == {"in": {0: 5, 1: 2}}


def test_missing_changes_end_what_can_be_loaded_until_the_next_snapshot(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/2.changelog").write_bytes(b"")
    # Batch 2 leaves version 3, of which there is a snapshot.
    assert sound(checkpoint) == [0, 2, 3, 4]
    (checkpoint / "state/0/0/4.changelog").unlink()
    assert sound(checkpoint) == [0, 2]


@pytest.mark.parametrize("damage", ["empty", "cut off", "no table", "short table"])
def test_a_damaged_snapshot_does_not_count(checkpoint: Path, damage: str) -> None:
    snapshot, table = checkpoint / "state/0/0/3.zip", checkpoint / "state/0/0/SSTs/1.sst"
    (checkpoint / "state/0/0/1.changelog").unlink()
    assert sound(checkpoint) == [2, 3, 4]
    match damage:
        case "empty":
            snapshot.write_bytes(b"")
        case "cut off":
            snapshot.write_bytes(snapshot.read_bytes()[:-40])
        case "no table":
            table.unlink()
        case _:
            table.write_bytes(b"123")
    assert sound(checkpoint) == []


def test_without_its_metadata_a_checkpoint_is_lost(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("")
    assert sound(checkpoint) == []
    assert not is_whole(checkpoint, -1)


def test_empty_metadata_of_the_state_is_a_loss(checkpoint: Path) -> None:
    (checkpoint / "state/0/_metadata/v2/0/0").write_text("")
    assert sound(checkpoint) == []


def test_the_beginning_is_sound_if_nothing_is_there_or_the_first_positions_are(
    checkpoint: Path, tmp_path: Path
) -> None:
    assert is_whole(tmp_path / "nowhere", -1)
    assert is_whole(checkpoint, -1)
    (checkpoint / "sources/0/0").write_text("")
    assert not is_whole(checkpoint, -1)


def test_a_copy_ends_at_its_batch_and_shares_no_file_that_changes(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "commits/.5.tmp").write_text("unfinished")
    copy = tmp_path / "copy"
    copy_up_to(checkpoint, copy, 2)
    assert sound(copy) == [0, 1, 2]
    assert batches_in(copy / "offsets") == batches_in(copy / "commits") == [0, 1, 2]
    assert not (copy / "state/0/0/4.changelog").exists()
    assert not (copy / "commits/.5.tmp").exists()
    shutil.rmtree(checkpoint)
    assert sound(copy) == [0, 1, 2]


def test_a_copy_without_the_snapshots_of_later_batches(checkpoint: Path, tmp_path: Path) -> None:
    """A snapshot of a state that is given up must never be loaded."""
    copy_up_to(checkpoint, tmp_path / "copy", 1)
    assert not (tmp_path / "copy/state/0/0/3.zip").exists()
    assert sound(tmp_path / "copy") == [0, 1]


def test_a_store_without_files_is_a_loss(checkpoint: Path) -> None:
    (checkpoint / "state/0/1").mkdir()
    assert sound(checkpoint) == []


def test_each_store_of_a_join_counts(checkpoint: Path) -> None:
    for name in ("left-keyWithIndexToValue", "right-keyWithIndexToValue"):
        (checkpoint / "state/1/0" / name).mkdir(parents=True)
        for version in range(1, LAST + 2):
            (checkpoint / "state/1/0" / name / f"{version}.changelog").write_bytes(b"changes")
    assert sound(checkpoint) == [0, 1, 2, 3, 4]
    (checkpoint / "state/1/0/right-keyWithIndexToValue/4.changelog").unlink()
    assert sound(checkpoint) == [0, 1, 2]


def test_positions_that_have_expired_are_raised_in_a_copy_only(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "offsets/2").write_text('v1\n{"batchWatermarkMs":7}\n{"in":{"0":30,"1":8}}\n-')
    copy_up_to(checkpoint, tmp_path / "copy", 2)
    raise_positions(tmp_path / "copy", 2, {"in": {0: 25, 1: 9}, "other": {0: 5}})
    assert positions_after(tmp_path / "copy", 2) == {"in": {0: 30, 1: 9}}
    text = (tmp_path / "copy/offsets/2").read_text()
    assert text == 'v1\n{"batchWatermarkMs":7}\n{"in":{"0":30,"1":9}}\n-'
    assert positions_after(checkpoint, 2) == {"in": {0: 30, 1: 8}}


def test_partitions_that_were_added_begin_where_they_do_now(checkpoint: Path) -> None:
    """Spark would have them begin at 0, and fail."""
    (checkpoint / "offsets/2").write_text('v1\n{"batchWatermarkMs":7}\n{"in":{"0":30}}')
    raise_positions(checkpoint, 2, {"in": {0: 0, 1: 4, 2: 0}})
    assert positions_after(checkpoint, 2) == {"in": {0: 30, 1: 4}}
