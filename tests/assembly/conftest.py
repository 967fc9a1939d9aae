"""What the tests of the supervisor share: fake processes, and a look that none of them is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.assembly.process_family import MARK
from headrace.core.settings import Settings
from tests.assembly.fakes import FakeProcesses, settings_in


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = settings_in(tmp_path)
    settings.data_dir.mkdir()
    yield settings
    left = marked_processes(settings)
    for process in left:
        process.kill()
    assert not left, "a test left processes behind"


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    return FakeProcesses(tmp_path / "fakes", monkeypatch)


def marked_processes(settings: Settings) -> list[psutil.Process]:
    """All processes that a supervisor of this data folder started, directly or not."""
    return [process for process in psutil.process_iter() if _is_of(process, settings)]


def _is_of(process: psutil.Process, settings: Settings) -> bool:
    try:
        return process.environ().get(MARK, "").endswith(f"@{settings.data_dir}")
    except psutil.Error:
        return False
