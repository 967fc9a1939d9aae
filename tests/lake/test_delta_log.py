"""The Delta log on disk: commits that are there whole or not at all, and damage that is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.lake.delta_log import DeltaLog
from tests.lake.delta_folders import add_action, written_table


def test_a_commit_reads_back(tmp_path: Path) -> None:
    log = written_table(tmp_path, 1)
    info = {"operation": "RESTORE", "operationParameters": {"version": "0"}, "userMetadata": "note"}
    log.add_commit(1, info, [])
    commit = log.commit(1)
    assert commit is not None
    assert (commit.version, commit.operation, commit.user_metadata) == (1, "RESTORE", "note")
    assert commit.parameters == {"version": "0"}
    assert log.newest_version() == 1
    assert log.damage() is None


def test_of_two_writers_of_a_version_one_succeeds(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    before = log.commit_file(1).read_bytes()
    with pytest.raises(FileExistsError):
        log.add_commit(1, {"operation": "WRITE"}, [])
    assert log.commit_file(1).read_bytes() == before
    assert {file.name for file in log.folder.iterdir()} == {f"{n:020d}.json" for n in range(2)}


def test_data_files_are_synced_before_the_commit_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written_table(tmp_path, 1)
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((os.path.relpath(path, tmp_path), log.commit_file(1).exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    log.add_commit(1, {"operation": "WRITE"}, [add_action(tmp_path, "k=a/d=b/1.parquet")])
    before = {path for path, is_committed in synced if not is_committed}
    unfinished = "_delta_log/.00000000000000000001.json.unfinished"
    assert before == {"k=a/d=b/1.parquet", "k=a/d=b", "k=a", ".", unfinished}
    assert synced[-1] == ("_delta_log", True), "at last its name"


def _empty(log: DeltaLog) -> Path:
    file = log.commit_file(2)
    file.write_bytes(b"")
    return file


def _torn(log: DeltaLog) -> Path:
    file = log.commit_file(2)
    file.write_bytes(file.read_bytes()[:-9])
    return file


def _zeroes(log: DeltaLog) -> Path:
    file = log.commit_file(2)
    file.write_bytes(b"\x00" * 400)
    return file


def _missing(log: DeltaLog) -> Path:
    log.commit_file(1).unlink()
    return log.commit_file(1)


def _empty_data(log: DeltaLog) -> Path:
    file = log.folder.parent / "k=a" / "2.parquet"
    file.write_bytes(b"")
    return file


def _data_of_zeroes(log: DeltaLog) -> Path:
    file = log.folder.parent / "k=a" / "2.parquet"
    file.write_bytes(b"\x00" * file.stat().st_size)
    return file


def _missing_data(log: DeltaLog) -> Path:
    file = log.folder.parent / "k=a" / "1.parquet"
    file.unlink()
    return file


def _torn_checkpoint(log: DeltaLog) -> Path:
    file = log.folder / f"{1:020d}.checkpoint.parquet"
    file.write_bytes(b"PAR1 half")
    return file


DAMAGES = [_empty, _torn, _zeroes, _missing, _empty_data, _data_of_zeroes, _missing_data, _torn_checkpoint]


@pytest.mark.parametrize("harm", DAMAGES)
def test_damage_is_found_with_its_file(tmp_path: Path, harm: object) -> None:
    log = written_table(tmp_path, 3)
    assert callable(harm)
    file = harm(log)
    damage = log.damage()
    assert damage is not None
    assert damage.file == file
    assert damage.reason


def test_a_removed_data_file_is_no_damage(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    log.commit_file(2).write_text('{"remove": {"path": "k=a/0.parquet"}}\n')
    (tmp_path / "k=a" / "0.parquet").unlink()
    assert log.damage() is None


def test_what_a_checkpoint_stands_for_is_not_needed(tmp_path: Path) -> None:
    log = written_table(tmp_path, 3)
    (log.folder / f"{1:020d}.checkpoint.parquet").write_bytes(b"PAR1 state PAR1")
    log.commit_file(0).unlink()
    log.commit_file(1).write_bytes(b"")
    assert log.damage() is None
    # So that whoever asks what it said goes on without.
    assert log.commit(1) is None
