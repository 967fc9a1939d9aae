"""The gateway process: the schema registry, statements, and the console with its JSON API, each on its port.

Owns the HTTP servers on one event loop (HTTP/1.1, and HTTP/2 without TLS) and the services behind them.
Invariants: it announces `ready` only after every server has answered a request; if a server exits
unexpectedly the process ends, so that the supervisor restarts it; on SIGTERM the streams of open pages end
first, then the servers, then the services behind them; it gives signs of life from the event loop. Never
serves only some of its doors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import uvloop
from hypercorn.asyncio import serve
from hypercorn.config import Config

from headrace.assembly.announcements import announce
from headrace.assembly.platform_state import read_state
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.probing import trouble
from headrace.assembly.signs_of_life import SignOfLife
from headrace.client.cluster import Cluster
from headrace.client.readiness import wait_until_serving
from headrace.console.app import create_console_app
from headrace.console.assets import BUILD_COMMAND, missing_assets
from headrace.console.live import LiveFlow
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.http.admission import Admission, DoorRules
from headrace.http.guarding import Guarded
from headrace.http.query.app import QUERY_RULES, QueryServices
from headrace.http.query.health import PlatformReport, ProcessReport
from headrace.http.registry.answers import REGISTRY_RULES
from headrace.http.registry.app import create_registry_app
from headrace.http.statements.answers import STATEMENTS_RULES
from headrace.http.statements.app import create_statements_app
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.query.flow import FlowWatcher
from headrace.query.sql import LakeQuery
from headrace.query.topics import TopicBrowser
from headrace.registry.registry import Registry

PROCESS: Final = "gateway"
# The supervisor starts the gateway once the log is serving; an external cluster may need a little longer.
LOG_PATIENCE_SECONDS: Final = 60.0
ANSWER_PATIENCE_SECONDS: Final = 30.0
# Shorter than the supervisor's grace period for the whole process.
DRAIN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One HTTP server: its name, its application, where it listens, and a path used to probe it.

    The application gets only requests that `http/admission.py` and the door's rules admit.
    """

    name: str
    application: Any
    rules: DoorRules
    host: str
    port: int
    setting: str
    probe: str


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    missing = missing_assets()
    if missing:
        # The registry and SQL need no assets: serve, and show the remedy on every page.
        _log.error(
            "The console's assets are not built, so its pages do not update: run `%s`. Missing: %s.",
            BUILD_COMMAND,
            ", ".join(missing),
        )
    uvloop.run(_run(settings))
    return 0


