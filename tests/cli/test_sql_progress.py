"""What `headrace sql` does while a question runs: it says so on a terminal, and Ctrl-C ends the question."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.sql_asking import ask
from headrace.cli.sql_progress import Progress
from headrace.query.questions import QuestionLimits
from tests.http.query.sql_server import SqlServer, sql_server
from tests.query.records import wait_until

LONG = "SELECT count(*) FROM range(100000000000) WHERE hash(range) = 1"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts Python, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SqlServer]:
    (tmp_path / "lake").mkdir()
    with sql_server(tmp_path, limits=QuestionLimits(seconds=60, threads=1)) as running:
        yield running


def test_a_status_line_appears_on_a_terminal_and_goes_again() -> None:
    terminal = Terminal()
    with Progress(lambda: "waiting for its turn", stream=terminal) as progress:
        progress.received(3 * 1024 * 1024)
        wait_until(lambda: "waiting" in terminal.getvalue(), "the line is there")
    assert "3.0 MB received" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_written_where_nobody_looks() -> None:
    stream = io.StringIO()
    asked = threading.Event()

    def state() -> str:
        asked.set()
        return "running"

    with Progress(state, stream=stream):
        assert not asked.wait(1.5)
    assert stream.getvalue() == ""


def test_trouble_with_the_state_is_not_the_questions() -> None:
    terminal = Terminal()

    def state() -> str:
        raise OSError("no connection")

    with Progress(state, stream=terminal):
        wait_until(lambda: "running" in terminal.getvalue(), "the line is there")


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_question_on_the_server(server: SqlServer) -> None:
    def interrupt() -> None:
        wait_until(lambda: server.desk.slots.running == 1, "the question runs")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ask(server.address, LONG)
    thread.join()
    wait_until(server.is_idle, "nothing runs any more")


def test_the_server_says_whether_a_question_waits_or_runs(server: SqlServer) -> None:
    done = [
        threading.Thread(target=server.ask, args=(LONG,), kwargs={"id": f"long-{number}"})
        for number in range(3)
    ]
    for thread in done:
        thread.start()

    def states() -> list[str]:
        answers = [server.client.get(f"/sql/long-{number}") for number in range(3)]
        return sorted(answer.json().get("state", "") for answer in answers)

    wait_until(lambda: states() == ["running", "running", "waiting for its turn"], "two run, and one waits")
    for number in range(3):
        server.client.delete(f"/sql/long-{number}")
    for thread in done:
        thread.join()
    assert server.client.get("/sql/long-0").status_code == 404
