"""One process under supervision, driven by hand with a clock that only the test turns."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.assembly import supervised_process
from headrace.assembly.announcements import run_dir
from headrace.assembly.process_specs import ProcessSpec
from headrace.assembly.restarts import RestartPolicy
from headrace.assembly.supervised_process import SupervisedProcess
from headrace.core.settings import Settings
from tests.assembly.fakes import (
    CRASHING,
    DEAF,
    FAILED_BUT_ALIVE,
    GOOD,
    LIVELY,
    NEVER_READY,
    WITH_WORKERS,
    FakeProcesses,
    is_running,
    wait_until,
)
from tests.freezing import freeze


class ManualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Makes supervised processes, turns their clock, ends them."""

    def __init__(self, settings: Settings, pipe: int) -> None:
        self.clock = ManualClock()
        self._settings = settings
        self._pipe = pipe
        self._made: list[SupervisedProcess] = []

    def supervise(self, spec: ProcessSpec) -> SupervisedProcess:
        process = SupervisedProcess(
            spec, self._settings, policy=RestartPolicy(), pipe=self._pipe, clock=self.clock
        )
        self._made.append(process)
        return process

    def step_until(self, process: SupervisedProcess, phase: str) -> None:
        def reached() -> bool:
            process.step(may_start=True)
            return process.state.state == phase

        wait_until(reached, f"{process.spec.name} is {phase}")

    def signs(self, process: SupervisedProcess) -> dict[Path, int]:
        """When each of its processes that runs gave its last sign of life."""
        return {
            path: path.stat().st_mtime_ns
            for path in run_dir(self._settings).glob(f"{process.spec.name}.*.alive")
            if is_running(int(path.name.split(".")[-2]))
        }

    def end(self) -> None:
        for process in self._made:
            process.kill()


@pytest.fixture
def bench(settings: Settings) -> Iterator[Bench]:
    read_end, write_end = os.pipe()
    bench = Bench(settings, read_end)
    yield bench
    bench.end()
    os.close(read_end)
    os.close(write_end)


def test_it_starts_only_when_it_may(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("late", GOOD, needs=("log", "gateway")))
    process.step(may_start=False)
    assert (process.state.state, process.state.pid) == ("waiting", None)
    assert process.state.detail == "for log, gateway"
    bench.step_until(process, "running")
    assert process.state.detail == "at your service"


def test_the_wait_before_a_restart_grows_and_starts_anew_after_health(
    bench: Bench, fakes: FakeProcesses
) -> None:
    process = bench.supervise(fakes.spec("crashing", CRASHING))
    for deaths, delay in enumerate([0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0], start=1):
        bench.step_until(process, "restarting")
        assert process.retry_at - bench.clock.now == pytest.approx(delay)
        assert process.state.restarts == deaths
        why = "ValueError: nothing good"
        broken = deaths >= RestartPolicy().attempts
        if broken:
            why = f"failed {deaths} times in a row: {why}; its log is {process.log_path}"
        assert process.state.detail == f"{why}; again in {delay:g} s"
        bench.clock.now = process.retry_at - 0.01
        process.step(may_start=True)
        assert (process.state.state, process.state.pid) == ("restarting", None)
        bench.clock.now = process.retry_at
        process.step(may_start=True)
        assert process.state.state == "starting"
        assert process.state.detail == (why if broken else ""), "the reason stays while it is started again"
    bench.step_until(process, "restarting")
    fakes.spec("crashing", GOOD)
    bench.clock.now = process.retry_at
    bench.step_until(process, "running")
    bench.clock.now += RestartPolicy().healthy_after
    _kill_main(process)
    bench.step_until(process, "restarting")
    assert process.retry_at - bench.clock.now == pytest.approx(0.5)
    assert "killed by SIGKILL" in process.state.detail


