"""The pipeline's signs of life: only while its JVM answers and its loop turns."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.assembly.processes import pipeline_pulse
from headrace.assembly.processes.pipeline_pulse import Pulse
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from tests.assembly.fakes import wait_until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_pulse, "SIGN_SECONDS", 0.01)
    monkeypatch.setattr(pipeline_pulse, "_JOIN_SECONDS", 0.1)


class Jvm:
    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.blocked = threading.Event()
        self.asked = 0
        self.error: Exception | None = None

    def ask(self) -> None:
        self.asked += 1
        while not self.answers.wait(0.005):
            self.blocked.set()
        if self.error is not None:
            raise self.error


def _time(settings: Settings) -> int:
    (path,) = (settings.data_dir / "run").glob("pipeline.*.alive")
    return path.stat().st_mtime_ns


def test_signs_stop_with_the_jvm_and_come_again(tmp_path: Path) -> None:
    settings, jvm = Settings(data_dir=tmp_path), Jvm()
    (tmp_path / "run").mkdir()
    with Pulse(settings, "pipeline", ask_jvm=jvm.ask):
        first = _time(settings)
        wait_until(lambda: _time(settings) > first, "a sign")
        jvm.answers.clear()
        wait_until(jvm.blocked.is_set, "it waits for an answer")
        asked, before = jvm.asked, _time(settings)
        # Many times as long as it takes from one sign to the next.
        threading.Event().wait(0.2)
        assert jvm.asked == asked, "it asks again before it has an answer"
        assert _time(settings) == before, "a sign of life although the JVM does not answer"
        jvm.answers.set()
        wait_until(lambda: _time(settings) > before, "a sign again")


def test_signs_stop_when_the_loop_no_longer_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, jvm = Settings(data_dir=tmp_path), Jvm()
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(pipeline_pulse, "LOOP_SECONDS", 0.1)
    with Pulse(settings, "pipeline", ask_jvm=jvm.ask) as pulse:
        # Before its first question it is silent, too.
        wait_until(lambda: jvm.asked > 0, "a sign")
        stopped = -1

        def is_silent() -> bool:
            nonlocal stopped
            earlier, stopped = stopped, jvm.asked
            return threading.Event().wait(0.2) or earlier == stopped

        wait_until(is_silent, "the signs stop")
        before = _time(settings)
        pulse.turned()
        wait_until(lambda: _time(settings) > before, "a sign again")


def test_a_jvm_that_is_gone_ends_the_loop(tmp_path: Path) -> None:
    settings, jvm = Settings(data_dir=tmp_path), Jvm()
    (tmp_path / "run").mkdir()
    with Pulse(settings, "pipeline", ask_jvm=jvm.ask) as pulse:
        jvm.error = ConnectionRefusedError("no JVM")

        def ends() -> bool:
            try:
                pulse.turned()
            except HeadraceError as error:
                return "Spark's JVM is gone: no JVM" in error.message
            return False

        wait_until(ends, "the loop learns it")
