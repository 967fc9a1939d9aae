"""Serves HTTP doors: several servers on one event loop, behind the checks, until told to stop.

Owns the servers (HTTP/1.1, and HTTP/2 without TLS) of one process. Invariants: the process announces `ready`
only after every server has answered a request; if a server exits unexpectedly, `serve_all` raises, so that
the process ends and the supervisor restarts it; streams end before the servers do. Never serves only some of
the doors.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from hypercorn.asyncio import serve
from hypercorn.config import Config

from headrace.assembly.announcements import announce
from headrace.assembly.processes.probing import trouble
from headrace.client.readiness import wait_until_serving
from headrace.core.addresses import bracketed
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.http.admission import Admission, DoorRules
from headrace.http.guarding import Guarded

# The supervisor starts a process once the log is serving; an external cluster may need a little longer.
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


async def serve_all(
    doors: tuple[Door, ...],
    stopping: asyncio.Event,
    end_streams: Callable[[], Awaitable[None]],
    *,
    admission: Admission,
    say_ready: Callable[[str], None],
) -> None:
    """Serve all doors until `stopping` is set; raises if one of them ends earlier.

    `say_ready` is called once with what is served where.
    """
    stopped = asyncio.create_task(stopping.wait(), name="stopping")
    servers = {asyncio.create_task(_serve(door, admission, stopping), name=door.name) for door in doors}
    ready = asyncio.create_task(_say_ready(doors, say_ready), name="ready")
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
    config.bind = [f"{bracketed(door.host)}:{door.port}"]
    config.errorlog = logging.getLogger(f"headrace.doors.{door.name}")
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


async def _say_ready(doors: tuple[Door, ...], say_ready: Callable[[str], None]) -> None:
    """Call `say_ready` once every door has answered."""
    deadline = time.monotonic() + ANSWER_PATIENCE_SECONDS
    for door in doors:
        while failure := await asyncio.to_thread(trouble, door.host, door.port, door.probe):
            if time.monotonic() > deadline:
                raise HeadraceError(
                    "process_failed", f"The {door.name} does not answer on port {door.port}: {failure}."
                )
            await asyncio.sleep(_LOOK_SECONDS)
    where = ", ".join(f"{door.name} on port {door.port}" for door in doors)
    say_ready(where)
    _log.info("Ready: %s.", where)


async def begin(settings: Settings, process: str) -> asyncio.Event | None:
    """Wait for the log. Returns the event that SIGTERM and SIGINT set; None if one came before the log."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    announce(settings, process, state="starting", detail=f"waiting for the log at {settings.bootstrap}")
    return stopping if await wait_for_log(settings.bootstrap, stopping) else None


class _StopAskedError(Exception):
    """The process was told to stop while it waited for the log."""


async def wait_for_log(bootstrap: str, stopping: asyncio.Event) -> bool:
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
