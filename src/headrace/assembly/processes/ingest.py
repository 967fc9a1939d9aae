"""The ingest process: granian with one worker per two cores, each running the events application.

Invariants: it announces `ready` once `/health` has answered, that is, once a worker is serving and the log
responds to it; SIGTERM and SIGINT stop accepting requests, finish those in progress and flush the producers;
a worker that dies is replaced, and if the replacement dies at once, this process ends so that the supervisor
notices; no worker outlives this process, however it ended, so the port is free for the next one. Never
handles a request itself.
"""

from __future__ import annotations

import ctypes
import functools
import http.client
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces, Loops
from granian.server import Server

from headrace.assembly.announcements import announce
from headrace.assembly.ports import check_ports
from headrace.assembly.process_specs import PROCESSES
from headrace.core.settings import Settings
from headrace.http.events.app import EventsApplication, create_events_app

_log = logging.getLogger(__name__)

NAME: Final = "ingest"
# A worker told to stop gets as long as a request may take, plus a little to shut down.
_GRACE_SECONDS: Final = 3
_PROBE_SECONDS: Final = 0.1
_PARENT_LOOK_SECONDS: Final = 0.5
_PR_SET_PDEATHSIG: Final = 1
# granian's log records go where all other records of this process go.
_LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {
        "_granian": {"handlers": [], "level": "INFO", "propagate": True},
        "granian.access": {"handlers": [], "level": "WARNING", "propagate": True},
    },
}


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    check_ports(settings, [spec for spec in PROCESSES if spec.name == NAME])
    server = Server(
        # Only a name: the loader below creates the application.
        f"{create_events_app.__module__}:{create_events_app.__name__}",
        address=_address(settings.host),
        port=settings.ingest_port,
        interface=Interfaces.ASGI,
        workers=settings.ingest_workers or max(1, (os.cpu_count() or 1) // 2),
        loop=Loops.uvloop,
        http=HTTPModes.auto,
        websockets=False,
        respawn_failed_workers=True,
        workers_kill_timeout=-(-settings.ingest_timeout_ms // 1000) + _GRACE_SECONDS,
        log_dictconfig=_LOGGING,
    )
    stopping = threading.Event()
    watch = threading.Thread(
        target=_announce_when_ready, args=(settings, server, stopping), name="ready-watch", daemon=True
    )
    watch.start()
    try:
        server.serve(target_loader=functools.partial(_load, settings, os.getpid()), wrap_loader=False)
    except SystemExit as end:
        # granian exits this way when its workers die faster than it may replace them.
        return end.code if isinstance(end.code, int) else 1
    finally:
        stopping.set()
        watch.join()
    return 0


def _load(settings: Settings, parent: int) -> EventsApplication:
    """Called in a new worker, before it serves."""
    # Until the worker installs its own signal handlers it has the parent's, which would not end it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent(parent)
    return create_events_app(settings)


def _end_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _announce_when_ready(settings: Settings, server: Any, stopping: threading.Event) -> None:
    # Workers are forked, and at that moment no other thread of the parent may be doing anything.
    while len(server.wrks) < server.workers:
        if stopping.wait(_PROBE_SECONDS):
            return
    said = ""
    while not stopping.is_set():
        trouble = _trouble(settings)
        if not trouble:
            announce(settings, NAME, state="ready", detail=f"http://{settings.host}:{settings.ingest_port}")
            return
        if trouble != said:
            announce(settings, NAME, state="starting", detail=trouble)
            said = trouble
        stopping.wait(_PROBE_SECONDS)


def _trouble(settings: Settings) -> str:
    """Why `/health` does not report success; empty if it does."""
    connection = http.client.HTTPConnection(_reachable(settings.host), settings.ingest_port, timeout=10)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"no answer yet: {error}"
    finally:
        connection.close()
    if answer.status == 200:
        return ""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"/health answered {answer.status}"


def _address(host: str) -> str:
    """The address of a host name: granian accepts only addresses."""
    family_and_address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    return str(family_and_address[4][0])


def _reachable(host: str) -> str:
    """An address at which a server listening on `host` can be reached."""
    address = ipaddress.ip_address(_address(host))
    if not address.is_unspecified:
        return str(address)
    return "127.0.0.1" if address.version == 4 else "::1"
