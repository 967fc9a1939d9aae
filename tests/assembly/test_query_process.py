"""The query process behind the gateway: its trouble is nobody else's, and it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from headrace.testing import EmbeddedBroker
from tests.gateway_process import GatewayProcess, eventually, gateway_settings, run_gateway
from tests.query.delta_tables import write_events
from tests.query_process import run_query_process

SLOW = {"query": "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = 3"}


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    forkers = psutil.Process(process.pid).children()
    return [worker.pid for forker in forkers for worker in forker.children()]


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    settings = gateway_settings(tmp_path_factory.mktemp("query"), broker.bootstrap, events_topic="of_queries")
    write_events(settings.lake_dir, [("Search", "2026-01-01", "1")])
    with run_gateway(settings) as process:
        process.wait_until("ready")
        yield process


def ask(gateway: GatewayProcess, query: object, **headers: str) -> httpx.Response:
    return httpx.post(f"{gateway.console}/sql", json=query, headers=headers, timeout=120)


def test_the_gateway_passes_questions_on(gateway: GatewayProcess) -> None:
    with run_query_process(gateway.settings):
        answer = ask(gateway, {"query": "SELECT count(*) AS n FROM events", "id": "mine"})
        assert (answer.json()["rows"], answer.headers["headrace-question"]) == ([[1]], "mine")
        assert ask(gateway, {"query": "SELECT 1 AS a"}, Accept="text/csv").text == "a\r\n1\r\n"
        assert ask(gateway, {"query": "SELEC"}).json()["error"] == "query_failed"
        large = ask(gateway, {"query": "SELECT i, repeat('x', 50) FROM range(90000) t(i)"})
        assert len(large.json()["rows"]) == 90_000
        # It breaks off here as it does there.
        with pytest.raises(httpx.RemoteProtocolError):
            ask(gateway, {"query": "SELECT i, repeat('x', 50) FROM range(200000) t(i)"})


def test_a_client_that_leaves_the_gateway_ends_its_question(gateway: GatewayProcess) -> None:
    with run_query_process(gateway.settings), ThreadPoolExecutor() as threads:
        asked = threads.submit(ask, gateway, {**SLOW, "id": "cancelled"})
        eventually(
            lambda: httpx.delete(f"{gateway.console}/sql/cancelled", timeout=60).status_code == 200,
            "it is cancelled",
        )
        assert asked.result().json()["error"] == "query_cancelled"
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{gateway.console}/sql", json={**SLOW, "id": "left"}, timeout=1.5)
        began = time.monotonic()
        eventually(
            lambda: httpx.delete(f"{gateway.console}/sql/left", timeout=60).status_code == 404, "it has ended"
        )
        assert time.monotonic() - began < 10


def test_six_slow_questions_stop_no_other_door(gateway: GatewayProcess) -> None:
    """Observation: all doors shared one thread pool, and were silent for half a minute."""
    paths: tuple[Callable[[], str], ...] = (
        lambda: f"{gateway.registry}/subjects",
        lambda: f"{gateway.statements}/info",
        lambda: f"{gateway.console}/flow",
        lambda: f"{gateway.console}/",
    )
    with (
        run_query_process(gateway.settings),
        ThreadPoolExecutor(6) as threads,
        httpx.Client(timeout=60) as client,
    ):
        slow = [threads.submit(ask, gateway, {**SLOW, "id": f"slow-{number}"}) for number in range(6)]
        began, longest = time.monotonic(), 0.0
        while time.monotonic() - began < 5:
            for path in paths:
                asked = time.monotonic()
                assert client.get(path()).status_code == 200
                longest = max(longest, time.monotonic() - asked)
        assert longest < 3, "on a machine whose cores are all taken"
        assert ask(gateway, {"query": "SELECT 1"}).json()["rows"] == [[1]]
        for number in range(6):
            client.delete(f"{gateway.console}/sql/slow-{number}")
        assert {each.result().status_code for each in slow} <= {409, 400}


def test_without_a_query_process_only_sql_is_down_and_it_comes_back(gateway: GatewayProcess) -> None:
    with run_query_process(gateway.settings) as process:
        assert ask(gateway, {"query": "SELECT 1"}).status_code == 200
        workers = workers_of(process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        answer = ask(gateway, {"query": "SELECT 1"})
        assert (answer.status_code, answer.json()["error"]) == (503, "query_unavailable")
        assert "headrace status" in answer.json()["remedy"]
        assert httpx.get(f"{gateway.registry}/subjects", timeout=60).status_code == 200
        eventually(lambda: not any(psutil.pid_exists(pid) for pid in workers), "its workers ended with it")
    left_behind = list((gateway.settings.data_dir / "run" / "query").iterdir())
    assert left_behind != [], "the killed one could not clean up"
    with run_query_process(gateway.settings):
        assert ask(gateway, {"query": "SELECT count(*) FROM events"}).json()["rows"] == [[1]]
        assert not any(folder.exists() for folder in left_behind)


def test_it_ends_at_once_when_told_to_although_a_question_runs(gateway: GatewayProcess) -> None:
    with run_query_process(gateway.settings) as process, ThreadPoolExecutor() as threads:
        asked = threads.submit(ask, gateway, SLOW)
        eventually(lambda: any(_is_busy(pid) for pid in workers_of(process)), "the question runs")
        workers = workers_of(process)
        began = time.monotonic()
        process.terminate()
        assert process.wait(60) == 0
        assert time.monotonic() - began < 10
        assert asked.result().status_code in (409, 503)
        assert not any(psutil.pid_exists(pid) for pid in workers)
        assert not (gateway.settings.data_dir / "run" / "query").exists()


def _is_busy(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).cpu_times().user > 0.2)
    except psutil.NoSuchProcess:
        return False


def test_what_it_does_first_it_does_without_a_log(tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, "127.0.0.1:1")
    write_events(settings.lake_dir, [("Search", "2026-01-01", "1")])
    with run_query_process(settings):
        url = f"http://{settings.host}:{settings.query_port}"
        answer = httpx.post(f"{url}/sql", json={"query": "SELECT USER_ID FROM events"}, timeout=60)
        assert answer.json()["rows"] == [["1"]]
        assert httpx.get(f"{url}/health/live", timeout=60).status_code == 200


@pytest.mark.parametrize("process", ["gateway", "query"])
def test_the_processes_that_others_depend_on_do_not_load_duckdb(process: str) -> None:
    program = f"import sys, headrace.assembly.processes.{process}; print('duckdb' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
