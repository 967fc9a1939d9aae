"""The ingest process as the supervisor runs it: granian, its workers, signals and the port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from headrace.assembly.announcements import latest
from headrace.core.settings import Settings, to_environment
from headrace.testing import EmbeddedBroker
from tests.http.events.driving import read_topic
from tests.ports import free_port

SECONDS = 120.0


def wait_for(condition: Callable[[], Any], what: str, output: Path | None = None) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    printed = output.read_text() if output else ""
    pytest.fail(f"{what} did not happen within {SECONDS} s\n{printed}")


@dataclass(frozen=True, slots=True)
class Ingest:
    settings: Settings
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def url(self) -> str:
        return f"http://{self.settings.host}:{self.settings.ingest_port}"

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_ready(self) -> None:
        wait_for(self._is_ready, "ready", self.output)

    def _is_ready(self) -> bool:
        said = latest(self.settings, "ingest")
        return said is not None and (said.pid, said.state) == (self.process.pid, "ready")

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.settings.host, self.settings.ingest_port)) == 0


def start(settings: Settings, folder: Path) -> Ingest:
    output = folder / "ingest.log"
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", "ingest"],
            env={**os.environ, **to_environment(settings)},
            cwd=folder,
            stdout=file,
            stderr=file,
        )
    return Ingest(settings, process, output)


@pytest.fixture
def ingest(broker: EmbeddedBroker, topic_name: str, tmp_path: Path) -> Iterator[Ingest]:
    settings = Settings(
        data_dir=tmp_path / "data",
        cache_dir=tmp_path / "cache",
        engine="external",
        bootstrap_servers=broker.bootstrap,
        ingest_port=free_port(),
        ingest_workers=2,
        events_topic=topic_name,
    )
    running = start(settings, tmp_path)
    workers: list[psutil.Process] = []
    try:
        running.wait_ready()
        workers = running.workers()
        yield running
    finally:
        if running.process.poll() is None:
            workers += running.workers()
            running.process.kill()
        running.process.wait(SECONDS)
        _, alive = psutil.wait_procs(workers, SECONDS)
        for worker in alive:
            worker.kill()
        assert not alive, "workers outlived the process"


def test_it_serves_and_ends_cleanly(ingest: Ingest, broker: EmbeddedBroker) -> None:
    assert len(ingest.workers()) == 2
    with httpx.Client(base_url=ingest.url, timeout=SECONDS) as client:
        assert client.get("/health").json() == {"status": "ok"}
        answer = client.post("/events", json=[{"User_ID": "ann"}, {"User_ID": "bob"}, 1])
        assert answer.status_code == 400
        assert [each["index"] for each in answer.json()["accepted"]] == [0, 1]
        assert [each["index"] for each in answer.json()["rejected"]] == [2]
        assert client.get("/events").headers["allow"] == "POST"
    records = read_topic(broker.bootstrap, ingest.settings.events_topic, 0, 2)
    assert [record.key() for record in records] == [b"ann", b"bob"]
    workers = ingest.workers()
    ingest.process.send_signal(signal.SIGTERM)
    assert ingest.process.wait(SECONDS) == 0, ingest.output.read_text()
    assert not psutil.wait_procs(workers, SECONDS)[1]
    assert not ingest.listens()


def test_a_request_under_way_is_answered_before_the_process_ends(ingest: Ingest) -> None:
    body = b'{"User_ID":"ann"}\n' * 3
    head = (
        b"POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
        b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    with socket.create_connection((ingest.settings.host, ingest.settings.ingest_port), SECONDS) as connection:
        connection.sendall(head)
        # The server says that when the application asks for the body: from here on the request is under way.
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100")
        ingest.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not ingest.listens(), "the end of listening")
        assert ingest.process.poll() is None
        connection.sendall(body)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    status, _, rest = answer.partition(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert len(json.loads(rest.partition(b"\r\n\r\n")[2])["accepted"]) == 3
    assert ingest.process.wait(SECONDS) == 0, ingest.output.read_text()


def test_no_worker_outlives_a_killed_process_and_the_port_is_free(ingest: Ingest, tmp_path: Path) -> None:
    workers = ingest.workers()
    ingest.process.kill()
    ingest.process.wait(SECONDS)
    assert not psutil.wait_procs(workers, SECONDS)[1]
    successor = start(ingest.settings, tmp_path)
    try:
        successor.wait_ready()
        assert httpx.post(f"{successor.url}/events", json={"n": 1}, timeout=SECONDS).status_code == 200
    finally:
        successor.process.terminate()
        assert successor.process.wait(SECONDS) == 0


def test_a_killed_worker_is_replaced(ingest: Ingest) -> None:
    before = {worker.pid for worker in ingest.workers()}
    os.kill(min(before), signal.SIGKILL)

    def replaced() -> bool:
        now = {worker.pid for worker in ingest.workers()}
        return len(now) == 2 and now != before

    wait_for(replaced, "a new worker")
    assert ingest.process.poll() is None

    def taken() -> bool:
        try:
            return httpx.post(f"{ingest.url}/events", json={"n": 1}, timeout=10).status_code == 200
        except httpx.TransportError:
            # This connection was waiting at the socket of the worker that was killed.
            return False

    wait_for(taken, "an event that is taken again")


def test_a_port_in_use_is_said_with_its_setting(ingest: Ingest, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    environment = {**os.environ, **to_environment(ingest.settings), "HEADRACE_DATA_DIR": str(other)}
    second = subprocess.run(
        [sys.executable, "-m", "headrace.assembly.run_process", "ingest"],
        env=environment,
        cwd=other,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert second.returncode != 0
    assert f"Port {ingest.settings.ingest_port} (setting `ingest_port`) is in use" in second.stderr
