"""The Delta log, in a folder and in a bucket: commits that are there whole or not at all, and damage that is
found.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.lake.delta_log import LAST_CHECKPOINT, LOG_FOLDER, VersionChangedError
from headrace.lake.location import Location
from headrace.lake.resuming import history
from tests.lake.stored_tables import StoredTable, checkpoint_name, commit_name

STATE = b"PAR1 state PAR1"


def test_a_commit_reads_back(table: StoredTable) -> None:
    assert not table.log.exists
    log = table.fill(1)
    info = {"operation": "RESTORE", "operationParameters": {"version": "0"}, "userMetadata": "note"}
    log.add_commit(1, info, [])
    commit = log.commit(1)
    assert commit is not None
    assert (commit.version, commit.operation, commit.user_metadata) == (1, "RESTORE", "note")
    assert commit.parameters == {"version": "0"}
    assert (commit.changes_definition, commit.changes_files) == (False, False)
    assert log.exists
    assert (log.versions(), log.newest_version()) == ([0, 1], 1)
    assert log.damage() is None


@pytest.mark.parametrize("action", ["metaData", "protocol"])
def test_a_commit_tells_whether_it_changes_the_table(table: StoredTable, action: str) -> None:
    log = table.fill(1)
    info = '{"commitInfo": {"operation": "SET TBLPROPERTIES"}}'
    table.put(commit_name(1), f'{{"{action}": {{}}}}\n{info}\n'.encode())
    first, second = log.commit(0), log.commit(1)
    assert first is not None
    assert second is not None
    assert (first.changes_definition, first.changes_files) == (False, True)
    assert (second.changes_definition, second.changes_files) == (True, False)


def test_a_version_that_exists_is_not_written_again(table: StoredTable) -> None:
    log = table.fill(2)
    before = table.read(commit_name(1))
    with pytest.raises(FileExistsError):
        log.add_commit(1, {"operation": "WRITE"}, [])
    assert table.read(commit_name(1)) == before
    assert table.names() == {f"{n:020d}.json" for n in range(2)}, "nothing else is left"


def test_of_many_writers_of_a_version_one_succeeds(table: StoredTable) -> None:
    table.fill(1)
    writers = 20
    for version in range(1, 4):
        together = threading.Barrier(writers)

        def write(number: int, version: int = version, together: threading.Barrier = together) -> int | None:
            log = table.log
            after = log.seen(version - 1)
            together.wait()
            try:
                seen = log.add_commit(version, {"operation": "WRITE", "writer": number}, [], after=after)
            except FileExistsError:
                return None
            assert seen == log.seen(version)
            return number

        with ThreadPoolExecutor(writers) as pool:
            (winner,) = [number for number in pool.map(write, range(writers)) if number is not None]
        assert table.log.actions(version)[0]["commitInfo"]["writer"] == winner


def test_two_writers_of_a_version_never_write_the_same_file(
    local_table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the one that links first would commit what the other has written."""
    log = local_table.fill(1)
    link, files = Path.hardlink_to, []

    def note(self: Path, target: Path) -> None:
        files.append(target)
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", note)
    log.add_commit(1, {"operation": "WRITE"}, [])
    with pytest.raises(FileExistsError):
        log.add_commit(1, {"operation": "WRITE"}, [])
    assert len(set(files)) == 2


def _put_aside(table: StoredTable) -> None:
    table.remove(commit_name(4))


def _written_over(table: StoredTable) -> None:
    """As Delta's log stores do if they looked before we committed."""
    table.remove(commit_name(4))
    table.put(commit_name(4), b'{"commitInfo": {"operation": "OPTIMIZE"}}\n')


def _replaced_by_an_older_copy(table: StoredTable) -> None:
    content = table.read(commit_name(3))
    for version in (3, 4):
        table.remove(commit_name(version))
    table.put(commit_name(3), content)


def _torn_predecessor(table: StoredTable) -> None:
    table.put(commit_name(4), b"")


Harm = Callable[[StoredTable], Location]