def test_one_that_is_never_ready_counts_as_dead(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("slow", NEVER_READY, start_seconds=50.0))
    bench.step_until(process, "starting")
    pid = process.state.pid
    bench.clock.now += 49.0
    process.step(may_start=True)
    assert process.state.pid == pid
    bench.clock.now += 1.0
    process.step(may_start=True)
    assert process.state.state == "restarting"
    assert "not ready after 50 s" in process.state.detail
    assert pid is not None
    assert not is_running(pid)


def test_one_that_says_failed_and_stays_is_ended(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("broken", FAILED_BUT_ALIVE))
    bench.step_until(process, "failing")
    pid = process.state.pid
    assert pid is not None
    assert is_running(pid)
    bench.clock.now += 5.0
    process.step(may_start=True)
    assert not is_running(pid)
    assert process.state.detail == "broken inside; again in 0.5 s"


def test_a_drain_kills_what_takes_no_notice_when_the_grace_is_over(
    bench: Bench, fakes: FakeProcesses
) -> None:
    process = bench.supervise(fakes.spec("deaf", DEAF, grace_seconds=30.0))
    bench.step_until(process, "running")
    pid = process.state.pid
    assert pid is not None
    process.drain(may_end=False)
    assert process.state.state == "running"
    process.drain(may_end=True)
    assert process.state.state == "stopping"
    bench.clock.now += 29.9
    process.drain(may_end=True)
    assert process.state.state == "stopping"
    assert is_running(pid)
    bench.clock.now += 0.1
    process.drain(may_end=True)
    assert process.state.state == "stopped"
    assert not is_running(pid)


def test_the_word_of_a_predecessor_with_the_same_pid_is_not_taken(
    bench: Bench, fakes: FakeProcesses, settings: Settings
) -> None:
    process = bench.supervise(fakes.spec("slow", NEVER_READY))
    old = settings.data_dir / "run" / "slow.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"pid": 1, "state": "ready", "detail": "old"}', encoding="utf-8")
    bench.step_until(process, "starting")
    assert not old.exists() or "old" not in old.read_text(encoding="utf-8")


def test_a_large_log_is_put_aside_at_the_next_start(
    bench: Bench, fakes: FakeProcesses, settings: Settings
) -> None:
    process = bench.supervise(fakes.spec("good", GOOD))
    settings.log_dir.mkdir(parents=True)
    with process.log_path.open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    bench.step_until(process, "running")
    assert process.log_path.stat().st_size < 1024
    assert process.log_path.with_name("good.log.1").stat().st_size == 17 * 1024 * 1024


def _kill_main(process: SupervisedProcess) -> None:
    pid = process.state.pid
    assert pid is not None
    os.kill(pid, 9)
    # Its parent is this very process, so a zombie stays until `step` asks after it.
    wait_until(lambda: not is_running(pid), "the process is gone")


