"""Apache Kafka's log cleaner as a program: its own classes in a JVM with its server's flags, on a folder.

Driven through py4j, which comes with PySpark: one call per round of cleaning, so that only Kafka's code is
measured. The cleaner has the sizes that a broker gives it by default: 128 MiB for keys, buffers of half a
MiB, no limit on reading and writing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from side_by_side.engines import RUN_CLASS_FLAGS
from side_by_side.processes import cpu_time

KEY_MEMORY: Final = 128 << 20
BUFFER: Final = 512 << 10
LARGEST_BATCH: Final = 1048588
LOAD_FACTOR: Final = 0.9
UNLIMITED: Final = 1.7976931348623157e308


class _NeverStops:
    """Java's `Consumer<TopicPartition>`, through which cleaning can be stopped."""

    def accept(self, partition: object) -> None: ...

    class Java:
        implements = ("java.util.function.Consumer",)


class KafkaCleaner:
    """A JVM that cleans logs."""

    def __init__(self, heap: str) -> None:
        (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        port, token, process = launch_gateway(
            jarpath=str(jar),
            classpath=Artifacts(Settings().cache_dir.expanduser()).classpath("kafka"),
            javaopts=[
                f"-Xmx{heap}",
                f"-Xms{heap}",
                *RUN_CLASS_FLAGS,
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            ],
            java_path=str(find_java().executable.absolute()),
            die_on_exit=True,
            return_proc=True,
            enable_auth=True,
            redirect_stderr=Path(os.devnull).open("wb"),  # noqa: SIM115 - the gateway keeps it
        )
        self._process = process
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(
                port=0, daemonize=True, daemonize_connections=True
            ),
        )
        server = self._gateway.java_gateway_server
        server.resetCallbackClient(
            server.getCallbackClient().getAddress(),
            self._gateway.get_callback_server().get_listening_port(),
        )
        self._kafka = self._gateway.jvm.org.apache.kafka
        self._log = self._kafka.storage.internals.log
        time = self._kafka.common.utils.Time.SYSTEM
        throttler = self._kafka.storage.internals.utils.Throttler(UNLIMITED, 300, "cleaner-io", "bytes", time)
        keys = self._log.SkimpyOffsetMap(KEY_MEMORY)
        self._cleaner = self._log.Cleaner(
            0, keys, BUFFER, LARGEST_BATCH, LOAD_FACTOR, throttler, time, _NeverStops()
        )

    def cpu_seconds(self) -> float:
        return cpu_time(self._process.pid).total

    def open(self, folder: Path, segment_bytes: int) -> Any:
        """The log in a folder, as a broker opens it after a clean stop."""
        properties = self._gateway.jvm.java.util.HashMap()
        properties.put("cleanup.policy", "compact")
        properties.put("segment.bytes", str(segment_bytes))
        return self._log.UnifiedLog.create(
            self._gateway.jvm.java.io.File(str(folder)),
            self._log.LogConfig(properties),
            0,
            0,
            self._kafka.server.util.KafkaScheduler(1),
            self._kafka.storage.log.metrics.BrokerTopicStats(False),
            self._kafka.common.utils.Time.SYSTEM,
            900_000,
            self._log.ProducerStateManagerConfig(86_400_000, False),
            600_000,
            self._log.LogDirFailureChannel(1),
            True,
            self._gateway.jvm.java.util.Optional.empty(),
        )

    def clean(self, log: Any, end_offset: int, now_ms: int) -> int:
        """One round over everything before `end_offset`; returns the offset up to which the log is clean."""
        cleaned: int = self._cleaner.doClean(self._log.LogToClean(log, 0, end_offset, False), now_ms).getKey()
        return cleaned

    def close(self) -> None:
        self._gateway.shutdown()
        # The JVM ends with its standard input.
        self._process.stdin.close()
        self._process.wait(30)
