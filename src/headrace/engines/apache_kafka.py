"""Apache Kafka (KRaft) as the log engine: one or more brokers, as child JVMs of this process.

Invariants: data and identity are kept in the folder, so a restart continues where the last run ended; the
brokers die with this process (Linux) or are shut down cleanly by `stop`; a port in use is reported before
anything starts. Never touches a process or a folder that is not its own.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from headrace.client.readiness import wait_until_serving
from headrace.core.addresses import bracketed, reachable_host
from headrace.core.errors import HeadraceError
from headrace.engines.kraft import Broker, Cluster, open_cluster
from headrace.java.process import JavaProcess
from headrace.java.runtime import JavaRuntime

FORMAT_TIMEOUT: Final = 120.0
# For brokers, and again for controllers; together less than the supervisor gives this process.
STOP_TIMEOUT: Final = 25.0
JVM_FLAGS: Final = (
    "-server",
    "-Xms128m",
    # Compared with G1 it starts as fast, serves as fast on two cores, and takes 50 MB less.
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
)


class ApacheKafka:
    """A cluster in a folder. `start`, `wait_ready`, then `stop`; after that it can be started again."""

    def __init__(  # noqa: PLR0917
        self,
        data_dir: Path,
        java: JavaRuntime,
        jars: list[Path],
        host: str,
        port: int,
        brokers: int = 1,
        default_partitions: int = 1,
        *,
        ports: Sequence[int] = (),
        advertised_host: str = "",
        heap: str = "512m",
        max_message_bytes: int = 2 * 1024 * 1024,
    ) -> None:
        """Brokers listen on `port` and those after it, unless `ports` gives one for each."""
        self._data_dir = data_dir
        self._java = java
        self._classpath = ":".join(str(jar.resolve()) for jar in jars)
        self._host = host
        self._advertised_host = reachable_host(host, advertised_host)
        self._ports = tuple(ports) or tuple(range(port, port + brokers))
        self._default_partitions = default_partitions
        self._heap = heap
        self._max_message_bytes = max_message_bytes
        self._processes: dict[Broker, JavaProcess] = {}
        self._lock: IO[str] | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(self._address(port) for port in self._ports)

    @property
    def pids(self) -> tuple[int, ...]:
        """The pids of the started JVMs, in broker order."""
        return tuple(process.pid for process in self._processes.values())

    def start(self) -> None:
        """Format what is not formatted yet and start the brokers, without waiting for them."""
        for port in self._ports:
            _refuse_port_in_use(self._host, port)
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _hold(self._data_dir)
        try:
            cluster = open_cluster(
                self._data_dir,
                host=self._host,
                advertised_host=self._advertised_host,
                ports=self._ports,
                default_partitions=self._default_partitions,
                max_message_bytes=self._max_message_bytes,
            )
            for broker in cluster.brokers:
                cluster.write_properties(broker)
            self._format(cluster)
            for broker in cluster.brokers:
                command = self._command("kafka.Kafka", broker.properties_file.name)
                self._processes[broker] = JavaProcess(command, folder=broker.folder, log_file=broker.log_file)
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, timeout: float) -> None:
        """Return once every broker is serving and knows all others. Raises process_failed if one exits."""
        deadline = time.monotonic() + timeout
        for port in self._ports:
            wait_until_serving(
                self._address(port), brokers=len(self._ports), deadline=deadline, between=self.check_alive
            )

    def check_alive(self) -> None:
        """Raise process_failed, with the end of its log, if a broker has exited unexpectedly."""
        for broker, process in self._processes.items():
            if process.exit_code is not None:
                raise HeadraceError(
                    "process_failed",
                    f"Kafka broker {broker.node_id} exited with code {process.exit_code}. "
                    f"The last lines of {broker.log_file}:\n{process.last_lines()}",
                )

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Shut down all brokers and wait for them; one that takes too long is killed."""
        # A broker needs a controller's consent to leave: controllers go last, and together, while they still
        # have a majority.
        for controllers in (False, True):
            deadline = time.monotonic() + timeout
            leaving = [
                process
                for broker, process in self._processes.items()
                if (broker.controller_port is not None) == controllers
            ]
            for process in leaving:
                process.terminate()
            for process in leaving:
                process.stop(deadline - time.monotonic())
        self._processes.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _address(self, port: int) -> str:
        return f"{bracketed(self._host)}:{port}"

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        executable = str(self._java.executable.absolute())
        return [executable, f"-Xmx{self._heap}", *JVM_FLAGS, "-cp", self._classpath, main_class, *arguments]

    def _format(self, cluster: Cluster) -> None:
        for broker in cluster.brokers:
            if broker.formatted:
                continue
            arguments = (
                "format",
                "--cluster-id",
                cluster.cluster_id,
                "--config",
                broker.properties_file.name,
            )
            try:
                subprocess.run(
                    self._command("kafka.tools.StorageTool", *arguments),
                    cwd=broker.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=FORMAT_TIMEOUT,
                    check=True,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                said = (error.stdout or b"").decode(errors="replace").strip()[-2000:]
                raise HeadraceError(
                    "process_failed", f"Cannot format {broker.folder} for Kafka:\n{said}"
                ) from error


def _hold(data_dir: Path) -> IO[str]:
    """Keep others out of the folder until the file is closed: two clusters in one folder destroy its data."""
    file = (data_dir / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise HeadraceError(
            "data_dir_in_use",
            f"Another Apache Kafka engine is running in {data_dir}.",
            remedy="Stop it, or choose another folder with data_dir.",
        ) from error
    return file


def _refuse_port_in_use(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Kafka does; TIME_WAIT does not prevent it
        try:
            candidate.bind((host, port))
            candidate.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise HeadraceError(
                    "port_in_use",
                    f"Port {port} on {host}, for a Kafka broker, is in use.",
                    remedy="Stop the process that listens there, or choose another port with kafka_port.",
                ) from error
            raise HeadraceError(
                "invalid_setting",
                f"A Kafka broker cannot listen on {host}:{port}: {error}.",
                remedy="Check host and kafka_port.",
            ) from error
