"""Notes of a start: whole or not at all, and found out once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.pipeline.spark.steps.notes import noted


def test_a_note_is_found_out_once(tmp_path: Path) -> None:
    path = tmp_path / "query" / "ids.taken.json"
    assert noted(path, lambda: "latest", str) == "latest"
    assert noted(path, lambda: "earliest", str) == "latest"
    assert [each.name for each in path.parent.iterdir()] == ["ids.taken.json"]


def test_who_is_killed_while_writing_leaves_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ids.taken.json"

    def killed(_descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            noted(path, lambda: [1], list[int])
    assert not path.exists(), "it is synced before it gets its name"
    assert noted(path, lambda: [2], list[int]) == [2]


@pytest.mark.parametrize("content", [b"", b"[", b'{"a": 1}', b"\xff"])
def test_a_note_that_cannot_be_read_is_found_out_again(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ids.taken.json"
    path.write_bytes(content)
    assert noted(path, lambda: [3], list[int]) == [3]
    assert noted(path, lambda: [4], list[int]) == [3]
    assert "cannot be read" in caplog.text
