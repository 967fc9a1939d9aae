"""The two brokers as separate processes, each with its own folder and port.

Apache Kafka runs as its own start script starts it: with the JVM flags of `kafka-server-start.sh` and
`kafka-run-class.sh` (1 GiB of heap, G1 with their pause goal) and the values of its
`config/server.properties`. Its storage is formatted beforehand, which is never counted. The embedded broker
runs as `headrace broker` with its defaults.

Invariants: the kernel kills a broker when the benchmark dies; only processes started here are ever signalled;
a broker's output is in `<folder>/output.log`.
"""

from __future__ import annotations

import base64
import functools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from headrace.client.readiness import wait_until_serving
from headrace.core.settings import Settings
from headrace.java import exec_with_parent
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java

EMBEDDED: Final = "embedded"
# The embedded broker of another checkout.
FORMER: Final = "former"
HOST: Final = "127.0.0.1"
START_TIMEOUT: Final = 120.0
STOP_TIMEOUT: Final = 120.0
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})

# KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh, for servers and tools.
RUN_CLASS_FLAGS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# Its KAFKA_JMX_OPTS.
JMX_FLAGS: Final = (
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
# The distribution's config/server.properties, without host, ports and folder.
SERVER_PROPERTIES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


class Broker(ABC):
    """One broker: `start`, `wait_ready`, then `stop` or `kill`; it can be restarted on its folder."""

    def __init__(self, name: str, folder: Path, *, ready_line: str) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.started_at = 0.0
        self.ready_at = 0.0
        self._ready_line = ready_line
        self._ready = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    def start(self) -> None:
        """Start the process and record when; does not wait."""
        self._ready.clear()
        command = [sys.executable, "-I", "-S", exec_with_parent.__file__, str(os.getpid()), *self._command()]
        self.started_at = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(),
        )
        threading.Thread(target=self._read_output, args=(self._process,), daemon=True).start()

    def wait_ready(self) -> None:
        """Return once it has reported that it is ready, and answers."""
        deadline = time.monotonic() + START_TIMEOUT
        while not self._ready.wait(0.05):
            self._check_alive()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not ready; see {self.folder / 'output.log'}")
        wait_until_serving(self.bootstrap, brokers=1, deadline=deadline, between=self._check_alive)

    def stop(self) -> None:
        """Ask it to shut down, and wait."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._end(signal.SIGKILL)

    def erase(self) -> None:
        """Delete all its data, so that the next start is on an empty folder."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    @abstractmethod
    def _command(self) -> list[str]: ...

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} is not started"
        return self._process

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        self._process = None

    def _check_alive(self) -> None:
        if self._child.poll() is not None:
            said = (self.folder / "output.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} exited with code {self._child.returncode}:\n{said}")

    def _read_output(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        expected = self._ready_line.encode()
        with (self.folder / "output.log").open("ab", buffering=0) as log:
            for line in process.stdout:
                if expected in line and not self._ready.is_set():
                    self.ready_at = time.monotonic()
                    self._ready.set()
                log.write(line)


class EmbeddedBroker(Broker):
    """`headrace broker`, or another command that takes its options."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = EMBEDDED,
        command: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        super().__init__(name, folder, ready_line="ready ")
        self._properties = properties
        self._program = shlex.split(command) or [str(Path(sys.executable).with_name("headrace")), "broker"]

    def _command(self) -> list[str]:
        properties = (f"--set={name}={value}" for name, value in self._properties.items())
        place = ("--port", str(self.port), "--data-dir", str(self.folder / "data"))
        return [*self._program, *place, *properties]


class ApacheKafka(Broker):
    """One Apache Kafka 4.3.1, broker and controller in one JVM, as its distribution would start it."""

    def __init__(
        self, folder: Path, *, name: str = "Apache Kafka", heap: str = "1g", properties: Mapping[str, str]
    ) -> None:
        super().__init__(name, folder, ready_line="Kafka Server started")
        self._heap = heap
        controller = f"{HOST}:{free_port()}"
        values = {
            **SERVER_PROPERTIES,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": "data",
            **properties,
        }
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        (folder / "server.properties").write_text(text, encoding="ascii")
        self._format()

    def erase(self) -> None:
        super().erase()
        self._format()

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"),
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    def _command(self) -> list[str]:
        return java(
            "kafka.Kafka",
            "server.properties",
            flags=(
                f"-Xmx{self._heap}",
                f"-Xms{self._heap}",
                *JMX_FLAGS,
                "-Xlog:gc*:file=gc.log:time,tags:filecount=10,filesize=100M",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            ),
        )


def _environment() -> dict[str, str]:
    """This process's environment without another allocator, which is meant for the client in this process."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def java(main_class: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    """A command line for Kafka's classes as `kafka-run-class.sh` builds it."""
    executable, classpath = _java_and_classpath()
    return [executable, *flags, *RUN_CLASS_FLAGS, "-cp", classpath, main_class, *arguments]


@functools.cache
def _java_and_classpath() -> tuple[str, str]:
    """Looked up once: it takes a while, which must not count."""
    classpath = Artifacts(Settings().cache_dir.expanduser()).classpath("kafka")
    return str(find_java().executable.absolute()), classpath


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port
