"""A platform that `headrace up` of any checkout started, to compare a change with what was before.

Invariants: free ports, an empty folder, everything ended with the block; the checkout is known by its command
alone, and nothing of it is imported.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from headrace.core.settings import Settings
from side_by_side.processes import CpuTime
from side_by_side.whole_platform import cpu_of_family, free_settings

_PATIENCE: Final = 180.0
_STOP_SECONDS: Final = 60.0


class UpPlatform:
    """A platform that is up."""

    def __init__(self, name: str, settings: Settings, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.settings = settings
        self._process = process

    def run(self, statements: str, **properties: str) -> str | None:
        """POST /ksql; returns the id of the query that the last statement started, if any."""
        url = f"http://{self.settings.host}:{self.settings.statements_port}/ksql"
        with httpx.Client(timeout=60, trust_env=False) as client:
            answer = client.post(url, json={"ksql": statements, "streamsProperties": properties})
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"{statements} failed: {answer.text}")
        query_id: str | None = answer.json()[-1].get("commandStatus", {}).get("queryId")
        return query_id

    def connect(self, connector: Mapping[str, Any]) -> None:
        """POST /connectors, if this version has such connectors; older ones fill the lake by themselves."""
        url = f"http://{self.settings.host}:{self.settings.connect_port}"
        with httpx.Client(timeout=60, trust_env=False) as client:
            try:
                plugins = client.get(f"{url}/connector-plugins").json()
            except httpx.ConnectError:
                return
            if connector["config"]["connector.class"] not in {each["class"] for each in plugins}:
                return
            client.post(f"{url}/connectors", json=connector).raise_for_status()

    def cpu(self) -> CpuTime:
        """CPU time of all its processes."""
        return cpu_of_family(self._process.pid)


@contextmanager
def up(name: str, command: str) -> Iterator[UpPlatform]:
    """A platform on an empty folder; removed at the end, on SIGTERM too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        settings = free_settings(folder)
        output = stack.enter_context((folder / "up.log").open("wb"))
        flags = [
            f"--{setting.replace('_', '-')}={getattr(settings, setting)}"
            for setting in ("data_dir", "cache_dir", "kafka_port", "ingest_port", "registry_port")
        ]
        flags += [f"--console-port={settings.console_port}", f"--statements-port={settings.statements_port}"]
        # Older versions have no Connect.
        known = subprocess.run([command, "up", "--help"], capture_output=True, text=True, check=True)
        if "--connect-port" in known.stdout:
            flags += [
                f"--connect-port={settings.connect_port}",
                f"--connect-second-port={settings.connect_second_port}",
            ]
        process = subprocess.Popen(
            [command, "up", *flags, "--spark-ui-port=0"], stdout=output, stderr=output, cwd=folder
        )
        stack.callback(_stop, process)
        _wait_until_up(process, settings, folder / "up.log")
        yield UpPlatform(name, settings, process)


def _wait_until_up(process: subprocess.Popen[bytes], settings: Settings, output: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    url = f"http://{settings.host}:{settings.console_port}/health"
    while True:
        try:
            if httpx.get(url, timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the platform did not start:\n{output.read_text()[-2000:]}")
        time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