async def _run(settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    announce(settings, PROCESS, state="starting", detail=f"waiting for the log at {settings.bootstrap}")
    if not await _wait_for_log(settings.bootstrap, stopping):
        return
    async with _parts(settings) as (registry, statements, services):
        live = LiveFlow(services.flow.snapshot)
        doors = (
            Door(
                name="registry",
                application=create_registry_app(registry),
                rules=REGISTRY_RULES,
                host=settings.host,
                port=settings.registry_port,
                setting="registry_port",
                probe="/subjects",
            ),
            Door(
                name="statements",
                application=create_statements_app(statements),
                rules=STATEMENTS_RULES,
                host=settings.host,
                port=settings.statements_port,
                setting="statements_port",
                probe="/info",
            ),
            Door(
                name="console",
                application=create_console_app(services, live=live),
                rules=QUERY_RULES,
                host=settings.host,
                port=settings.console_port,
                setting="console_port",
                probe="/flow",
            ),
        )
        # Creating a Litestar application may replace the root logger's handlers; we have our own format.
        configure_logging()

        async def end_streams() -> None:
            # Streams do not end by themselves: without this the servers would wait for open ones forever.
            live.close()
            await asyncio.to_thread(statements.stop)
            await asyncio.to_thread(services.flow.stop)

        sign = asyncio.create_task(SignOfLife(settings, PROCESS).keep_giving(), name="sign-of-life")
        try:
            await serve_all(settings, doors, stopping, end_streams)
        finally:
            sign.cancel()


@contextlib.asynccontextmanager
async def _parts(settings: Settings) -> AsyncIterator[tuple[Registry, StatementService, QueryServices]]:
    """Start the services behind the doors; stop them in reverse order."""
    registry = Registry(settings.bootstrap)
    flow = FlowWatcher(settings.bootstrap, settings.lake_dir, settings.events_topic)
    log = StatementLog(settings.bootstrap)
    async with contextlib.AsyncExitStack() as stack:
        for part in (registry, flow, log):
            stack.push_async_callback(asyncio.to_thread, part.stop)
        await _start_together(registry.start, flow.start, log.start)
        sql = LakeQuery(settings.lake_dir)
        stack.push_async_callback(asyncio.to_thread, sql.close)
        topics = TopicBrowser(settings.bootstrap, registry.schema_by_id)
        cluster = Cluster(settings.bootstrap)
        stack.push_async_callback(asyncio.to_thread, cluster.close)
        statements = StatementService(
            log=log,
            cluster=cluster,
            schemas=RegistrySchemas(registry),
            settings=settings,
            statuses=lambda: flow.snapshot().queries,
        )
        await asyncio.to_thread(statements.start)
        services = QueryServices(
            sql=sql, topics=topics, flow=flow, platform=lambda: _platform_report(settings)
        )
        yield registry, statements, services


async def _start_together(*starts: Callable[[], None]) -> None:
    """Most of the time of a start goes by waiting for the log."""
    ended = await asyncio.gather(*(asyncio.to_thread(start) for start in starts), return_exceptions=True)
    for failure in ended:
        if failure is not None:
            raise failure


def _platform_report(settings: Settings) -> PlatformReport | None:
    """What the supervisor says of the processes; None if nobody supervises this one."""
    state = read_state(settings)
    if state is None:
        return None
    processes = tuple(
        ProcessReport(
            name=each.name, state=each.state, since=each.since, restarts=each.restarts, detail=each.detail
        )
        for each in state.processes
    )
    return PlatformReport(supervisor=state.pid, answers=state.answers, processes=processes)


async def serve_all(
    settings: Settings,
    doors: tuple[Door, ...],
    stopping: asyncio.Event,
    end_streams: Callable[[], Awaitable[None]],
) -> None:
    """Serve all doors until `stopping` is set; raises if one of them ends earlier."""
    stopped = asyncio.create_task(stopping.wait(), name="stopping")
    admission = Admission.of(settings)
    servers = {asyncio.create_task(_serve(door, admission, stopping), name=door.name) for door in doors}
    ready = asyncio.create_task(_say_ready(settings, doors), name="ready")
    try:
        pending: set[asyncio.Task[Any]] = {stopped, ready, *servers}
        while not stopping.is_set():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
                if task in servers and not stopping.is_set():
                    raise HeadraceError(
                        "process_failed", f"The {task.get_name()} server exited unexpectedly."
                    )
    finally:
        stopping.set()
        await end_streams()
        ready.cancel()
        results = await asyncio.gather(stopped, ready, *servers, return_exceptions=True)
        for failure in results:
            if isinstance(failure, Exception):
                _log.warning("While stopping: %s", failure)


async def _serve(door: Door, admission: Admission, stopping: asyncio.Event) -> None:
    config = Config()
    config.bind = [f"[{door.host}]:{door.port}" if ":" in door.host else f"{door.host}:{door.port}"]
    config.errorlog = logging.getLogger(f"headrace.gateway.{door.name}")
    config.graceful_timeout = DRAIN_SECONDS
    config.include_server_header = False
    try:
        application = Guarded(door.application, admission=admission, rules=door.rules)
        await serve(application, config, shutdown_trigger=stopping.wait)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise HeadraceError(
            "port_in_use",
            f"Port {door.port} (setting `{door.setting}`) is in use.",
            remedy=f"Choose another with the setting `{door.setting}`, or stop the process that holds it.",
        ) from error


async def _say_ready(settings: Settings, doors: tuple[Door, ...]) -> None:
    """Announce `ready` once every door has answered."""
    deadline = time.monotonic() + ANSWER_PATIENCE_SECONDS
    for door in doors:
        while failure := await asyncio.to_thread(trouble, door.host, door.port, door.probe):
            if time.monotonic() > deadline:
                raise HeadraceError(
                    "process_failed", f"The {door.name} does not answer on port {door.port}: {failure}."
                )
            await asyncio.sleep(_LOOK_SECONDS)
    where = ", ".join(f"{door.name} on port {door.port}" for door in doors)
    announce(settings, PROCESS, state="ready", detail=where)
    _log.info("Ready: %s.", where)


class _StopAskedError(Exception):
    """The gateway was told to stop while it waited for the log."""


async def _wait_for_log(bootstrap: str, stopping: asyncio.Event) -> bool:
    """True once the log answers, False if told to stop first; raises after `LOG_PATIENCE_SECONDS`."""

    def give_up_if_asked() -> None:
        if stopping.is_set():
            raise _StopAskedError

    deadline = time.monotonic() + LOG_PATIENCE_SECONDS
    try:
        await asyncio.to_thread(
            wait_until_serving, bootstrap, brokers=1, deadline=deadline, between=give_up_if_asked
        )
    except _StopAskedError:
        return False
    return True
