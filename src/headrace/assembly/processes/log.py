"""The log process: runs the log engine named in the settings until it is told to stop.

Invariants: it announces `ready` only once the log accepts writes, and gives signs of life while its event
loop turns, or, for Apache Kafka, while all brokers are there; SIGTERM and SIGINT stop a log that is
starting as well as one that is serving, and shut the brokers down cleanly before this process ends; a broker
that exits unexpectedly ends this process with an error, because restarting is the supervisor's job. An
engine's modules are imported only when that engine is chosen: the embedded one is small, starts quickly and
needs neither Java nor a client. Never touches a cluster that it did not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.assembly.announcements import announce
from headrace.assembly.signs_of_life import SIGN_SECONDS, SignOfLife
from headrace.broker.lean_start import without_test_tools
from headrace.client.message_sizes import broker_message_bytes
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

if TYPE_CHECKING:
    from headrace.client.cluster import Cluster

NAME: Final = "log"
# Where each engine keeps its data in the data folder; neither can read what the other wrote.
FOLDERS: Final = {"embedded": "broker", "kafka": "kafka"}
# Generous: after a crash Kafka checks its logs before it serves.
READY_SECONDS: Final = 300.0
EXTERNAL_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 5.0
_log = logging.getLogger(__name__)


class _StopRequestedError(Exception):
    """A signal arrived during work that may be interrupted."""


class _StopSignal:
    """SIGTERM and SIGINT as a flag; inside `interrupting`, also as an exception."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._interrupts = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        self._interrupts = True
        try:
            if self.asked.is_set():
                raise _StopRequestedError
            yield
        finally:
            self._interrupts = False

    def _take(self, _number: int, _frame: object) -> None:
        first = not self.asked.is_set()
        self.asked.set()
        if self._interrupts and first:
            raise _StopRequestedError


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Raises HeadraceError if the log cannot serve."""
    if settings.engine == "embedded":
        _serve_embedded(settings)
        return 0
    stop = _StopSignal()
    try:
        if settings.engine == "external":
            _watch_external(settings, stop)
        else:
            _serve_apache_kafka(settings, stop)
    except _StopRequestedError:
        _log.info("told to stop before the log was ready")
    return 0


def _ready(settings: Settings, address: str, engine: str) -> str:
    """Where it serves; also names data that another engine wrote, whose topics are not visible here."""
    others = [name for name in FOLDERS if name != settings.engine and _folder(settings, name).exists()]
    note = "".join(f"; what engine {name} wrote to {_folder(settings, name)} is not used" for name in others)
    return f"{address} ({engine}{note})"


def _folder(settings: Settings, engine: str) -> Path:
    return settings.data_dir / FOLDERS[engine]


def _serve_embedded(settings: Settings) -> None:
    announce(settings, NAME, state="starting", detail="opening the logs")
    with without_test_tools():
        from headrace.engines.embedded import serve  # noqa: PLC0415 - see above

    # Holds the task: the event loop itself does not. It ends with the loop.
    signs: list[asyncio.Task[None]] = []

    def say_ready(_server: object) -> None:
        signs.append(asyncio.get_running_loop().create_task(SignOfLife(settings, NAME).keep_giving()))
        announce(settings, NAME, state="ready", detail=_ready(settings, settings.bootstrap, "embedded"))

    serve(
        settings,
        _folder(settings, "embedded"),
        say_ready,
        max_message_bytes=broker_message_bytes(settings),
    )


def _watch_external(settings: Settings, stop: _StopSignal) -> None:
    from headrace.client.readiness import wait_until_serving  # noqa: PLC0415 - see above

    address = settings.bootstrap
    announce(settings, NAME, state="starting", detail=f"waiting for {address}")
    with stop.interrupting():
        wait_until_serving(address, brokers=1, deadline=time.monotonic() + EXTERNAL_SECONDS)
    sign = SignOfLife(settings, NAME)
    sign.give()
    announce(settings, NAME, state="ready", detail=f"{address} (external)")
    while not stop.asked.wait(SIGN_SECONDS):
        # This process is well whatever the cluster does: whoever uses the cluster reports its trouble.
        sign.give()


def _serve_apache_kafka(settings: Settings, stop: _StopSignal) -> None:
    from headrace.client.cluster import Cluster  # noqa: PLC0415 - see above
    from headrace.engines.apache_kafka import ApacheKafka  # noqa: PLC0415
    from headrace.java.artifacts import Artifacts  # noqa: PLC0415
    from headrace.java.runtime import find_java  # noqa: PLC0415

    with stop.interrupting():
        java = find_java(settings.java_home)
        artifacts = Artifacts(settings.cache_dir)
        if missing := artifacts.missing("kafka"):
            announce(settings, NAME, state="starting", detail=f"downloading {missing} Java artifacts")
        jars = artifacts.jars("kafka", progress=True)
    engine = ApacheKafka(
        _folder(settings, "kafka"),
        java,
        jars,
        settings.host,
        settings.kafka_port,
        settings.brokers,
        settings.default_partitions,
        advertised_host=settings.advertised_host,
        max_message_bytes=broker_message_bytes(settings),
    )
    announce(settings, NAME, state="starting", detail="starting Apache Kafka")
    try:
        engine.start()
        with stop.interrupting():
            engine.wait_ready(READY_SECONDS)
        brokers = "1 broker" if settings.brokers == 1 else f"{settings.brokers} brokers"
        announce(
            settings,
            NAME,
            state="ready",
            detail=_ready(settings, engine.bootstrap, f"Apache Kafka, {brokers}"),
        )
        cluster = Cluster(engine.bootstrap, timeout_seconds=_ASK_SECONDS)
        sign = SignOfLife(settings, NAME)
        looked = 0.0
        while not stop.asked.wait(LOOK_SECONDS):
            engine.check_alive()
            if time.monotonic() - looked >= SIGN_SECONDS:
                if _all_brokers_answer(cluster, settings.brokers):
                    sign.give()
                looked = time.monotonic()
        cluster.close()
    finally:
        engine.stop()


def _all_brokers_answer(cluster: Cluster, brokers: int) -> bool:
    """One that was stopped is no longer in the cluster after some seconds."""
    try:
        return len(cluster.brokers()) == brokers
    except HeadraceError as error:
        _log.warning("%s", error)
        return False
