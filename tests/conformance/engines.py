"""The two log engines as the conformance tests see them: a name and an address, and a way to stop and start.

Apache Kafka is the oracle; the embedded broker runs as its own process, as `headrace broker` starts it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.conformance.raw_client import RawClient

KAFKA = "kafka"
EMBEDDED = "embedded"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 120.0
# As the session's Apache Kafka is configured (tests/conftest.py).
MAX_MESSAGE_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A broker that serves."""

    name: str
    bootstrap: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def connect(self) -> RawClient:
        return RawClient(self.address)


class Server(Protocol):
    """A broker that can be stopped, and started again on what it has kept."""

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def wait_ready(self, timeout: float) -> None: ...

    def stop(self) -> None: ...


class EmbeddedServer:
    """`headrace broker` in a process of its own; takes a free port at its first start and keeps it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._said: deque[str] = deque(maxlen=40)
        self._ready = threading.Event()
        self.bootstrap = ""

    def start(self) -> None:
        self._ready.clear()
        command = [
            *(sys.executable, "-m", "headrace.cli.main", "broker"),
            *("--host", "127.0.0.1", "--port", str(self._port), "--data-dir", str(self._data_dir)),
            *("--set", f"message.max.bytes={MAX_MESSAGE_BYTES}"),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        assert self._process is not None
        if not self._ready.wait(timeout) or not self.bootstrap:
            raise AssertionError("the embedded broker did not start:\n" + "".join(self._said))

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None
            # Its last act is to say that it is over, which must not be taken for the next start.
            self._listener.join()
        assert code == 0, f"the embedded broker ended with {code}:\n" + "".join(self._said)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._said.append(line)
                if line.startswith("ready ") and not self._ready.is_set():
                    self.bootstrap = line.split()[1]
                    self._port = int(self.bootstrap.rpartition(":")[2])
                    self._ready.set()
        self._ready.set()
