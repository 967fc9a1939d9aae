"""`headrace up`, `status` and `down` together, with small processes in place of the real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.assembly.platform_state import read_state
from headrace.assembly.supervisor import Supervisor
from headrace.cli.up import stop_on_signals
from headrace.core.settings import Settings, to_environment
from tests.assembly.conftest import fakes, marked_processes, settings
from tests.assembly.fakes import DEAF, GOOD, HOPELESS, FakeProcesses, is_running, wait_until

__all__ = ["fakes", "settings"]

# As `headrace up`, with other processes and without Java.
UP = """
import signal
import sys
from headrace.assembly.process_specs import ProcessSpec
from headrace.cli import main, up

# As in a terminal, also where the tests themselves run under nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
names = sys.argv.pop(1).split(",")
# Like the log, the first one is essential.
specs = [ProcessSpec(name=name, module=f"fake_{name}", essential=name == names[0]) for name in names]
up.start_platform = lambda settings: up.run_platform(settings, specs)
main.main()
"""
HEADRACE = "from headrace.cli.main import main; main()"


class Platform:
    """A `headrace up` under test, and the other commands on its data folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._environment = os.environ | to_environment(settings) | {"COLUMNS": "200"}
        self._started: list[subprocess.Popen[str]] = []

    def up(self, *names: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", UP, ",".join(names), "up"],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def is_up(self) -> bool:
        state = read_state(self._settings)
        return state is not None and state.all_running

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", HEADRACE, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        wait_until(lambda: not marked_processes(self._settings), "the processes have ended with `up`")


@pytest.fixture
def platform(settings: Settings, fakes: FakeProcesses) -> Iterator[Platform]:  # noqa: ARG001 - its folder is on the path
    platform = Platform(settings)
    yield platform
    platform.end()


def test_up_status_down(platform: Platform, settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("one", GOOD)
    fakes.spec("two", GOOD)
    up = platform.up("one", "two")
    wait_until(platform.is_up, "the platform is up")

    status = platform.run("status")
    assert status.returncode == 0
    assert f"supervisor pid {up.pid}" in status.stdout
    assert [line.split()[:2] for line in status.stdout.splitlines()[2:]] == [
        ["one", "running"],
        ["two", "running"],
    ]
    content = json.loads(platform.run("status", "--json").stdout)
    assert (content["running"], content["pid"]) == (True, up.pid)
    pids = [process["pid"] for process in content["processes"]]
    assert all(is_running(pid) for pid in pids)

    down = platform.run("down")
    assert (down.returncode, down.stderr) == (0, "")
    assert f"(pid {up.pid})" in down.stdout
    output, errors = up.communicate(timeout=120)
    assert (up.returncode, errors) == (0, "")
    assert f"one running (pid {pids[0]}): at your service" in output.splitlines()
    assert any(line.startswith("ready: events http://") for line in output.splitlines())
    assert not any(is_running(pid) for pid in pids)

    assert platform.run("status").returncode == 3
    assert json.loads(platform.run("status", "--json").stdout)["running"] is False
    again = platform.run("down")
    assert again.returncode == 2
    assert again.stderr.startswith(f"headrace: No platform is running on {settings.data_dir}.")


def test_status_is_1_when_not_all_run(platform: Platform, settings: Settings, fakes: FakeProcesses) -> None:
    fakes.spec("one", GOOD)
    fakes.spec("late", GOOD.replace('state="ready"', 'state="starting"'))
    platform.up("one", "late")
    wait_until(lambda: _states(settings) == {"one": "running", "late": "starting"}, "one of two runs")
    assert platform.run("status").returncode == 1


def test_a_second_up_is_refused_with_the_pid(platform: Platform, fakes: FakeProcesses) -> None:
    fakes.spec("one", GOOD)
    up = platform.up("one")
    wait_until(platform.is_up, "the platform is up")
    second = platform.run("up")
    assert second.returncode == 2
    assert second.stderr.startswith("headrace: The data folder")
    assert f"pid {up.pid}." in second.stderr
    assert second.stderr.count("\n") == 1
    assert platform.is_up()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_ctrl_c_kills_at_once(
    platform: Platform, settings: Settings, fakes: FakeProcesses, first: signal.Signals
) -> None:
    fakes.spec("deaf", DEAF)
    up = platform.up("deaf")
    wait_until(platform.is_up, "the platform is up")
    state = read_state(settings)
    assert state is not None
    up.send_signal(first)
    wait_until(lambda: _states(settings) == {"deaf": "stopping"}, "it drains")
    up.send_signal(signal.SIGTERM)
    # Asked twice politely is not yet a kill: it still waits for the deaf one.
    assert _states(settings) == {"deaf": "stopping"}
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=120)
    assert up.returncode == 130
    pid = state.processes[0].pid
    assert pid is not None
    assert not is_running(pid)


def test_nohup_outlives_its_terminal(settings: Settings) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(Supervisor(settings, specs=())):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])


def test_a_failed_start_is_told_without_a_traceback_of_ours(platform: Platform, fakes: FakeProcesses) -> None:
    fakes.spec(
        "poor",
        """
from headrace.core.errors import HeadraceError

def run(settings):
    raise HeadraceError("java_missing", "There is no Java.", remedy="Install one.")
""",
    )
    up = platform.up("poor")
    _, errors = up.communicate(timeout=120)
    assert up.returncode == 2
    assert errors.startswith("headrace: The process `poor` cannot run: There is no Java. Install one.")
    assert "Traceback" not in errors


def test_up_goes_on_without_one_that_is_broken_and_status_says_so(
    platform: Platform, settings: Settings, fakes: FakeProcesses
) -> None:
    fakes.spec("one", GOOD)
    fakes.spec("poor", HOPELESS)
    up = platform.up("one", "poor")
    wait_until(lambda: _states(settings) == {"one": "running", "poor": "restarting"}, "one of two runs")
    status = platform.run("status")
    assert status.returncode == 1
    shown = " ".join(status.stdout.split())
    assert "failed: There is no Java. Install one.; its log is" in shown
    assert "again in 10 s" in shown
    assert up.poll() is None


def _states(settings: Settings) -> dict[str, str]:
    state = read_state(settings)
    return {} if state is None else {process.name: process.state for process in state.processes}


def test_the_data_folder_of_a_config_file_is_used(platform: Platform, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("ingst_port = 1", encoding="utf-8")
    result = platform.run("status", "--config", str(file))
    assert result.returncode == 2
    assert "Did you mean `ingest_port`?" in result.stderr
