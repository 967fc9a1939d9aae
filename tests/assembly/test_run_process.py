"""The entry of every supervised process: how it runs, how it fails, how it ends with its supervisor."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from headrace.assembly.announcements import latest
from headrace.assembly.process_family import MARK, kill_family, mark
from headrace.assembly.process_logging import SingleLineFormatter
from headrace.assembly.run_process import EXIT_FAILED, EXIT_HOPELESS, HOPELESS
from headrace.core.errors import HTTP_STATUS
from headrace.core.settings import Settings, to_environment
from tests.assembly.fakes import (
    CRASHING,
    GOOD,
    WITH_GRANDCHILD,
    FakeProcesses,
    grandchildren,
    is_running,
    wait_until,
)
from tests.assembly.fakes import (
    HOPELESS as HOPELESS_SOURCE,
)

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [\w.]+ .*")


def _command(name: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "headrace.assembly.run_process", name, "--module", f"fake_{name}", *more]


def _run(name: str, settings: Settings, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(name),
        env=os.environ | to_environment(settings) | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_code_that_run_returns_is_the_exit_code(settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("seven", "import sys\ndef run(settings):\n    print(settings.ingest_port)\n    return 7\n")
    result = _run("seven", settings)
    assert (result.returncode, result.stdout, result.stderr) == (7, f"{settings.ingest_port}\n", "")


def test_a_known_error_is_one_line_and_an_announcement(settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("hopeless", HOPELESS_SOURCE)
    result = _run("hopeless", settings)
    assert result.returncode == EXIT_HOPELESS
    assert LINE.fullmatch(result.stderr.strip())
    assert result.stderr.endswith("There is no Java. Install one.\n")
    word = latest(settings, "hopeless")
    assert word is not None
    assert (word.state, word.detail) == ("failed", "There is no Java. Install one.")


def test_an_error_that_may_pass_asks_for_a_restart(settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("unlucky", HOPELESS_SOURCE.replace("java_missing", "log_unavailable"))
    assert _run("unlucky", settings).returncode == EXIT_FAILED


def test_a_crash_is_one_line_with_its_traceback_and_an_announcement(
    settings: Settings, fakes: FakeProcesses
) -> None:
    fakes.spec("crashing", CRASHING)
    result = _run("crashing", settings)
    assert result.returncode == EXIT_FAILED
    assert LINE.fullmatch(result.stderr.strip())
    assert "Traceback" in result.stderr
    assert "fake_crashing.py" in result.stderr
    word = latest(settings, "crashing")
    assert word is not None
    assert (word.state, word.detail) == ("failed", "ValueError: nothing good")


def test_wrong_settings_are_one_line(settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("good", GOOD)
    result = _run("good", settings, HEADRACE_INGST_PORT="1")
    assert result.returncode == EXIT_HOPELESS
    assert LINE.fullmatch(result.stderr.strip())
    assert "HEADRACE_INGEST_PORT" in result.stderr


def test_hopeless_codes_are_in_the_table_of_errors() -> None:
    assert set(HTTP_STATUS).issuperset(HOPELESS)


def test_a_log_record_is_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("part", logging.ERROR, "", 0, "a\nb %s", ("c",), sys.exc_info())
    line = SingleLineFormatter().format(record)
    assert "\n" not in line
    assert LINE.fullmatch(line)
    assert "a | b c" in line
    assert "ValueError: two | lines" in line


@pytest.mark.parametrize("own_session", [True, False])
def test_a_process_and_all_it_started_end_with_the_supervisor(
    settings: Settings, fakes: FakeProcesses, own_session: bool
) -> None:
    fakes.spec("parent", WITH_GRANDCHILD, own_session=own_session)
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        _command("parent", "--supervisor-pipe", str(read_end)),
        env=os.environ | to_environment(settings) | {MARK: mark(settings.data_dir, "parent")},
        pass_fds=(read_end,),
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(read_end)
    try:
        wait_until(lambda: _is_ready(settings, "parent"), "the process is ready")
        (grandchild,) = grandchildren(settings)
        assert is_running(grandchild)
        os.close(write_end)
        _, errors = process.communicate(timeout=120)
        wait_until(lambda: not is_running(grandchild), "the grandchild is gone")
        assert "is gone" in errors
    finally:
        kill_family(process.pid, mark(settings.data_dir, "parent"))
        process.wait()


def test_a_family_is_killed_and_its_neighbours_are_not(settings: Settings, fakes: FakeProcesses) -> None:
    for name in ("one", "other"):
        fakes.spec(name, WITH_GRANDCHILD)
    families = {
        name: subprocess.Popen(
            _command(name),
            env=os.environ | to_environment(settings) | {MARK: mark(settings.data_dir, name)},
            start_new_session=True,
        )
        for name in ("one", "other")
    }
    try:
        wait_until(lambda: all(_is_ready(settings, name) for name in families), "both are ready")
        of_one = [child.pid for child in psutil.Process(families["one"].pid).children()]
        of_other = [child.pid for child in psutil.Process(families["other"].pid).children()]
        assert kill_family(families["one"].pid, mark(settings.data_dir, "one"))
        assert not any(is_running(pid) for pid in [families["one"].pid, *of_one])
        assert all(is_running(pid) for pid in [families["other"].pid, *of_other])
    finally:
        for name, process in families.items():
            kill_family(process.pid, mark(settings.data_dir, name))
            process.wait()


def test_a_member_without_an_environment_is_found_by_its_session(settings: Settings) -> None:
    script = (
        "import subprocess, time; "
        "child = subprocess.Popen(['sleep', '600'], env={}, process_group=0); "
        "print(child.pid, flush=True); time.sleep(600)"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    assert is_running(child)
    assert kill_family(leader.pid, mark(settings.data_dir, "leader"))
    assert not is_running(child)
    leader.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process ends with its first thread")
def test_a_process_whose_first_thread_has_ended_is_not_taken_for_dead(settings: Settings) -> None:
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    looks_dead = psutil.Process(process.pid)
    wait_until(lambda: looks_dead.status() == psutil.STATUS_ZOMBIE, "it looks like a zombie")
    assert process.poll() is None
    assert kill_family(process.pid, mark(settings.data_dir, "leader"))
    assert process.wait(timeout=120) == -signal.SIGKILL


def _is_ready(settings: Settings, name: str) -> bool:
    word = latest(settings, name)
    return word is not None and word.state == "ready"
