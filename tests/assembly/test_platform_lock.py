"""One supervisor per data folder."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from headrace.assembly.announcements import announce, forget, latest
from headrace.assembly.platform_lock import PlatformLock, check_free, holder, lock_path
from headrace.assembly.platform_state import PlatformState, ProcessState, read_state, write_state
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings


def test_a_second_holder_is_refused_with_the_pid_of_the_first(settings: Settings) -> None:
    first = PlatformLock(settings)
    first.acquire()
    assert holder(settings) == os.getpid()
    with pytest.raises(HeadraceError, match=rf"in use by the platform with pid {os.getpid()}\.") as raised:
        PlatformLock(settings).acquire()
    assert raised.value.code == "data_dir_in_use"
    assert "headrace down" in raised.value.remedy
    with pytest.raises(HeadraceError, match=rf"pid {os.getpid()}\."):
        check_free(settings)
    first.release()
    check_free(settings)
    assert holder(settings) is None
    second = PlatformLock(settings)
    second.acquire()
    second.release()


def test_a_file_left_behind_locks_nothing(settings: Settings) -> None:
    lock_path(settings).parent.mkdir(parents=True)
    lock_path(settings).write_text("1\n", encoding="utf-8")
    assert holder(settings) is None
    lock = PlatformLock(settings)
    lock.acquire()
    assert holder(settings) == os.getpid()
    lock.release()


def test_a_folder_that_was_never_used_has_no_holder(settings: Settings) -> None:
    assert holder(settings) is None
    assert not lock_path(settings).exists()


def test_a_data_folder_that_cannot_be_made_is_said_so(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    inside_a_file = dataclasses.replace(settings, data_dir=tmp_path / "file" / "data")
    assert holder(inside_a_file) is None
    with pytest.raises(HeadraceError, match="Cannot write to") as raised:
        PlatformLock(inside_a_file).acquire()
    assert "--data-dir" in raised.value.remedy


def test_the_state_counts_only_while_its_writer_holds_the_lock(settings: Settings) -> None:
    running = ProcessState(name="log", state="running", pid=7, restarts=0, since=1.0, detail="")
    state = PlatformState(pid=os.getpid(), since=1.0, data_dir=str(settings.data_dir), processes=(running,))
    write_state(settings, state)
    assert read_state(settings) is None
    lock = PlatformLock(settings)
    lock.acquire()
    assert read_state(settings) == state
    assert state.all_running
    write_state(settings, dataclasses.replace(state, pid=1))
    read = read_state(settings)
    assert read is not None
    assert (read.pid, read.processes) == (os.getpid(), ())
    assert not read.all_running
    lock.release()


def test_an_announcement_is_replaced_whole_and_can_be_forgotten(settings: Settings) -> None:
    assert latest(settings, "log") is None
    announce(settings, "log", state="starting")
    announce(settings, "log", state="ready", detail="here")
    word = latest(settings, "log")
    assert word is not None
    assert (word.pid, word.state, word.detail) == (os.getpid(), "ready", "here")
    names = [path.name for path in (settings.data_dir / "run").iterdir()]
    assert names == ["log.json"]
    forget(settings, "log")
    forget(settings, "log")
    assert latest(settings, "log") is None
