"""The Connect process as the supervisor runs it: on free ports, against a given log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from headrace.assembly.announcements import latest
from headrace.core.settings import Settings, to_environment
from tests.gateway_process import eventually
from tests.ports import free_ports

SECONDS = 60.0


def connect_settings(data_dir: Path, bootstrap: str, **changes: Any) -> Settings:
    first, second = free_ports(2)
    return Settings(
        data_dir=data_dir,
        engine="external",
        bootstrap_servers=bootstrap,
        connect_port=first,
        connect_second_port=second,
        **changes,
    )


@dataclass(slots=True, kw_only=True)
class ConnectProcess:
    """`start`, `kill` or `stop`, and `start` again; `client` asks it."""

    settings: Settings
    client: httpx.Client
    process: subprocess.Popen[bytes] | None = None

    @property
    def files(self) -> Path:
        """The folder that its file connectors may use."""
        folder = self.settings.data_dir / "files"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def output(self) -> Path:
        return self.settings.data_dir / "connect.out"

    def start(self) -> None:
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as file:
            self.process = process = subprocess.Popen(
                [sys.executable, "-m", "headrace.assembly.run_process", "connect"],
                env={**os.environ, **to_environment(self.settings)},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        eventually(
            lambda: (
                (said := latest(self.settings, "connect")) is not None
                and (said.pid, said.state) == (process.pid, "ready")
            ),
            "the Connect process is ready",
            SECONDS,
            unless=lambda: process.poll() is not None,
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    def ask(self, method: str, path: str, content: Any = None) -> httpx.Response:
        return (
            self.client.request(method, path, json=content)
            if content is not None
            else self.client.request(method, path)
        )

    def create(self, name: str, **config: str) -> None:
        """Settings are written with underscores."""
        named = {setting.replace("_", "."): value for setting, value in config.items()}
        answer = self.ask("POST", "/connectors", {"name": name, "config": named})
        assert answer.status_code == 201, answer.text

    def states(self, name: str) -> list[str]:
        """Of the connector and of its tasks."""
        answer = self.ask("GET", f"/connectors/{name}/status")
        if answer.status_code != 200:
            return []
        content = answer.json()
        return [content["connector"]["state"], *(task["state"] for task in content["tasks"])]

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        eventually(
            condition, what, SECONDS, unless=lambda: self.process is None or self.process.poll() is not None
        )

    def wait_states(self, name: str, *states: str) -> None:
        self.wait(lambda: self.states(name) == list(states), f"{name} is {states}, not {self.states(name)}")


@contextmanager
def running_connect(data_dir: Path, bootstrap: str, **changes: Any) -> Iterator[ConnectProcess]:
    """Started; whatever happens, nothing of it is left."""
    settings = connect_settings(data_dir, bootstrap, **changes)
    with httpx.Client(base_url=f"http://127.0.0.1:{settings.connect_port}", timeout=SECONDS) as client:
        connect = ConnectProcess(settings=settings, client=client)
        connect.start()
        try:
            yield connect
        finally:
            try:
                connect.stop()
            finally:
                connect.kill()


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
