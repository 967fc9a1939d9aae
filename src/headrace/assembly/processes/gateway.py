"""The gateway process: the schema registry, statements, and the console with its JSON API, each on its port.

Owns the services behind the doors; `serving.py` serves these. Invariants: on SIGTERM the streams of open
pages end first, then the servers, then the services behind them; it gives signs of life from the event loop.
Never serves only some of its doors, and
never runs SQL: the query process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

import uvloop

from headrace.assembly.announcements import announce
from headrace.assembly.platform_state import read_state
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.probing import reachable
from headrace.assembly.processes.serving import Door, begin, serve_all
from headrace.assembly.signs_of_life import SignOfLife
from headrace.client.cluster import Cluster
from headrace.console.app import create_console_app
from headrace.console.assets import BUILD_COMMAND, missing_assets
from headrace.console.live import LiveFlow
from headrace.core.addresses import bracketed
from headrace.core.settings import Settings
from headrace.http.admission import Admission
from headrace.http.query.app import QUERY_RULES, QueryServices
from headrace.http.query.forwarding import QueryProcess
from headrace.http.query.health import PlatformReport, ProcessReport
from headrace.http.registry.answers import REGISTRY_RULES
from headrace.http.registry.app import create_registry_app
from headrace.http.statements.answers import STATEMENTS_RULES
from headrace.http.statements.app import create_statements_app
from headrace.pipeline.catalogue.rollups import RollupLog
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.rollups import RollupStatements
from headrace.pipeline.serving.service import StatementService
from headrace.query.flow import FlowWatcher
from headrace.query.topics import TopicBrowser
from headrace.registry.registry import Registry

PROCESS: Final = "gateway"

_log = logging.getLogger(__name__)


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
    stopping = await begin(settings, PROCESS)
    if stopping is None:
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
            await serve_all(
                doors,
                stopping,
                end_streams,
                admission=Admission.of(settings),
                say_ready=lambda where: announce(settings, PROCESS, state="ready", detail=where),
            )
        finally:
            sign.cancel()


@contextlib.asynccontextmanager
async def _parts(settings: Settings) -> AsyncIterator[tuple[Registry, StatementService, QueryServices]]:
    """Start the services behind the doors; stop them in reverse order."""
    registry = Registry(settings.bootstrap)
    flow = FlowWatcher(settings.bootstrap, settings.events_topic)
    log = StatementLog(settings.bootstrap)
    async with contextlib.AsyncExitStack() as stack:
        for part in (registry, flow, log):
            stack.push_async_callback(asyncio.to_thread, part.stop)
        await _start_together(registry.start, flow.start, log.start)
        host = bracketed(reachable(settings.host))
        sql = QueryProcess(f"http://{host}:{settings.query_port}")
        stack.push_async_callback(sql.close)
        topics = TopicBrowser(settings.bootstrap, registry.schema_by_id)
        cluster = Cluster(settings.bootstrap)
        stack.push_async_callback(asyncio.to_thread, cluster.close)
        statements = StatementService(
            log=log,
            cluster=cluster,
            schemas=RegistrySchemas(registry),
            settings=settings,
            statuses=lambda: flow.snapshot().queries,
            rollups=RollupStatements(settings.lake_dir, lambda: RollupLog(settings.bootstrap)),
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