def test_nothing_starts_beside_what_cannot_be_ended(
    bench: Bench, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in the kernel's hands (on a dead network disk, say) does not even end by SIGKILL."""
    process = bench.supervise(fakes.spec("stuck", GOOD))
    bench.step_until(process, "running")
    pid = process.state.pid
    with monkeypatch.context() as patch:
        patch.setattr(supervised_process, "kill_family", lambda _pid, _mark: False)
        _kill_main(process)
        bench.step_until(process, "restarting")
        bench.clock.now = process.retry_at
        process.step(may_start=True)
        assert (process.state.state, process.state.pid) == ("restarting", None)
        assert f"cannot end processes started by pid {pid}" in process.state.detail
    bench.clock.now = process.retry_at
    bench.step_until(process, "running")


def _stop_main(process: SupervisedProcess) -> int:
    pid = process.state.pid
    assert pid is not None
    freeze(pid)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    return pid


def _step_for(bench: Bench, process: SupervisedProcess, seconds: float) -> None:
    """Let the time pass second by second, as the supervisor sees it."""
    until = bench.clock.now + seconds
    while bench.clock.now < until:
        bench.clock.now += 1.0
        process.step(may_start=True)


def _live_for(bench: Bench, process: SupervisedProcess, seconds: float) -> None:
    """The same; each second waits for signs of life, however long they take on a busy machine."""
    for _ in range(int(seconds)):
        wait_until(lambda: bool(bench.signs(process)), "a sign of life")
        before = bench.signs(process)

        def are_new(before: dict[Path, int] = before) -> bool:
            now = bench.signs(process)
            return all(now[path] != earlier for path, earlier in before.items() if path in now)

        wait_until(are_new, "another sign of life")
        _step_for(bench, process, 1.0)


def test_one_that_is_stopped_is_stuck_and_runs_again_when_it_goes_on(
    bench: Bench, fakes: FakeProcesses
) -> None:
    process = bench.supervise(fakes.spec("lively", LIVELY, silent_seconds=15.0))
    bench.step_until(process, "running")
    _live_for(bench, process, 40.0)
    assert process.state.state == "running"
    pid = _stop_main(process)
    _step_for(bench, process, 14.0)
    assert process.state.state == "running"
    _step_for(bench, process, 4.0)
    assert process.state.state == "stuck"
    assert f"stopped by a signal, `kill -CONT {pid}` lets it go on" in process.state.detail
    os.kill(pid, signal.SIGCONT)

    def runs() -> bool:
        # The supervisor looks once in a while of its own clock.
        bench.clock.now += 0.6
        process.step(may_start=True)
        return process.state.state == "running"

    wait_until(runs, "it answers again")
    assert (process.state.pid, process.state.restarts) == (pid, 0)


def test_one_that_stays_stuck_is_restarted(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("lively", LIVELY, silent_seconds=15.0))
    bench.step_until(process, "running")
    pid = _stop_main(process)
    _step_for(bench, process, 20.0)
    assert process.state.state == "stuck"
    bench.clock.now += RestartPolicy().stuck_seconds - 10
    process.step(may_start=True)
    assert process.state.pid == pid
    bench.clock.now += 10
    process.step(may_start=True)
    assert not is_running(pid)
    assert "did not answer for" in process.state.detail
    bench.clock.now = process.retry_at
    bench.step_until(process, "running")


def test_one_that_never_gives_a_sign_of_life_is_stuck(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("mute", GOOD, silent_seconds=15.0))
    bench.step_until(process, "running")
    _step_for(bench, process, 17.0)
    assert process.state.state == "stuck"
    assert "kill -CONT" not in process.state.detail


def test_a_stopped_worker_is_noticed_and_a_worker_that_ended_is_not_missed(
    bench: Bench, fakes: FakeProcesses
) -> None:
    process = bench.supervise(fakes.spec("parent", WITH_WORKERS, silent_seconds=15.0))
    bench.step_until(process, "running")
    parent = process.state.pid
    assert parent is not None
    first, second = (child.pid for child in psutil.Process(parent).children())
    os.kill(first, signal.SIGKILL)
    _live_for(bench, process, 30.0)
    assert process.state.state == "running"
    freeze(second)
    _step_for(bench, process, 18.0)
    assert process.state.state == "stuck"
    assert f"kill -CONT {second}" in process.state.detail


def test_a_reason_of_many_lines_is_told_in_one(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("crashing", CRASHING.replace("nothing good", "torn\\nstack: 1\\n2")))
    bench.step_until(process, "restarting")
    assert process.state.detail == "ValueError: torn; again in 0.5 s"


def test_a_drain_ends_one_that_is_stopped(bench: Bench, fakes: FakeProcesses) -> None:
    process = bench.supervise(fakes.spec("lively", LIVELY))
    bench.step_until(process, "running")
    _stop_main(process)

    def ended() -> bool:
        process.drain(may_end=True)
        return process.state.state == "stopped"

    wait_until(ended, "it ends without being killed")
    assert process.state.detail == ""
