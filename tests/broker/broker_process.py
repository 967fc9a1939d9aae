"""`headrace broker` as a process that tests start, kill and start again, or whose power they cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path

from headrace.testing.faulty_filesystem import Survivors

START_SECONDS = 120.0


class BrokerProcess:
    """One broker on one folder and one port. `end` in a finally: it leaves no process behind."""

    def __init__(self, data_dir: Path, port: int = 0, arguments: Sequence[str] = ()) -> None:
        self._arguments = ["--data-dir", str(data_dir), *arguments]
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = f"127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "headrace.cli.main"]

    def spawn(self) -> None:
        """Start it without waiting for it."""
        assert self._process is None
        self._process = subprocess.Popen(
            [*self._command(), "broker", *self._arguments, "--port", str(self._port)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.spawn()
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            left = max(0.0, deadline - time.monotonic())
            assert wait([process.stdout], left), "the broker did not say that it is ready"
            line = process.stdout.readline()
            assert line, f"the broker ended with {process.wait()}"
            if line.startswith("ready "):
                self.bootstrap = line.split()[1]
                self._port = int(self.bootstrap.rpartition(":")[2])
                return

    def kill(self) -> None:
        """At once and without a warning."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """As an operator does; the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        code = process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait()


class PowerCutBroker(BrokerProcess):
    """A broker whose machine can lose its power (`tests.broker.power_cut`).

    `cut_power` ends it and leaves on the disk only what was synced; `start` is then the rebooted machine.
    """

    def __init__(self, data_dir: Path, port: int = 0, arguments: Sequence[str] = (), seed: int = 0) -> None:
        super().__init__(data_dir, port, arguments)
        self._boot = uuid.uuid4().hex
        self._seed = seed

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tests.broker.power_cut", self._boot, str(self._seed)]

    def cut_power(self, survivors: Survivors = "none") -> None:
        """Of what was not synced, nothing survives, or `some` of it, torn by chance, or `all`."""
        number = {"none": signal.SIGUSR1, "some": signal.SIGUSR2, "all": signal.SIGKILL}[survivors]
        os.kill(self.pid, number)
        self.wait()
        self._boot = uuid.uuid4().hex
        self._seed += 1
