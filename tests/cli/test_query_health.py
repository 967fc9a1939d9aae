"""What `headrace status` shows of the queries and of what is wrong, as the gateway tells it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from rich.console import Console

from headrace.assembly.platform_state import PlatformState
from headrace.cli import query_health
from headrace.cli.query_health import asked_health, query_table, what_is_wrong
from headrace.core.settings import Settings
from tests.ports import free_port

QUERY: dict[str, Any] = {
    "query": "CSAS_O_1",
    "state": "RUNNING",
    "mode": "micro-batch",
    "message": "",
    "failures": 0,
    "starved": "",
    "behind_records": 0,
    "behind_ms": 0,
    "gaps": [],
}
GAP = {"topic": "in", "partition": 2, "from": 5, "to": 9, "at": 1}


def _row(**changes: Any) -> list[str]:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(query_table([QUERY | changes]))
    return captured.get().splitlines()[1].split()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["RUNNING", "micro-batch", "0"]),
        ({"behind_records": None, "behind_ms": None, "state": "UNKNOWN"}, ["UNKNOWN", "micro-batch"]),
        (
            {"behind_records": 1234, "behind_ms": 65_000},
            ["RUNNING", "micro-batch", "1m", "5s,", "1,234", "records"],
        ),
        ({"failures": 3, "message": "no disk"}, ["failing", "micro-batch", "0", "no", "disk"]),
        ({"starved": "no turn"}, ["starved", "micro-batch", "0", "no", "turn"]),
        ({"state": "FAILED", "message": "no"}, ["FAILED", "micro-batch", "0", "no"]),
        (
            {"gaps": [GAP]},
            ["RUNNING", "micro-batch", "0", "gap:", "in/2,", "offsets", "5", "to", "8", "were", "gone"],
        ),
    ],
)
def test_a_query_in_the_table(changes: dict[str, Any], words: list[str]) -> None:
    assert _row(**changes) == ["CSAS_O_1", *words]


def test_each_problem_has_its_remedy_and_a_silent_supervisor_comes_first() -> None:
    state = PlatformState(pid=7, since=0.0, data_dir="d", processes=())
    health = {"problems": [{"of": "log", "problem": "It is stuck.", "remedy": "Look."}], "queries": []}
    assert what_is_wrong(state, health) == ["It is stuck. Look."]
    assert what_is_wrong(state, None) == []
    silent = PlatformState(pid=7, since=0.0, data_dir="d", processes=(), answers=False)
    (line,) = what_is_wrong(silent, health)
    assert "kill -CONT 7" in line


@contextmanager
def _gateway(port: int, answer: bytes | None) -> Iterator[None]:
    """Answers with 503 and these bytes, or not at all."""
    silent = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if answer is None:
                silent.wait()
                return
            self.send_response(503)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        silent.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (b'{"queries": [], "problems": []}', True),
        (b'{"error": "no_such_page"}', False),
        (b"<html>", False),
        (None, False),
    ],
)
def test_a_gateway_that_says_nothing_useful_is_not_believed(
    answer: bytes | None, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_health, "ANSWER_SECONDS", 0.2)
    settings = Settings(console_port=free_port())
    assert asked_health(settings) is None
    with _gateway(settings.console_port, answer):
        assert (asked_health(settings) is not None) == known
