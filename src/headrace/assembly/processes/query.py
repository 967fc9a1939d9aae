"""The query process: SQL, in workers of its own, on a port of its own.

Owns the desk and its workers. Invariants: it starts and answers without the log, since the lake can be read
without it; on SIGTERM it stops accepting, ends the questions that run, and leaves no worker; it gives signs
of life from the event loop. Nothing that happens to a question reaches another process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

import uvloop

from headrace.assembly.announcements import announce, run_dir
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.probing import reachable
from headrace.assembly.processes.serving import Door, serve_all
from headrace.assembly.signs_of_life import SignOfLife
from headrace.core.addresses import bracketed
from headrace.core.settings import Settings
from headrace.http.admission import Admission
from headrace.http.query.app import QUERY_RULES, create_query_app
from headrace.query.desk import Desk
from headrace.query.planning import Tails
from headrace.query.questions import QuestionLimits

PROCESS: Final = "query"


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    uvloop.run(_run(settings))
    return 0


def desk_of(settings: Settings, tails: Tails | None = None) -> Desk:
    """The desk with the limits of these settings. Without `tails`, only the lake is read."""
    cores = os.cpu_count() or 1
    return Desk(
        settings.lake_dir.resolve(),
        limits=QuestionLimits(
            seconds=settings.query_seconds,
            memory_megabytes=settings.query_memory_megabytes,
            rows=settings.query_rows,
            answer_megabytes=settings.query_answer_megabytes,
            threads=cores,
        ),
        slots=settings.query_slots or cores,
        most_waiting=settings.query_waiting,
        folder=run_dir(settings).resolve() / "query",
        tails=tails,
    )


async def _run(settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    desk = desk_of(settings)
    sign = asyncio.create_task(SignOfLife(settings, PROCESS).keep_giving(), name="sign-of-life")
    try:
        await desk.start()
        door = Door(
            name="SQL",
            application=create_query_app(desk),
            rules=QUERY_RULES,
            host=settings.host,
            port=settings.query_port,
            setting="query_port",
            probe="/health/live",
        )
        # Creating a Litestar application may replace the root logger's handlers; we have our own format.
        configure_logging()
        await serve_all(
            (door,),
            stopping,
            desk.stop,
            admission=Admission.of(settings),
            # `headrace sql` asks there.
            say_ready=lambda _: announce(
                settings, PROCESS, state="ready", detail=_url(settings.host, settings.query_port)
            ),
        )
    finally:
        sign.cancel()
        await desk.stop()


def _url(host: str, port: int) -> str:
    return f"http://{bracketed(reachable(host))}:{port}"
