"""The Delta log on disk: commits that are there whole or not at all, and damage that is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.lake.delta_log import LAST_CHECKPOINT, DeltaLog, VersionChangedError
from headrace.lake.resuming import history
from tests.lake.delta_folders import add_action, written_table


def test_a_commit_reads_back(tmp_path: Path) -> None:
    log = written_table(tmp_path, 1)
    info = {"operation": "RESTORE", "operationParameters": {"version": "0"}, "userMetadata": "note"}
    log.add_commit(1, info, [])
    commit = log.commit(1)
    assert commit is not None
    assert (commit.version, commit.operation, commit.user_metadata) == (1, "RESTORE", "note")
    assert commit.parameters == {"version": "0"}
    assert (commit.changes_definition, commit.changes_files) == (False, False)
    assert log.newest_version() == 1
    assert log.damage() is None


@pytest.mark.parametrize("action", ["metaData", "protocol"])
def test_a_commit_tells_whether_it_changes_the_table(tmp_path: Path, action: str) -> None:
    log = written_table(tmp_path, 1)
    info = '{"commitInfo": {"operation": "SET TBLPROPERTIES"}}'
    log.commit_file(1).write_text(f'{{"{action}": {{}}}}\n{info}\n')
    first, second = log.commit(0), log.commit(1)
    assert first is not None
    assert second is not None
    assert (first.changes_definition, first.changes_files) == (False, True)
    assert (second.changes_definition, second.changes_files) == (True, False)


def test_of_two_writers_of_a_version_one_succeeds(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    before = log.commit_file(1).read_bytes()
    with pytest.raises(FileExistsError):
        log.add_commit(1, {"operation": "WRITE"}, [])
    assert log.commit_file(1).read_bytes() == before
    assert {file.name for file in log.folder.iterdir()} == {f"{n:020d}.json" for n in range(2)}


def test_two_writers_of_a_version_never_write_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the one that links first would commit what the other has written."""
    log = written_table(tmp_path, 1)
    link, files = Path.hardlink_to, []

    def note(self: Path, target: Path) -> None:
        files.append(target)
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", note)
    log.add_commit(1, {"operation": "WRITE"}, [])
    with pytest.raises(FileExistsError):
        log.add_commit(1, {"operation": "WRITE"}, [])
    assert len(set(files)) == 2


def _put_aside(log: DeltaLog) -> None:
    log.commit_file(4).unlink()


def _renamed_over(log: DeltaLog) -> None:
    """As Delta's LocalLogStore does if it looked before we linked."""
    theirs = log.folder / "theirs"
    theirs.write_bytes(log.commit_file(4).read_bytes())
    theirs.rename(log.commit_file(4))


def _replaced_by_an_older_copy(log: DeltaLog) -> None:
    content = log.commit_file(3).read_bytes()
    for version in (3, 4):
        log.commit_file(version).unlink()
    log.commit_file(3).write_bytes(content)


def _torn_predecessor(log: DeltaLog) -> None:
    log.commit_file(4).write_bytes(b"")


@pytest.mark.parametrize("harm", [_put_aside, _renamed_over, _replaced_by_an_older_copy, _torn_predecessor])
def test_a_commit_follows_only_the_version_that_was_seen(tmp_path: Path, harm: object) -> None:
    log = written_table(tmp_path, 5)
    seen = log.seen(4)
    assert callable(harm)
    harm(log)
    files = {file.name for file in log.folder.iterdir()}
    with pytest.raises(VersionChangedError, match="version 4"):
        log.add_commit(5, {"operation": "WRITE"}, [], after=seen)
    assert {file.name for file in log.folder.iterdir()} == files


def test_a_version_that_only_a_checkpoint_has_can_be_followed(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    (log.folder / f"{1:020d}.checkpoint.parquet").write_bytes(b"PAR1 state PAR1")
    log.commit_file(1).unlink()
    second = log.add_commit(2, {"operation": "WRITE"}, [], after=log.seen(1))
    assert second == log.seen(2)
    log.add_commit(3, {"operation": "WRITE"}, [], after=second)
    assert log.damage() is None


@pytest.mark.parametrize("content", [b"", b'{"commitInfo": {"oper', b"\x00" * 50])
def test_a_torn_commit_that_a_checkpoint_stands_for_says_nothing(tmp_path: Path, content: bytes) -> None:
    log = written_table(tmp_path, 3)
    log.commit_file(2).write_bytes(content)
    (log.folder / f"{2:020d}.checkpoint.parquet").write_bytes(b"PAR1 state PAR1")
    assert (log.damage(), log.commit(2)) == (None, None)
    assert list(history(log)) == []


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
    (unfinished,) = {path for path in before if path.startswith("_delta_log/")}
    assert unfinished.endswith(".unfinished")
    assert before == {"k=a/d=b/1.parquet", "k=a/d=b", "k=a", ".", unfinished}
    assert synced[-1] == ("_delta_log", True), "at last its name"


def test_a_checkpoint_is_synced_with_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written_table(tmp_path, 2)
    for part in ("0000000001.0000000002", "0000000002.0000000002"):
        (log.folder / f"{1:020d}.checkpoint.{part}.parquet").write_bytes(b"PAR1 state PAR1")
    (log.folder / LAST_CHECKPOINT).write_text("{}")
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    log.sync_checkpoint(1)
    assert sorted(synced[:-1]) == sorted(
        file.name for file in log.folder.iterdir() if "checkpoint" in file.name
    )
    assert synced[-1] == "_delta_log"


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
