"""The file connectors, line by line, without a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.allowed_folders import AllowedFolders
from headrace.connect.connectors.file_sink import FileSinkTask
from headrace.connect.connectors.file_source import FileSourceTask
from headrace.connect.connectors.files import AnyFile
from headrace.connect.data import SinkRecord


class Context:
    """Of a task that nobody stops."""

    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        self.offset = offset

    def wait(self, _seconds: float) -> bool:
        return False

    def source_offset(self, _partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.offset

    def report(self, _record: SinkRecord, error: Exception) -> None:
        raise error


def source(folder: Path, offset: Mapping[str, Any] | None = None, **config: str) -> FileSourceTask:
    task = FileSourceTask(AnyFile(folder))
    task.start({"file": "in.txt", "topic": "t", **config}, Context(offset))
    return task


def polled(task: FileSourceTask) -> list[tuple[Any, int]]:
    return [(record.value, (record.source_offset or {})["position"]) for record in task.poll()]


def append(folder: Path, data: bytes) -> None:
    with (folder / "in.txt").open("ab") as file:
        file.write(data)


def test_a_file_that_comes_later_and_grows(tmp_path: Path) -> None:
    task = source(tmp_path)
    assert polled(task) == []
    append(tmp_path, b"one\ntw")
    assert polled(task) == [("one", 4)]
    assert polled(task) == []
    append(tmp_path, b"o\r\nthree\rfour\r")
    assert polled(task) == [("two", 9), ("three", 15)]
    append(tmp_path, b"\n\nsix\n")
    assert polled(task) == [("four", 21), ("", 22), ("six", 26)]
    task.stop()


def test_it_goes_on_behind_its_offset_in_any_text(tmp_path: Path) -> None:
    append(tmp_path, "äöü\n漢字\nend\n".encode())
    first = source(tmp_path, batch_size="1", **{"batch.size": "1"})
    ((value, position),) = polled(first)
    assert value == "äöü"
    assert polled(source(tmp_path, {"position": position})) == [("漢字", 14), ("end", 18)]


def test_batches_have_a_size(tmp_path: Path) -> None:
    append(tmp_path, b"".join(b"%d\n" % number for number in range(5000)))
    task = source(tmp_path, **{"batch.size": "1000"})
    sizes = [len(task.poll()) for _ in range(6)]
    assert sizes == [1000] * 5 + [0]


def test_bytes_that_are_no_text_and_lines_without_end(tmp_path: Path) -> None:
    append(tmp_path, b"\xff\xfe\n")
    assert polled(source(tmp_path)) == [("\ufffd\ufffd", 3)]
    append(tmp_path, b"x" * 9_000_000)
    with pytest.raises(ValueError, match="longer than"):
        source(tmp_path).poll()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.txt")
    with pytest.raises(OSError, match="not a regular file"):
        source(tmp_path).poll()


def test_the_sink_appends_lines(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("before\n", encoding="utf-8")
    task = FileSinkTask(AnyFile(tmp_path))
    task.start({"file": "out.txt"}, Context())
    values = ["text", None, 1.5, {"a": [1, True]}, "ä"]
    task.put([SinkRecord(topic="t", partition=0, offset=n, value=each) for n, each in enumerate(values)])
    task.flush()
    task.stop()
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["before", "text", "null", "1.5", "{a=[1, true]}", "ä"]


def test_a_sink_into_a_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Couldn't find or create file"):
        FileSinkTask(AnyFile(tmp_path)).start({"file": "."}, Context())


def test_a_file_that_is_shortened_is_read_again(tmp_path: Path) -> None:
    append(tmp_path, b"one\ntwo\nthr")
    task = source(tmp_path)
    assert polled(task) == [("one", 4), ("two", 8)]
    (tmp_path / "in.txt").write_bytes(b"new\n")
    assert polled(task) == []
    assert polled(task) == [("new", 4)]
    # Also while no task ran.
    task = source(tmp_path, {"position": 100})
    assert polled(task) == []
    assert polled(task) == [("new", 4)]


def test_a_renamed_file_is_finished_before_the_one_in_its_place(tmp_path: Path) -> None:
    append(tmp_path, b"one\n")
    task = source(tmp_path)
    assert polled(task) == [("one", 4)]
    old = (tmp_path / "in.txt").rename(tmp_path / "in.txt.1")
    assert polled(task) == []
    with old.open("ab") as file:
        file.write(b"two\nrest")
    append(tmp_path, b"a\nb\nc\nlonger than the other\n")
    assert polled(task) == [("two", 8)]
    # The record without an end is the last of the former file: after it, the new one begins.
    assert polled(task) == [("rest", 0)]
    assert [value for value, _ in polled(task)] == ["a", "b", "c", "longer than the other"]
    assert polled(task) == []


def test_a_sink_begins_a_new_line_after_a_torn_one(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_bytes(b'{"torn')
    for value in ("one", "two"):
        task = FileSinkTask(AnyFile(tmp_path))
        task.start({"file": "out.txt"}, Context())
        task.put([SinkRecord(topic="t", partition=0, offset=0, value=value)])
        task.stop()
    assert (tmp_path / "out.txt").read_bytes() == b'{"torn\none\ntwo\n'


def test_the_folder_of_a_new_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    (tmp_path / "files").mkdir()
    inside = AllowedFolders([tmp_path / "files"], data_dir=tmp_path)
    for files, folder in ((AnyFile(tmp_path), tmp_path), (inside, tmp_path / "files")):
        files.open_appending("out.txt").close()
        assert synced.pop() == folder.stat().st_ino
