"""Notes of a start: whole or not at all, and found out once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.spark.steps.notes import noted


def test_a_note_is_found_out_once(tmp_path: Path) -> None:
    path = tmp_path / "query" / "ids.taken.json"
    assert noted(path, lambda: b"latest") == b"latest"
    assert noted(path, lambda: b"earliest") == b"latest"
    assert [each.name for each in path.parent.iterdir()] == ["ids.taken.json"]


def test_who_is_killed_while_writing_leaves_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ids.taken.json"

    def killed(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            noted(path, lambda: b"[]")
    assert noted(path, lambda: b"[1]") == b"[1]"
