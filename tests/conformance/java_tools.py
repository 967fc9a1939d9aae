"""Apache Kafka's own tools and client, all in one JVM that lives as long as the tests.

A JVM for each command would take a second or two of both cores. Kafka's tools end through `Exit`, whose
procedures can be replaced (its own tests do so), and print to `System.out`: both are taken over here, through
py4j, which comes with PySpark. One tool runs at a time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from pyspark.errors.exceptions import captured

from headrace.java.runtime import JavaRuntime

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
}

JVM_FLAGS = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


_converted_by_spark = captured.convert_exception


def _convert_exceptions_of_spark_alone(exception: Any) -> captured.CapturedException:
    """Leaves the exceptions of other JVMs as they are.

    PySpark hooks into py4j for every JVM of the process, and asks Spark's JVM about an exception by its
    number, which stands for some other object there.
    """
    gateway = pyspark.SparkContext._gateway
    if gateway is not None and exception._gateway_client is gateway._gateway_client:
        return _converted_by_spark(exception)
    return captured.UnknownException(desc="", stackTrace="")


captured.convert_exception = _convert_exceptions_of_spark_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a tool printed, and how it ended."""

    exit_code: int
    output: str
    errors: str


class _Exit:
    """Java's `Exit.Procedure`: notes the exit code and leaves the tool by an exception."""

    def __init__(self) -> None:
        self.code: int | None = None

    def execute(self, code: int, message: str | None) -> None:
        if self.code is None:
            self.code = code
        raise RuntimeError(f"exit {code}: {message}")

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$Procedure",)


def _without_exit(text: str) -> str:
    """What was printed before the exception by which a tool is left here instead of ending the JVM."""
    return text.partition("An exception was raised by the Python Proxy")[0]


class JavaTools:
    """The JVM; `run` a tool by the name of its script, or reach any class of Kafka's through `jvm`."""

    def __init__(self, java: JavaRuntime, jars: Sequence[Path]) -> None:
        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        port, token, process = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(str(jar.resolve()) for jar in jars),
            javaopts=[*JVM_FLAGS],
            java_path=str(java.executable),
            die_on_exit=True,
            return_proc=True,
            enable_auth=True,
        )
        self._process = process
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(
                port=0, daemonize=True, daemonize_connections=True
            ),
        )
        callback_port = self._gateway.get_callback_server().get_listening_port()
        self._gateway.java_gateway_server.resetCallbackClient(
            self._gateway.java_gateway_server.getCallbackClient().getAddress(), callback_port
        )

    @property
    def jvm(self) -> Any:
        return self._gateway.jvm

    def strings(self, values: Sequence[str]) -> Any:
        """A Java array of strings."""
        array = self._gateway.new_array(self.jvm.java.lang.String, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def run(self, tool: str, *arguments: str, stdin: bytes = b"") -> Finished:
        java = self.jvm.java
        system = java.lang.System
        kafka_exit = self.jvm.org.apache.kafka.common.utils.Exit
        output, errors = java.io.ByteArrayOutputStream(), java.io.ByteArrayOutputStream()
        before = (getattr(system, "in"), system.out, system.err)
        exit_procedure = _Exit()
        system.setIn(java.io.ByteArrayInputStream(stdin))
        system.setOut(java.io.PrintStream(output, True))
        system.setErr(java.io.PrintStream(errors, True))
        kafka_exit.setExitProcedure(exit_procedure)
        kafka_exit.setHaltProcedure(exit_procedure)
        failure = ""
        try:
            self._main(TOOLS[tool])(self.strings(arguments))
        except Py4JError as error:
            if exit_procedure.code is None:
                exit_procedure.code, failure = 1, str(error)
        finally:
            kafka_exit.resetExitProcedure()
            kafka_exit.resetHaltProcedure()
            system.setIn(before[0])
            system.setOut(before[1])
            system.setErr(before[2])
        return Finished(
            exit_code=exit_procedure.code or 0,
            output=bytes(output.toByteArray()).decode(),
            errors=_without_exit(bytes(errors.toByteArray()).decode()) + failure,
        )

    def close(self) -> None:
        self._gateway.shutdown()
        # The JVM ends with its standard input.
        self._process.stdin.close()
        self._process.wait(120)

    def _main(self, class_name: str) -> Any:
        entity: Any = self.jvm
        for part in class_name.split("."):
            entity = getattr(entity, part)
        return entity.main
