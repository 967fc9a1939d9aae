"""The supervisor with real (small) processes: starts, deaths, drains, and its own death."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.assembly import supervisor as supervisor_module
from headrace.assembly.platform_lock import holder
from headrace.assembly.platform_state import SILENT_SECONDS, ProcessState, read_state, state_path
from headrace.assembly.process_specs import ProcessSpec
from headrace.assembly.supervisor import Supervisor
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, to_environment
from tests.assembly.fakes import (
    CRASHING,
    DEAF,
    GOOD,
    HOPELESS,
    NEVER_READY,
    QUICK,
    WITH_GRANDCHILD,
    FakeProcesses,
    grandchildren,
    is_running,
    wait_until,
)
from tests.freezing import freeze


def _state(supervisor: Supervisor, name: str) -> ProcessState:
    return next(state for state in supervisor.states() if state.name == name)


def _pid(supervisor: Supervisor, name: str) -> int:
    pid = _state(supervisor, name).pid
    assert pid is not None
    return pid


def _chain(fakes: FakeProcesses, **sources: str) -> list[ProcessSpec]:
    """Three processes with the orders of the platform: source first to start and last to end."""
    return [
        fakes.spec("source", sources.get("source", GOOD), drains_after=("door", "worker"), essential=True),
        fakes.spec("door", sources.get("door", GOOD), needs=("source",)),
        fakes.spec("worker", sources.get("worker", GOOD), needs=("source", "door"), drains_after=("door",)),
    ]


def test_processes_start_in_order_and_drain_in_order(settings: Settings, fakes: FakeProcesses) -> None:
    seen: list[tuple[str, str]] = []
    supervisor = Supervisor(
        settings,
        specs=_chain(fakes),
        policy=QUICK,
        on_change=lambda state: seen.append((state.name, state.state)),
    )
    assert supervisor.start() is True
    assert [state.state for state in supervisor.states()] == ["running"] * 3
    assert seen.index(("source", "running")) < seen.index(("door", "starting"))
    assert seen.index(("door", "running")) < seen.index(("worker", "starting"))
    pids = [_pid(supervisor, name) for name in ("source", "door", "worker")]
    supervisor.stop()
    assert (settings.data_dir / "ended").read_text(encoding="utf-8").split() == ["door", "worker", "source"]
    assert [state.state for state in supervisor.states()] == ["stopped"] * 3
    assert not any(is_running(pid) for pid in pids)
    assert holder(settings) is None


def test_what_dies_is_started_again_and_the_others_are_left_alone(
    settings: Settings, fakes: FakeProcesses
) -> None:
    with Supervisor(settings, specs=_chain(fakes), policy=QUICK) as supervisor:
        before = {name: _pid(supervisor, name) for name in ("source", "door", "worker")}
        os.kill(before["source"], signal.SIGKILL)
        wait_until(lambda: _state(supervisor, "source").restarts == 1, "the death is seen")
        wait_until(lambda: _state(supervisor, "source").state == "running", "the source runs again")
        assert _pid(supervisor, "source") != before["source"]
        assert _pid(supervisor, "door") == before["door"]
        assert _pid(supervisor, "worker") == before["worker"]
    log = (settings.log_dir / "supervisor.log").read_text(encoding="utf-8")
    assert "source died (killed by SIGKILL); restarting it in 0 s" in log


@pytest.mark.parametrize("own_session", [True, False])
def test_all_that_a_dead_process_started_is_gone_before_its_successor_starts(
    settings: Settings, fakes: FakeProcesses, own_session: bool
) -> None:
    alive_at_start: list[bool] = []

    def on_change(state: ProcessState) -> None:
        if state.state == "starting" and state.restarts == 1:
            alive_at_start.append(is_running(grandchildren(settings)[0]))

    spec = fakes.spec("driver", WITH_GRANDCHILD, own_session=own_session)
    with Supervisor(settings, specs=[spec], policy=QUICK, on_change=on_change) as supervisor:
        (first,) = grandchildren(settings)
        assert is_running(first)
        os.kill(_pid(supervisor, "driver"), signal.SIGKILL)
        wait_until(lambda: len(grandchildren(settings)) == 2, "the successor has started its child")
        assert not is_running(first)
        assert alive_at_start
        assert not any(alive_at_start)
    assert not any(is_running(pid) for pid in grandchildren(settings))


def test_the_others_go_on_although_one_fails_for_ever(settings: Settings, fakes: FakeProcesses) -> None:
    """Also during the first start: the log and ingest never end because the pipeline fails."""
    with Supervisor(settings, specs=_chain(fakes, worker=CRASHING), policy=QUICK) as supervisor:
        before = {name: _pid(supervisor, name) for name in ("source", "door")}
        wait_until(
            lambda: _state(supervisor, "worker").restarts > 2 * QUICK.attempts,
            "it is started again and again",
        )
        assert {name: _pid(supervisor, name) for name in before} == before
        assert all(is_running(pid) for pid in before.values())
        wait_until(lambda: _state(supervisor, "worker").state == "restarting", "the next pause")
        detail = _state(supervisor, "worker").detail
        assert "times in a row: ValueError: nothing good" in detail
        assert str(settings.log_dir / "worker.log") in detail
        fakes.spec("worker", GOOD)
        wait_until(lambda: _state(supervisor, "worker").state == "running", "it runs once it can")
    log = (settings.log_dir / "supervisor.log").read_text(encoding="utf-8")
    assert log.count("the others go on") == 1


def test_one_that_cannot_run_is_tried_again_and_the_others_go_on(
    settings: Settings, fakes: FakeProcesses
) -> None:
    with Supervisor(settings, specs=_chain(fakes, worker=HOPELESS), policy=QUICK) as supervisor:
        assert _state(supervisor, "door").state == "running"
        wait_until(lambda: _state(supervisor, "worker").restarts > 1, "it is tried again")
        fakes.spec("worker", GOOD)
        wait_until(lambda: _state(supervisor, "worker").state == "running", "it runs once it can")


@pytest.mark.parametrize(("whole", "broken"), [(False, "source"), (True, "door")])
def test_a_start_without_the_log_or_where_all_are_wanted_is_given_up_with_the_last_lines(
    settings: Settings, fakes: FakeProcesses, whole: bool, broken: str
) -> None:
    supervisor = Supervisor(settings, specs=_chain(fakes, **{broken: CRASHING}), policy=QUICK, whole=whole)
    with pytest.raises(HeadraceError) as raised:
        supervisor.start()
    error = raised.value
    assert error.code == "process_failed"
    assert f"`{broken}` failed {QUICK.attempts} times in a row" in error.message
    assert "ValueError: nothing good" in error.message
    assert str(settings.log_dir / f"{broken}.log") in error.remedy
    assert "Traceback" in error.remedy
    assert holder(settings) is None
    assert [state.state for state in supervisor.states()] == ["stopped"] * 3


def test_a_start_that_cannot_work_is_given_up_at_once(settings: Settings, fakes: FakeProcesses) -> None:
    supervisor = Supervisor(settings, specs=_chain(fakes, source=HOPELESS))
    with pytest.raises(HeadraceError, match=r"`source` cannot run: There is no Java\. Install one\."):
        supervisor.start()
    assert _state(supervisor, "source").restarts == 1


def test_a_log_that_was_ready_once_is_never_given_up(settings: Settings, fakes: FakeProcesses) -> None:
    supervisor = Supervisor(settings, specs=_chain(fakes, door=NEVER_READY), policy=QUICK)
    starting = threading.Thread(target=supervisor.start)
    starting.start()
    try:
        for deaths in range(QUICK.attempts + 1):
            wait_until(
                lambda deaths=deaths: any(
                    (state.name, state.state, state.restarts) == ("source", "running", deaths)
                    for state in supervisor.states()
                ),
                f"the source runs after {deaths} deaths",
            )
            os.kill(_pid(supervisor, "source"), signal.SIGKILL)
        wait_until(lambda: _state(supervisor, "source").state == "running", "it runs again")
        assert starting.is_alive()
    finally:
        supervisor.stop()
        starting.join()


def test_a_state_file_that_cannot_be_written_stops_nothing(
    settings: Settings, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("write_state", "touch_state"):
        monkeypatch.setattr(supervisor_module, name, full)
    with Supervisor(settings, specs=_chain(fakes), policy=QUICK) as supervisor:
        assert [state.state for state in supervisor.states()] == ["running"] * 3
    assert "No space left" in (settings.log_dir / "supervisor.log").read_text(encoding="utf-8")


def test_a_supervisor_that_is_stopped_is_noticed(settings: Settings, fakes: FakeProcesses) -> None:
    with Supervisor(settings, specs=[fakes.spec("only")]):
        path = state_path(settings)
        state = read_state(settings)
        assert state is not None
        assert state.answers
        long_ago = time.time() - 2 * SILENT_SECONDS

        def is_noticed() -> bool:
            os.utime(path, (long_ago, long_ago))
            found = read_state(settings)
            assert found is not None
            return (found.answers, found.all_running) == (False, False)

        # The supervisor may touch it in between.
        wait_until(is_noticed, "it looks stopped")
        wait_until(lambda: (now := read_state(settings)) is not None and now.answers, "it is touched again")


def test_a_stop_during_the_start_ends_it(settings: Settings, fakes: FakeProcesses) -> None:
    supervisor = Supervisor(settings, specs=_chain(fakes, door=NEVER_READY), policy=QUICK)
    results: list[bool] = []
    starting = threading.Thread(target=lambda: results.append(supervisor.start()))
    starting.start()
    wait_until(
        lambda: any(state.name == "door" and state.pid is not None for state in supervisor.states()),
        "the door is starting",
    )
    supervisor.stop()
    starting.join()
    assert results == [False]
    assert holder(settings) is None


def test_a_second_request_kills_at_once(settings: Settings, fakes: FakeProcesses) -> None:
    supervisor = Supervisor(settings, specs=_chain(fakes, door=DEAF), policy=QUICK)
    supervisor.start()
    door = _pid(supervisor, "door")
    supervisor.request_stop()
    wait_until(lambda: _state(supervisor, "door").state == "stopping", "the door is asked to end")
    # Deaf, and with a minute of grace, so that the drain stands still here.
    assert is_running(door)
    assert _state(supervisor, "source").state == "running"
    supervisor.stop(at_once=True)
    assert not is_running(door)
    assert not (settings.data_dir / "ended").exists()


def test_a_second_supervisor_is_refused_and_harms_nothing(settings: Settings, fakes: FakeProcesses) -> None:
    specs = [fakes.spec("only", GOOD)]
    with Supervisor(settings, specs=specs) as supervisor:
        with pytest.raises(HeadraceError, match=rf"pid {os.getpid()}") as raised:
            Supervisor(settings, specs=specs).start()
        assert raised.value.code == "data_dir_in_use"
        assert is_running(_pid(supervisor, "only"))
        assert holder(settings) == os.getpid()


def test_a_port_in_use_stops_the_start_and_frees_the_folder(settings: Settings, fakes: FakeProcesses) -> None:
    spec = fakes.spec("door", GOOD, ports=("ingest_port",))
    taken = socket.create_server(("127.0.0.1", settings.ingest_port))
    with taken, pytest.raises(HeadraceError, match=rf"Port {settings.ingest_port} \(setting `ingest_port`\)"):
        Supervisor(settings, specs=[spec]).start()
    assert holder(settings) is None
    with Supervisor(settings, specs=[spec]) as supervisor:
        assert _state(supervisor, "door").state == "running"


def test_the_state_file_tells_how_the_platform_is(settings: Settings, fakes: FakeProcesses) -> None:
    with Supervisor(settings, specs=_chain(fakes), policy=QUICK) as supervisor:
        state = read_state(settings)
        assert state is not None
        assert state.pid == os.getpid()
        assert state.processes == supervisor.states()
        assert state.all_running
        content = json.loads(state_path(settings).read_text(encoding="utf-8"))
        assert content["processes"][0] == {
            "name": "source",
            "state": "running",
            "pid": _pid(supervisor, "source"),
            "restarts": 0,
            "since": content["processes"][0]["since"],
            "detail": "at your service",
        }
    assert read_state(settings) is None


def test_a_watcher_that_fails_does_not_stop_the_platform(settings: Settings, fakes: FakeProcesses) -> None:
    def on_change(state: ProcessState) -> None:
        raise RuntimeError(f"cannot show {state.name}")

    with Supervisor(settings, specs=[fakes.spec("only")], on_change=on_change) as supervisor:
        assert _state(supervisor, "only").state == "running"
    assert "cannot show only" in (settings.log_dir / "supervisor.log").read_text(encoding="utf-8")


def test_settings_of_the_shell_do_not_reach_the_processes(
    settings: Settings, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_INGEST_PORT", "1")
    source = GOOD.replace('detail="at your service"', "detail=str(settings.ingest_port)")
    with Supervisor(settings, specs=[fakes.spec("only", source)]) as supervisor:
        assert _state(supervisor, "only").detail == str(settings.ingest_port)


SUPERVISOR_SCRIPT = """
import os, pathlib, sys, threading
from headrace.assembly.process_specs import ProcessSpec
from headrace.assembly.supervisor import Supervisor
from headrace.core.settings import load_environment

