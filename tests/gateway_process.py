"""The gateway as the supervisor runs it: a process of its own, on free ports, against a given log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.assembly.announcements import Announcement, latest
from headrace.core.settings import Settings, to_environment
from tests.ports import free_ports


def gateway_settings(data_dir: Path, bootstrap: str, *, events_topic: str = "events") -> Settings:
    registry_port, statements_port, console_port, query_port, postgres_port = free_ports(5)
    return Settings(
        data_dir=data_dir,
        engine="external",
        bootstrap_servers=bootstrap,
        registry_port=registry_port,
        statements_port=statements_port,
        console_port=console_port,
        query_port=query_port,
        postgres_port=postgres_port,
        events_topic=events_topic,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProcess:
    settings: Settings
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def console(self) -> str:
        return f"http://{self.settings.host}:{self.settings.console_port}"

    @property
    def registry(self) -> str:
        return f"http://{self.settings.host}:{self.settings.registry_port}"

    @property
    def statements(self) -> str:
        return f"http://{self.settings.host}:{self.settings.statements_port}"

    def announcement(self) -> Announcement | None:
        said = latest(self.settings, "gateway")
        return said if said is not None and said.pid == self.process.pid else None

    def wait_until(self, state: str, seconds: float = 60.0) -> Announcement:
        """Wait until it says so."""
        eventually(
            lambda: (said := self.announcement()) is not None and said.state == state,
            f"the gateway is {state}; it printed:\n{self.output.read_text()}",
            seconds,
            unless=lambda: state != "failed" and self.process.poll() is not None,
        )
        said = self.announcement()
        assert said is not None
        return said

    def stop(self, seconds: float = 120.0) -> int:
        """Ask it to end, and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@contextmanager
def run_gateway(settings: Settings) -> Iterator[GatewayProcess]:
    """Start it; whatever happens, nothing of it is left."""
    output = settings.data_dir / "gateway.out"
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.assembly.run_process", "gateway"],
            env={**os.environ, **to_environment(settings)},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    gateway = GatewayProcess(settings=settings, process=process, output=output)
    try:
        yield gateway
    finally:
        try:
            gateway.stop()
        finally:
            process.kill()
            process.wait()


def eventually(
    condition: Callable[[], bool],
    what: str,
    seconds: float = 120.0,
    *,
    unless: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the condition holds; not any longer once it never can."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        assert not unless(), f"it can no longer be that {what}"
        time.sleep(0.05)
