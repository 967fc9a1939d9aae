"""Kafka Connect's `connect-standalone` with its file connectors: a file, through a topic, into a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from headrace.java.artifacts import Artifacts
from headrace.java.process import JavaProcess
from headrace.java.runtime import JavaRuntime
from tests.conformance.engines import Engine
from tests.ports import free_port
from tests.running_platform import wait_for

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PATIENCE = 120.0


class Standalone:
    """`connect-standalone` with a source and a sink; keeps its offsets between starts, as its users do."""

    def __init__(self, folder: Path, java: JavaRuntime, jars: list[Path], engine: Engine, topic: str) -> None:
        self._folder = folder
        self._command = [str(java.executable), *FLAGS, "-cp", os.pathsep.join(map(str, jars)), MAIN]
        self._engine = engine
        self._topic = topic
        self._process: JavaProcess | None = None
        self.source = folder / "source.txt"
        self.sink = folder / "sink.txt"
        self.source.touch()

    def start(self) -> None:
        text = "org.apache.kafka.connect.storage.StringConverter"
        worker = self._properties(
            "worker",
            {
                "bootstrap.servers": self._engine.bootstrap,
                "listeners": f"http://127.0.0.1:{free_port()}",
                "key.converter": text,
                "value.converter": text,
                "offset.storage.file.filename": str(self._folder / "offsets"),
                "offset.flush.interval.ms": "200",
                "plugin.discovery": "service_load",
                # One that was killed is in the way of its successor for so long.
                "consumer.session.timeout.ms": "6000",
            },
        )
        source = self._properties(
            "source",
            {
                "name": f"{self._topic}-source",
                "connector.class": "FileStreamSource",
                "file": str(self.source),
                "topic": self._topic,
                "batch.size": "100",
            },
        )
        sink = self._properties(
            "sink",
            {
                "name": f"{self._topic}-sink",
                "connector.class": "FileStreamSink",
                "file": str(self.sink),
                "topics": self._topic,
            },
        )
        self._process = JavaProcess(
            [*self._command, *map(str, (worker, source, sink))],
            folder=self._folder,
            log_file=self._folder / "connect.log",
        )

    def write(self, *lines: str) -> None:
        with self.source.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def written(self) -> list[str]:
        return self.sink.read_text(encoding="utf-8").splitlines() if self.sink.exists() else []

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        assert self._process.wait(PATIENCE)

    def stop(self) -> None:
        if self._process is not None and self._process.exit_code is None:
            self._process.stop(PATIENCE)

    def explain(self) -> str:
        assert self._process is not None
        return self._process.last_lines()

    def _properties(self, name: str, values: dict[str, str]) -> Path:
        path = self._folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
        return path


@pytest.fixture
def connect(
    tmp_path: Path, java: JavaRuntime, artifacts: Artifacts, engine: Engine, new_topic: Callable[..., str]
) -> Iterator[Standalone]:
    standalone = Standalone(tmp_path, java, artifacts.jars("kafka"), engine, new_topic())
    yield standalone
    standalone.stop()


@pytest.mark.long
def test_lines_go_from_file_to_file_whatever_happens_to_connect(
    connect: Standalone, engine: Engine, topic_name: str
) -> None:
    eventually = partial(wait_for, seconds=PATIENCE, explain=connect.explain)
    first = [f"line {number}" for number in range(500)]
    connect.write(*first)
    connect.start()
    eventually(lambda: connect.written() == first, "all of the first lines are there")
    admin = AdminClient({"bootstrap.servers": engine.bootstrap})
    group = f"connect-{topic_name}-sink"
    eventually(lambda: committed(admin, group, topic_name) == 500, "the sink has committed")

    connect.kill()
    second = [f"line {number}" for number in range(500, 600)]
    connect.write(*second)
    connect.start()
    eventually(lambda: set(connect.written()) >= {*first, *second}, "the other lines are there")
    # The source says now and then how far it is: after a kill it goes back, but not for good, and in order.
    again = connect.written()[500:-100]
    assert connect.written() == [*first, *again, *second]
    assert again == first[len(first) - len(again) :]
    connect.stop()
    assert committed(admin, group, topic_name) == 600 + len(again)


def committed(admin: AdminClient, group: str, topic: str) -> int:
    wanted = ConsumerGroupTopicPartitions(group)
    (future,) = admin.list_consumer_group_offsets([wanted]).values()
    found = future.result(timeout=120).topic_partitions
    return next((each.offset for each in found if each.topic == topic and each.partition == 0), -1)
