"""Which files a table has, and the files themselves, in a folder and in a bucket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.lake.delta_log import VersionChangedError
from headrace.lake.replacing import replace_files
from headrace.lake.table_state import TableState
from tests.lake.stored_tables import StoredTable, commit_name

_PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _names(state: TableState) -> set[str]:
    return set(state.files)


def test_it_follows_commits_and_knows_what_was_removed(table: StoredTable) -> None:
    log = table.fill(2)
    state = TableState(log, knows_removed=True)
    assert _names(state) == {"k=a/0.parquet", "k=a/1.parquet"}
    remove = json.dumps({"remove": {"path": "k=a/0.parquet", "deletionTimestamp": 7, "dataChange": False}})
    log.add_commit(2, {"operation": "OPTIMIZE"}, [remove, table.add_action("k=a/2.parquet")])
    state.follow()
    assert _names(state) == {"k=a/1.parquet", "k=a/2.parquet"}
    assert state.removed == {"k=a/0.parquet": 7}
    assert state.version == log.seen(2)


def test_a_file_that_is_removed_and_added_in_one_commit(table: StoredTable) -> None:
    """It got a deletion vector."""
    log = table.fill(1)
    add = json.loads(table.add_action("k=a/0.parquet"))["add"]
    lines = [
        {"commitInfo": {"operation": "DELETE"}},
        {"add": {**add, "deletionVector": {"storageType": "u"}}},
        {"remove": {"path": "k=a/0.parquet", "deletionTimestamp": 7, "dataChange": True}},
        _PROTOCOL,
    ]
    table.put(commit_name(1), "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    state = TableState(log, knows_removed=True)
    assert _names(state) == {"k=a/0.parquet"}
    assert state.removed == {}
    assert state.unsupported == "it has files with deletion vectors"


def test_a_commit_that_is_gone_or_another_one(table: StoredTable) -> None:
    log = table.fill(2)
    state = TableState(log)
    table.put(commit_name(1), b'{"commitInfo": {"operation": "WRITE", "of": "somebody else"}}\n')
    with pytest.raises(VersionChangedError):
        state.follow()
    table.remove(commit_name(1))
    with pytest.raises(VersionChangedError):
        state.follow()
    assert _names(TableState(log)) == {"k=a/0.parquet"}


def test_no_table(table: StoredTable) -> None:
    with pytest.raises(FileNotFoundError):
        TableState(table.log)


def _replace(table: StoredTable, state: TableState, *names: str, definition: int | None = None) -> int | None:
    arguments: dict[str, Any] = {"operation": "DELETE", "parameters": {}, "changes_data": True}
    wanted = state.definition if definition is None else definition
    old = [state.files[name] for name in names]
    return replace_files(table.log, state, old=old, definition=wanted, **arguments)


def test_files_are_replaced_behind_the_commits_of_others(table: StoredTable) -> None:
    log = table.fill(2)
    state = TableState(log)
    log.add_commit(2, {"operation": "WRITE"}, [table.add_action("k=a/2.parquet")])
    assert _replace(table, state, "k=a/0.parquet") == 3
    assert _names(state) == _names(TableState(log)) == {"k=a/1.parquet", "k=a/2.parquet"}


def test_nothing_is_replaced_if_the_files_or_the_columns_changed(table: StoredTable) -> None:
    log = table.fill(2)
    one, other = TableState(log), TableState(log)
    assert _replace(table, one, "k=a/0.parquet") == 2
    assert _replace(table, other, "k=a/0.parquet") is None
    third = TableState(log)
    table.put(commit_name(3), f"{json.dumps({'commitInfo': {}})}\n{json.dumps(_PROTOCOL)}\n".encode())
    assert _replace(table, third, "k=a/1.parquet") is None
    assert log.newest_version() == 3


def test_nothing_is_replaced_if_the_version_is_another_one(table: StoredTable) -> None:
    log = table.fill(2)
    state = TableState(log)
    table.remove(commit_name(1))
    assert _replace(table, state, "k=a/0.parquet") is None
    assert log.newest_version() == 0


def test_all_files_below_a_folder(table: StoredTable) -> None:
    table.fill(1)
    files = {file.name: file for file in table.log.files.below("")}
    assert set(files) == {"k=a/0.parquet", commit_name(0)}
    assert files["k=a/0.parquet"].size == len(b"PAR1 rows PAR1")
    assert files["k=a/0.parquet"].modified_ms > 1_700_000_000_000
    assert [file.name for file in table.log.files.below("k=a")] == ["k=a/0.parquet"]
    assert list(table.log.files.below("nothing")) == []
    table.log.files.delete(["k=a/0.parquet", "k=a/nothing.parquet"])
    assert list(table.log.files.below("k=a")) == []