@pytest.mark.parametrize("harm", [_put_aside, _written_over, _replaced_by_an_older_copy, _torn_predecessor])
def test_a_commit_follows_only_the_version_that_was_seen(
    table: StoredTable, harm: Callable[[StoredTable], None]
) -> None:
    log = table.fill(5)
    seen = log.seen(4)
    harm(table)
    files = table.names()
    with pytest.raises(VersionChangedError, match="version 4"):
        log.add_commit(5, {"operation": "WRITE"}, [], after=seen)
    assert table.names() == files


def test_a_copy_renamed_over_the_version_that_was_seen_is_another(local_table: StoredTable) -> None:
    log = local_table.fill(5)
    seen = log.seen(4)
    local_table.put("theirs", local_table.read(commit_name(4)))
    (local_table.location.path / "theirs").rename(log.commit_file(4))
    with pytest.raises(VersionChangedError, match="version 4"):
        log.add_commit(5, {"operation": "WRITE"}, [], after=seen)


def test_a_version_that_only_a_checkpoint_has_can_be_followed(table: StoredTable) -> None:
    log = table.fill(2)
    table.put(checkpoint_name(1), STATE)
    table.remove(commit_name(1))
    second = log.add_commit(2, {"operation": "WRITE"}, [], after=log.seen(1))
    assert second == log.seen(2)
    log.add_commit(3, {"operation": "WRITE"}, [], after=second)
    assert log.damage() is None


@pytest.mark.parametrize("content", [b"", b'{"commitInfo": {"oper', b"\x00" * 50])
def test_a_torn_commit_that_a_checkpoint_stands_for_says_nothing(table: StoredTable, content: bytes) -> None:
    log = table.fill(3)
    table.put(commit_name(2), content)
    table.put(checkpoint_name(2), STATE)
    assert (log.damage(), log.commit(2)) == (None, None)
    assert list(history(log)) == []


def test_names_of_folders_are_escaped_in_the_log_only(table: StoredTable) -> None:
    log = table.fill(1)
    table.put("k=a b%2Fü/1.parquet", b"PAR1 rows PAR1")
    action = json.dumps({"add": {"path": "k=a%20b%252F%C3%BC/1.parquet", "size": 14, "dataChange": True}})
    log.add_commit(1, {"operation": "WRITE"}, [action])
    assert log.damage() is None
    table.remove("k=a b%2Fü/1.parquet")
    damage = log.damage()
    assert damage is not None
    assert damage.file == table.location / "k=a b%2Fü/1.parquet"


