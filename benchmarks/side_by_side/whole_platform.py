"""The whole platform in its own folder, as `headrace up` starts it, and its statements over REST.

Invariants: free ports, an empty folder, everything ended with the block; only the platform's own processes
are examined or signalled.
"""

from __future__ import annotations

import dataclasses
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from headrace.assembly.preparation import prepare
from headrace.assembly.supervisor import Supervisor
from headrace.core.settings import Settings
from side_by_side.processes import CpuTime, cpu_time

HEADRACE: Final = "headrace"
PIPELINE: Final = "pipeline"
LOG: Final = "log"


class Platform:
    """A platform that is up."""

    name = HEADRACE

    def __init__(self, settings: Settings, supervisor: Supervisor) -> None:
        self.settings = settings
        self._supervisor = supervisor
        self._client = httpx.Client(
            base_url=f"http://{settings.host}:{settings.statements_port}", timeout=60, trust_env=False
        )

    def run(self, statements: str, **properties: str) -> list[dict[str, Any]]:
        """POST /ksql; returns the answers, one per statement."""
        answer = self._client.post("/ksql", json={"ksql": statements, "streamsProperties": properties})
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"{statements} failed: {answer.text}")
        content: list[dict[str, Any]] = answer.json()
        return content

    def start_query(self, statement: str, **properties: str) -> str:
        """Run a statement that creates a query; returns its id."""
        status = self.run(statement, **properties)[-1]["commandStatus"]
        query_id: str | None = status["queryId"]
        if query_id is None:
            raise RuntimeError(f"{statement} started no query: {status}")
        return query_id

    def states(self) -> dict[str, str]:
        """The state of each query, as the pipeline has written it."""
        url = f"http://{self.settings.host}:{self.settings.console_port}/flow"
        with httpx.Client(timeout=60, trust_env=False) as client:
            return {query["query"]: query["state"] for query in client.get(url).json()["queries"]}

    def pid(self, process: str = PIPELINE) -> int:
        pid = next(state.pid for state in self._supervisor.states() if state.name == process)
        assert pid is not None, f"{process} is not running"
        return pid

    def cpu(self, process: str = PIPELINE) -> CpuTime:
        """CPU time of one of the platform's processes and everything it started, such as Spark's JVM."""
        return cpu_of_family(self.pid(process))

    def close(self) -> None:
        self._client.close()


def cpu_of_family(pid: int) -> CpuTime:
    """CPU time of a process and of its running descendants.

    Stock Hadoop starts a `chmod` for each file: such a child may end while it is being examined.
    """
    times = [cpu_time(pid)]
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(FileNotFoundError, ProcessLookupError):
            times.append(cpu_time(child.pid))
    return CpuTime(user=sum(each.user for each in times), system=sum(each.system for each in times))


@contextmanager
def started_platform(**changed: Any) -> Iterator[Platform]:
    """A platform on an empty folder with these settings changed; removed at the end, on SIGTERM too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        settings = free_settings(folder, **changed)
        prepare(settings)
        supervisor = Supervisor(settings, whole=True)
        stack.callback(supervisor.stop)
        supervisor.start()
        platform = Platform(settings, supervisor)
        stack.callback(platform.close)
        yield platform


def free_settings(folder: Path, **changed: Any) -> Settings:
    """Settings of a platform in this folder, on free ports."""
    with ExitStack() as stack:
        ports = []
        for _ in range(9):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
    return dataclasses.replace(
        Settings(),
        **{
            "data_dir": folder,
            "cache_dir": Settings().cache_dir.expanduser(),
            "kafka_port": ports[0],
            "ingest_port": ports[1],
            "registry_port": ports[2],
            "console_port": ports[3],
            "statements_port": ports[4],
            "connect_port": ports[5],
            "connect_second_port": ports[6],
            "query_port": ports[7],
            "postgres_port": ports[8],
            "spark_ui_port": 0,
            **changed,
        },
    )
