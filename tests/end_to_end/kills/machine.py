"""The platform on a machine of its own, whose parts are killed, and whose power can be cut.

The log runs beside the platform (engine `external`) on a disk that forgets unsynced writes. Three ways to go
down: one process is killed; the power fails, which ends everything and shortens the log; or the machine
starts again from folders that were copied at different moments while it ran, with their newest files torn.

A start waits until events and statements are taken, not for Spark: kills may meet that while it starts.

Never chooses anything: what happens when is up to `rounds.py`.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from headrace.assembly.preparation import prepare
from headrace.assembly.restarts import RestartPolicy
from headrace.assembly.supervisor import Supervisor
from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.lake.delta_log import LOG_FOLDER, DeltaLog
from headrace.lake.inspecting import tables_below
from headrace.lake.repairing import carry_out, plan_repair
from headrace.query.sql import LakeQuery
from tests.broker.broker_process import PowerCutBroker
from tests.end_to_end.kills.statements import ROOTS
from tests.freezing import freeze
from tests.ports import free_ports
from tests.running_platform import Platform, wait_for

PIPELINE: Final = "pipeline"
SYNCED: Final = {"flush.messages": "1"}
# Parts of the data folder that are copied apart from each other.
_PARTS: Final = ("log", "pipeline", "lake")
# Spark's temporary files; no start looks at those of another.
_SCRATCH: Final = "scratch"
# In seconds: kills wait for what is running, not for the supervisor.
_POLICY: Final = RestartPolicy(first_delay=0.1, longest_delay=0.1)


class Machine(Platform):
    """Also has the log, and everything can be started again."""

    def __init__(self, settings: Settings, broker: PowerCutBroker) -> None:
        self._broker = broker
        super().__init__(settings, Supervisor(settings, policy=_POLICY))

    def start(self) -> None:
        self._broker.start()
        self.start_platform()

    def start_platform(self) -> None:
        """On a log that runs already."""
        supervisor = self._supervisor = Supervisor(self.settings, policy=_POLICY)
        # Its `start` returns when all processes are ready, or have ended.
        threading.Thread(target=supervisor.start, name="start", daemon=True).start()
        wait_for(
            self.takes_requests,
            "events, statements and connectors are taken",
            explain=lambda: str(supervisor.states()),
        )

    def stop(self) -> None:
        self.close()
        self._supervisor.stop(at_once=True)
        self._broker.end()

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        # Not by one that knows the table: another folder may have taken its place.
        with closing(LakeQuery(self.settings.lake_dir)) as lake:
            return list(lake.run(statement).rows)

    def kill_driver(self, victim: str) -> None:
        """`Python` or `Java`, if that is there already."""
        pid: int = wait_for(lambda: self.pid(PIPELINE), "the pipeline is started")
        children = psutil.Process(pid).children(recursive=True) if victim == "Java" else []
        virtual_machine = next((child.pid for child in children if "java" in child.name()), pid)
        os.kill(virtual_machine, signal.SIGKILL)
        wait_for(lambda: self.pid(PIPELINE) != pid, f"the supervisor has seen {pid} end")

    def kill_log(self) -> None:
        """Only the process: what it wrote stays."""
        self._broker.kill()
        self._broker.start()

    def kill_driver_of_frozen_log(self) -> None:
        """The log stands still with requests of the driver in its sockets, until the next one asks.

        With its Python process Spark's JVM is killed, too.
        """
        with self._frozen_log():
            self.kill_driver("Python")
            wait_for(self._has_connected, "the next driver has connected")

    @contextmanager
    def _frozen_log(self) -> Iterator[None]:
        freeze(self._broker.pid)
        try:
            yield
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)

    def _has_connected(self) -> bool:
        pid = self.pid(PIPELINE)
        port = int(self.settings.bootstrap.rpartition(":")[2])
        try:
            connections = psutil.Process(pid).net_connections("tcp") if pid else []
        except psutil.NoSuchProcess:
            return False
        return any(each.raddr and each.raddr.port == port for each in connections)

    def cut_power(self) -> None:
        self._supervisor.stop(at_once=True)
        self._broker.cut_power("some")
        self.start()

    def put_together(self, chance: random.Random, pause: Callable[[float], None]) -> None:
        """Copy each part of the data at a moment of its own, and start from the copies with torn ends."""
        folder = self.settings.data_dir
        copies = folder.with_name("copies")
        synced = _synced_topics(Cluster(self.settings.bootstrap))
        for part in chance.sample(_PARTS, len(_PARTS)):
            # A moment of the log: none of its topics is ahead of one that it comes from.
            with self._frozen_log():
                _copy(folder / part, copies / part)
            pause(chance.uniform(0, 1.5))
        self._supervisor.stop(at_once=True)
        # Another boot: the log cannot take for granted what was written.
        self._broker.cut_power("all")
        for part in _PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)
            (copies / part).rename(folder / part)
        for path in _newest_files(folder, synced):
            if chance.random() < 0.7:
                os.truncate(path, chance.choice((0, chance.randrange(path.stat().st_size + 1))))
        for name in tables_below(self.settings.lake_dir):
            # As the error tells the operator to do.
            table = self.settings.lake_dir / name
            repair = plan_repair(name, table) if DeltaLog(table).exists else None
            if repair is not None:
                carry_out(repair, table)
        self.start()


@contextmanager
def running_machine(folder: Path, seed: int, **overrides: Any) -> Iterator[Machine]:
    kafka_port, ingest_port, registry_port, statements_port, console_port, query_port, *others = free_ports(9)
    data = folder / "data"
    settings = dataclasses.replace(
        Settings(),
        data_dir=data,
        cache_dir=Settings().cache_dir.expanduser(),
        engine="external",
        bootstrap_servers=f"127.0.0.1:{kafka_port}",
        ingest_port=ingest_port,
        registry_port=registry_port,
        statements_port=statements_port,
        console_port=console_port,
        query_port=query_port,
        postgres_port=others[2],
        connect_port=others[0],
        connect_second_port=others[1],
        spark_ui_port=0,
        **overrides,
    )
    prepare(settings)
    broker = PowerCutBroker(data / "log", kafka_port, seed=seed)
    machine = Machine(settings, broker)
    try:
        broker.start()
        cluster = Cluster(settings.bootstrap)
        for topic, partitions in ROOTS.items():
            cluster.create_topic(topic, partitions=partitions, config=SYNCED)
        machine.start_platform()
        yield machine
    finally:
        machine.stop()


def _copy(folder: Path, copy: Path) -> None:
    """A folder as it is while others write to it: each file at a moment of its own.

    Commits of tables come first: whatever else is synced before a commit is there when the commit is.
    """
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    logs = [Path(place) for place, _, _ in os.walk(folder) if Path(place).name == LOG_FOLDER]
    for log in logs:
        _copy_files(log, copy / log.relative_to(folder))
    for place, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if name not in (LOG_FOLDER, _SCRATCH)]
        _copy_files(Path(place), copy / Path(place).relative_to(folder))


def _copy_files(folder: Path, copy: Path) -> None:
    copy.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            # One that was renamed or deleted meanwhile is left out.
            with suppress(FileNotFoundError):
                if path.is_file():
                    shutil.copyfile(path, copy / path.name)


def _synced_topics(cluster: Cluster) -> set[str]:
    """The topics of which a record is on the disk before anybody knows of it."""
    return {name for name in cluster.topic_names() if cluster.topic_config(name).get("flush.messages") == "1"}


def _newest_files(data: Path, synced: Collection[str]) -> Iterator[Path]:
    """What was being written: the ends of topics that are not synced, of each checkpoint and of the table."""
    for partition in (data / "log").rglob("*-[0-9]*"):
        is_at_risk = partition.is_dir() and partition.name.rpartition("-")[0] not in synced
        segments = sorted(partition.glob("*.log")) if is_at_risk else []
        yield from segments[-1:]
    for kind in ("offsets", "commits", "notes"):
        for entries in (data / "pipeline").rglob(kind):
            numbered = [path for path in entries.iterdir() if path.name.isdecimal()]
            yield from sorted(numbered, key=lambda path: int(path.name))[-1:]
    for entries in (data / "lake").rglob(LOG_FOLDER):
        # Not the commit that made the table: of that no older version is left.
        yield from sorted(entries.glob("*.json"))[1:][-1:]