def test_data_files_are_synced_before_the_commit_has_its_name(
    local_table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, folder = local_table.fill(1), local_table.location.path
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((os.path.relpath(path, folder), Path(log.commit_file(1)).exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    log.add_commit(1, {"operation": "WRITE"}, [local_table.add_action("k=a/d=b/1.parquet")])
    before = {path for path, is_committed in synced if not is_committed}
    (unfinished,) = {path for path in before if path.startswith("_delta_log/")}
    assert unfinished.endswith(".unfinished")
    assert before == {"k=a/d=b/1.parquet", "k=a/d=b", "k=a", ".", unfinished}
    assert synced[-1] == ("_delta_log", True), "at last its name"


def test_only_an_empty_log_is_removed(table: StoredTable) -> None:
    files = table.log.files
    files.remove_empty(LOG_FOLDER)
    if table.client is None:
        table.put(f"{LOG_FOLDER}/.0.json.1.tmp", b"half")
        (table.location.path / LOG_FOLDER / "_staged_commits").mkdir()
    else:
        table.put(f"{LOG_FOLDER}/", b"")
        table.put(f"{LOG_FOLDER}/_staged_commits/", b"")
        assert list(files.below(""))
    files.remove_empty(LOG_FOLDER)
    assert list(files.below("")) == []
    if table.client is None:
        assert not table.location.path.exists()
    table.put(commit_name(0), b"{}")
    table.put("data.parquet", b"PAR1")
    files.remove_empty(LOG_FOLDER)
    assert len(list(files.below(""))) == 2


@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_full_disk_leaves_no_part_of_a_commit(
    local_table: StoredTable, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    log = local_table.fill(1)
    before = local_table.names()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, failing, full)
        with pytest.raises(OSError, match="No space left on device"):
            log.add_commit(1, {"operation": "WRITE"}, [], after=log.seen(0))
    assert local_table.names() == before
    log.add_commit(1, {"operation": "WRITE"}, [], after=log.seen(0))
    assert log.versions() == [0, 1]


def test_a_checkpoint_is_synced_with_its_names(
    local_table: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = local_table.fill(2)
    for part in (".0000000001.0000000002", ".0000000002.0000000002"):
        local_table.put(checkpoint_name(1, part), STATE)
    local_table.put(f"{LOG_FOLDER}/{LAST_CHECKPOINT}", b"{}")
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    log.sync_checkpoint(1)
    assert sorted(synced[:-1]) == sorted(name for name in local_table.names() if "checkpoint" in name)
    assert synced[-1] == "_delta_log"


def _empty(table: StoredTable) -> Location:
    table.put(commit_name(2), b"")
    return table.location / commit_name(2)


def _torn(table: StoredTable) -> Location:
    table.put(commit_name(2), table.read(commit_name(2))[:-9])
    return table.location / commit_name(2)


def _zeroes(table: StoredTable) -> Location:
    table.put(commit_name(2), b"\x00" * 400)
    return table.location / commit_name(2)


def _missing(table: StoredTable) -> Location:
    table.remove(commit_name(1))
    return table.location / commit_name(1)


def _empty_data(table: StoredTable) -> Location:
    table.put("k=a/2.parquet", b"")
    return table.location / "k=a/2.parquet"


def _data_of_zeroes(table: StoredTable) -> Location:
    table.put("k=a/2.parquet", b"\x00" * len(table.read("k=a/2.parquet")))
    return table.location / "k=a/2.parquet"


def _missing_data(table: StoredTable) -> Location:
    table.remove("k=a/1.parquet")
    return table.location / "k=a/1.parquet"


def _torn_checkpoint(table: StoredTable) -> Location:
    table.put(checkpoint_name(1), b"PAR1 half")
    return table.location / checkpoint_name(1)


def _empty_checkpoint(table: StoredTable) -> Location:
    table.put(checkpoint_name(1), b"")
    return table.location / checkpoint_name(1)


DAMAGES = [
    *(_empty, _torn, _zeroes, _missing, _empty_data, _data_of_zeroes, _missing_data),
    *(_torn_checkpoint, _empty_checkpoint),
]


@pytest.mark.parametrize("harm", DAMAGES)
def test_damage_is_found_with_its_file(table: StoredTable, harm: Harm) -> None:
    log = table.fill(3)
    file = harm(table)
    damage = log.damage()
    assert damage is not None
    assert damage.file == file
    assert damage.reason


def test_a_removed_data_file_is_no_damage(table: StoredTable) -> None:
    log = table.fill(2)
    table.put(commit_name(2), b'{"remove": {"path": "k=a/0.parquet"}}\n')
    table.remove("k=a/0.parquet")
    assert log.damage() is None


def test_files_can_be_replaced_by_others_in_one_commit(table: StoredTable) -> None:
    log = table.fill(2)
    remove = json.dumps({"remove": {"path": "k=a/0.parquet", "dataChange": False}})
    log.add_commit(2, {"operation": "OPTIMIZE"}, [remove, table.add_action("k=a/merged.parquet")])
    table.remove("k=a/0.parquet")
    assert log.damage() is None
    commit = log.commit(2)
    assert commit is not None
    assert (commit.operation, commit.changes_files) == ("OPTIMIZE", True)


def test_what_a_checkpoint_stands_for_is_not_needed(table: StoredTable) -> None:
    log = table.fill(3)
    table.put(checkpoint_name(1), STATE)
    table.remove(commit_name(0))
    table.put(commit_name(1), b"")
    assert log.damage() is None
    # So that whoever asks what it said goes on without.
    assert log.commit(1) is None
