"""The Connect process: runs connectors, and serves Kafka Connect's REST API on two ports.

A process of its own, so that a connector that misbehaves takes neither the registry nor statements with it.
Invariants: connectors are back after a restart, from the log; on SIGTERM the servers end first, then the
tasks, each within its time, then the logs; it gives signs of life from the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

import uvloop

from headrace.assembly.announcements import announce
from headrace.assembly.connect_parts import running_connect
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.serving import Door, begin, serve_all
from headrace.assembly.signs_of_life import SignOfLife
from headrace.assembly.sinks import worker_id
from headrace.connect.allowed_folders import AllowedFolders
from headrace.connect.connectors.builtin import builtin_plugins
from headrace.connect.connectors.lake_sink.parsing import folders_of
from headrace.connect.converters import STRING_CONVERTER
from headrace.connect.state import configs, source_offsets, statuses
from headrace.connect.state.logs import compacted_log
from headrace.connect.worker.parts import WorkerParts
from headrace.core.settings import Settings
from headrace.http.admission import Admission
from headrace.http.connect.answers import CONNECT_RULES

PROCESS: Final = "connect"


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    uvloop.run(_run(settings))
    return 0


async def _run(settings: Settings) -> None:
    stopping = await begin(settings, PROCESS)
    if stopping is None:
        return
    sign = asyncio.create_task(SignOfLife(settings, PROCESS).keep_giving(), name="sign-of-life")
    try:
        async with running_connect(worker_parts(settings)) as connect:
            # Creating a Litestar application may replace the root logger's handlers; we have our own format.
            configure_logging()
            doors = tuple(
                Door(
                    name=name,
                    application=connect.application,
                    rules=CONNECT_RULES,
                    host=settings.host,
                    port=getattr(settings, setting),
                    setting=setting,
                    probe="/connectors",
                )
                for name, setting in (("connect", "connect_port"), ("connect too", "connect_second_port"))
            )
            await serve_all(
                doors,
                stopping,
                _nothing_streams,
                admission=Admission.of(settings),
                say_ready=lambda where: announce(settings, PROCESS, state="ready", detail=where),
            )
    finally:
        sign.cancel()


def worker_parts(settings: Settings) -> WorkerParts:
    """The worker of a platform with these settings: its state in the log, files in allowed folders."""
    log = settings.bootstrap
    return WorkerParts(
        bootstrap=log,
        worker_id=worker_id(settings),
        plugins=builtin_plugins(AllowedFolders.of(settings), lake_folders=folders_of(settings)),
        configs=configs.ConfigLog(compacted_log(log, configs.TOPIC)),
        statuses=statuses.StatusLog(compacted_log(log, statuses.TOPIC)),
        offsets=source_offsets.OffsetLog(compacted_log(log, source_offsets.TOPIC)),
        converters={"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER},
    )


async def _nothing_streams() -> None:
    """No route of this API streams."""
