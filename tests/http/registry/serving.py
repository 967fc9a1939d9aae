"""Serves the application of a door with hypercorn in a thread, on a free port, behind the door's checks."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config

from headrace.core.settings import Settings
from headrace.http.admission import Admission, DoorRules
from headrace.http.guarding import Guarded
from tests.ports import free_port

SECONDS = 120.0


@contextmanager
def served(application: Any, rules: DoorRules) -> Iterator[str]:
    """The address of the application while it is served."""
    guarded = Guarded(application, admission=Admission.of(Settings()), rules=rules)
    port = free_port()
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 1
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(
        target=loop.run_until_complete,
        args=(serve(guarded, config, shutdown_trigger=stop.wait),),
        daemon=True,
    )
    thread.start()
    try:
        _wait_until_listening(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)
        assert not thread.is_alive()
        loop.close()


def _wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "hypercorn does not listen"
        time.sleep(0.02)
