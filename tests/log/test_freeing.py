"""Removing files: the name is gone at once, and the space of a large file soon after."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from headrace.log.filesystem import OperatingSystem
from headrace.log.freeing import LARGE


def open_files(path: Path) -> list[str]:
    """The descriptors of this process for a file that had this name."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = str(each.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


@pytest.mark.parametrize("size", [0, 100, LARGE, 20 * LARGE])
def test_a_file_is_gone(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    for _ in range(3):
        with path.open("wb") as file:
            file.truncate(size)
        OperatingSystem().unlink(str(path))
        assert not path.exists()
    deadline = time.monotonic() + 120
    while open_files(path) or any(thread.name == "freeing files" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "its room is never given back"
        time.sleep(0.001)


def test_what_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OperatingSystem().unlink(str(tmp_path / "nothing"))
    with pytest.raises(OSError):  # noqa: PT011 - systems differ in which one it is
        OperatingSystem().unlink(str(tmp_path))
    assert open_files(tmp_path) == []
