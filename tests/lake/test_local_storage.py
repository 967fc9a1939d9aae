"""Files that were written and are taken back leave nothing, not even for those who write beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lake.storage.local import LocalFiles


def test_files_that_are_taken_back_leave_no_folders(tmp_path: Path) -> None:
    table = tmp_path / "table"
    files = LocalFiles(table)
    files.write("a=1/b=1/kept.parquet", memoryview(b"kept"))
    files.write("a=1/b=1/0.parquet", memoryview(b"0"))
    files.write("a=1/b=2/1.parquet", memoryview(b"1"))
    files.write("a=2/b=2/2.parquet", memoryview(b"2"))
    files.retract(["a=1/b=1/0.parquet", "a=1/b=2/1.parquet", "a=2/b=2/2.parquet", "a=3/never.parquet"])
    assert sorted(str(path.relative_to(table)) for path in table.rglob("*")) == [
        "a=1",
        "a=1/b=1",
        "a=1/b=1/kept.parquet",
    ]


def test_taking_back_the_last_file_leaves_the_table(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "table")
    files.write("0.parquet", memoryview(b"0"))
    files.retract(["0.parquet"])
    assert list(tmp_path.iterdir()) == [tmp_path / "table"]


def test_a_folder_can_vanish_before_a_file_is_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task has just taken back the last file in it."""
    open_file = Path.open
    vanished: list[Path] = []

    def open_late(path: Path, mode: str = "r", **more: Any) -> Any:
        if not vanished:
            vanished.append(path.parent)
            path.parent.rmdir()
        return open_file(path, mode, **more)

    monkeypatch.setattr(Path, "open", open_late)
    LocalFiles(tmp_path).write("a=1/0.parquet", memoryview(b"x"))
    assert vanished == [tmp_path / "a=1"]
    assert (tmp_path / "a=1/0.parquet").read_bytes() == b"x"
