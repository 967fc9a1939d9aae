"""A worker in the test's process, on a real broker, with plugins that do what a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from headrace.connect.connectors.builtin import builtin_plugins
from headrace.connect.connectors.files import AnyFile
from headrace.connect.converters import STRING_CONVERTER
from headrace.connect.data import STRING, SinkRecord, SourceRecord
from headrace.connect.definitions import Definition
from headrace.connect.offset_changes import OffsetChanges
from headrace.connect.plugins import Config, Plugin, Plugins, TaskContext, tasks_alike
from headrace.connect.service import ConnectService
from headrace.connect.state import configs, source_offsets, statuses
from headrace.connect.state.configs import ConfigLog
from headrace.connect.state.logs import LogFactory, MemoryLog, compacted_log
from headrace.connect.state.source_offsets import OffsetLog
from headrace.connect.state.statuses import StatusLog
from headrace.connect.worker.parts import WorkerParts
from headrace.connect.worker.worker import Worker
from tests.gateway_process import eventually

SECONDS = 30.0


class Scripted:
    """What all tasks of a test's plugin share: what was done to them, and what they are to do."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.taken: list[SinkRecord] = []
        # By the name of the method: called first, and may raise or wait.
        self.on: dict[str, Callable[[], None]] = {}
        self.to_give: list[list[SourceRecord]] = []
        self.lock = threading.Lock()

    def happen(self, event: str) -> None:
        with self.lock:
            self.events.append(event)
        self.on.get(event, lambda: None)()


class ScriptedTask:
    """Source and sink in one."""

    def __init__(self, script: Scripted) -> None:
        self._script = script

    def start(self, config: Config, context: TaskContext) -> None:
        self.config, self.context = config, context
        self._script.happen("start")

    def poll(self) -> Sequence[SourceRecord]:
        self._script.on.get("poll", lambda: None)()
        with self._script.lock:
            if self._script.to_give:
                return self._script.to_give.pop(0)
        self.context.wait(0.02)
        return []

    def commit(self) -> None:
        self._script.happen("commit")

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._script.on.get("put", lambda: None)()
        with self._script.lock:
            self._script.taken += records

    def flush(self) -> None:
        self._script.happen("flush")

    def stop(self) -> None:
        self._script.happen("stop")


def scripted_source(script: Scripted, **more: Any) -> Plugin:
    return Plugin(
        **{
            "class_name": "test.ScriptedSourceConnector",
            "kind": "source",
            "version": "1",
            "settings": (),
            "new_task": lambda: ScriptedTask(script),
            **more,
        }
    )


def scripted_sink(script: Scripted, **more: Any) -> Plugin:
    return Plugin(
        **{
            "class_name": "test.ScriptedSinkConnector",
            "kind": "sink",
            "version": "1",
            "settings": (Definition(name="level", kind="INT", default=1, documentation=""),),
            "new_task": lambda: ScriptedTask(script),
            "task_configs": tasks_alike,
            "task_class": "test.ScriptedSinkTask",
            **more,
        }
    )


def text_record(topic: str, value: Any, offset: int | None = None, **more: Any) -> SourceRecord:
    place = {} if offset is None else {"source_partition": {"p": 1}, "source_offset": {"o": offset}}
    return SourceRecord(topic=topic, value=value, value_schema=STRING, **place, **more)


class Harness:
    """A running worker and what can be asked of it."""

    def __init__(self, parts: WorkerParts) -> None:
        self.parts = parts
        self.worker = Worker(parts)
        self.service = ConnectService(parts, self.worker)
        self.offsets = OffsetChanges(self.service)

    def create(self, name: str, **config: str) -> None:
        """Settings are written with underscores."""
        self.service.create(name, {key.replace("_", "."): value for key, value in config.items()}, "STARTED")

    def states(self, name: str) -> list[str]:
        status = self.service.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def trace(self, name: str) -> str:
        return str(self.service.status(name)["tasks"][0].get("trace"))

    def wait_states(self, name: str, *states: str) -> None:
        eventually(lambda: self.states(name) == list(states), f"{name}: {states}", SECONDS)


@contextmanager
def harness(
    bootstrap: str,
    folder: Path,
    *plugins: Plugin,
    topics: str = "",
    converters: Mapping[str, str] | None = None,
    **more: Any,
) -> Iterator[Harness]:
    """With its state in topics with names that begin like this, or in memory."""

    def log(topic: str) -> LogFactory:
        return compacted_log(bootstrap, f"{topics}{topic}") if topics else MemoryLog

    parts = WorkerParts(
        bootstrap=bootstrap,
        worker_id="test:1",
        plugins=Plugins([*builtin_plugins(AnyFile(folder)), *plugins]),
        configs=ConfigLog(log(configs.TOPIC)),
        statuses=StatusLog(log(statuses.TOPIC)),
        offsets=OffsetLog(log(source_offsets.TOPIC)),
        converters=converters or {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER},
        **{"offset_flush_seconds": 0.2, "graceful_seconds": 2.0, **more},
    )
    logs = (parts.configs, parts.statuses, parts.offsets)
    for each in logs:
        each.start()
    made = Harness(parts)
    made.worker.start()
    try:
        yield made
    finally:
        made.worker.stop()
        for each in logs:
            each.stop()


def produce(bootstrap: str, topic: str, *values: bytes | None, headers: Any = None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "allow.auto.create.topics": True})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=headers)
    assert producer.flush(SECONDS) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[Any]:
    """So many messages from the beginning."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"test-{topic}", "auto.offset.reset": "earliest"}
    )
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS
    try:
        consumer.subscribe([topic])
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            found += [each for each in consumer.consume(1000, 0.1) if each.error() is None]
    finally:
        consumer.close()
    return found
