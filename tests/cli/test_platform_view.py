"""What `headrace up` shows on a terminal and elsewhere."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from headrace.assembly.platform_state import Phase, ProcessState
from headrace.cli.platform_view import COLOURS, PlatformView, duration, plain_line, process_table
from headrace.core.settings import Settings

RUNNING = ProcessState(
    name="log", state="running", pid=42, restarts=2, since=1000.0, detail="at 1.2.3.4:9092"
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.9, "59s"), (187, "3m 7s"), (18_120, "5h 2m"), (1_047_600, "12d 3h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_row_tells_all_of_a_process() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(process_table([RUNNING], now=1042.0, wrap=True))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[1].split() == [
        "log",
        "running",
        "42s",
        "42",
        "2",
        "at",
        "1.2.3.4:9092",
    ]


def test_a_long_detail_is_cut_or_wrapped_as_asked() -> None:
    long = dataclasses.replace(RUNNING, detail="word " * 40)
    for wrap, lines in ((False, 2), (True, 5)):
        console = Console(file=io.StringIO(), width=100)
        console.print(process_table([long], now=1042.0, wrap=wrap))
        assert isinstance(console.file, io.StringIO)
        assert len(console.file.getvalue().splitlines()) == lines


def test_every_state_has_a_colour() -> None:
    assert set(COLOURS) == set(Phase.__args__)  # type: ignore[attr-defined]


def test_changes_are_plain_lines_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    with PlatformView(Settings(), Console(file=output)) as view:
        view.changed(dataclasses.replace(RUNNING, state="starting", detail=""))
        view.changed(RUNNING)
        view.changed(dataclasses.replace(RUNNING, state="restarting", pid=None, detail="exit code 1"))
        view.changed(RUNNING)
    lines = output.getvalue().splitlines()
    assert lines[0] == "log starting (pid 42)"
    assert lines[1] == "log running (pid 42): at 1.2.3.4:9092"
    assert lines[2].startswith("ready: events http://127.0.0.1:8080/events")
    assert lines[3] == "log restarting: exit code 1"
    assert plain_line(RUNNING) == lines[4]


def test_a_terminal_shows_one_line_per_process_in_place() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    with PlatformView(Settings(), console) as view:
        view.changed(RUNNING)
        view.changed(dataclasses.replace(RUNNING, name="gateway", state="starting", detail="[not markup]"))
    shown = output.getvalue()
    assert "gateway" in shown
    assert "[not markup]" in shown
    assert "Logs:" in shown
