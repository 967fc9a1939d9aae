"""The ingest process: granian with one worker per two cores, each running the events application.

Invariants: it announces `ready` once `/health` has answered, that is, once a worker is serving and the log
responds to it; each worker gives signs of life from its event loop; SIGTERM and SIGINT stop accepting
requests, finish those in progress and flush the producers; a worker that dies is replaced, and if the
replacement dies at once, this process ends so that the supervisor notices; no worker outlives this process,
however it ended, so the port is free for the next one. Never handles a request itself.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import signal
import sys
import threading
import time
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces, Loops
from granian.server import Server

from headrace.assembly.announcements import announce
from headrace.assembly.ports import check_ports
from headrace.assembly.process_specs import PROCESSES
from headrace.assembly.processes.probing import address_of, trouble
from headrace.assembly.signs_of_life import SignOfLife
from headrace.core.settings import Settings
from headrace.http.admission import Admission
from headrace.http.events.app import EVENTS_RULES, create_events_app
from headrace.http.guarding import Guarded

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
        # granian accepts only addresses, no host names.
        address=address_of(settings.host),
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


def _load(settings: Settings, parent: int) -> Guarded:
    """Called in a new worker, before it serves."""
    # Until the worker installs its own signal handlers it has the parent's, which would not end it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent(parent)
    application = create_events_app(settings, alongside=SignOfLife(settings, NAME).keep_giving)
    return Guarded(application, admission=Admission.of(settings), rules=EVENTS_RULES)


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
        failure = trouble(settings.host, settings.ingest_port, "/health")
        if not failure:
            announce(settings, NAME, state="ready", detail=f"http://{settings.host}:{settings.ingest_port}")
            return
        if failure != said:
            announce(settings, NAME, state="starting", detail=failure)
            said = failure
        stopping.wait(_PROBE_SECONDS)