settings = load_environment(os.environ, folder=pathlib.Path.cwd())
Supervisor(settings, specs=[ProcessSpec(name="driver", module="fake_driver")]).start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_after_sigkill_of_the_supervisor_all_are_gone_and_the_folder_is_free(
    settings: Settings, fakes: FakeProcesses, tmp_path: Path
) -> None:
    spec = fakes.spec("driver", WITH_GRANDCHILD)
    script = tmp_path / "supervise.py"
    script.write_text(SUPERVISOR_SCRIPT, encoding="utf-8")
    first = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | to_environment(settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    state = read_state(settings)
    assert state is not None
    assert state.pid == first.pid
    child = state.processes[0].pid
    (grandchild,) = grandchildren(settings)
    assert child is not None
    assert is_running(child)
    first.kill()
    first.wait()
    first.stdout.close()
    wait_until(lambda: not is_running(child) and not is_running(grandchild), "child and grandchild are gone")
    assert read_state(settings) is None
    with Supervisor(settings, specs=[spec]) as second:
        assert _state(second, "driver").state == "running"


def test_what_an_earlier_supervisor_left_behind_is_gone_before_the_start(
    settings: Settings, fakes: FakeProcesses, tmp_path: Path
) -> None:
    """A child that is stopped (SIGSTOP) cannot watch its supervisor, so it is still there."""
    spec = fakes.spec("driver", WITH_GRANDCHILD)
    script = tmp_path / "supervise.py"
    script.write_text(SUPERVISOR_SCRIPT, encoding="utf-8")
    first = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | to_environment(settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    state = read_state(settings)
    assert state is not None
    left = [state.processes[0].pid, *grandchildren(settings)]
    for pid in left:
        assert pid is not None
        freeze(pid)
    first.kill()
    first.wait()
    first.stdout.close()
    elsewhere = dataclasses.replace(settings, data_dir=settings.data_dir.with_name("elsewhere"))
    with Supervisor(elsewhere, specs=[fakes.spec("only")]):
        # The processes of another data folder are none of our business.
        assert all(is_running(pid) for pid in left if pid is not None)
    with Supervisor(settings, specs=[spec]):
        assert not any(is_running(pid) for pid in left if pid is not None)
