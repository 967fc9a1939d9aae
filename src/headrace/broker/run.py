"""Runs one broker in the foreground of this process, until SIGTERM or SIGINT.

Invariants: `on_ready` is called once the broker serves, or not at all if a signal came first. The first
signal stops the broker cleanly; a second one has its default effect. Never prints.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Callable
from typing import Final

import uvloop

from headrace.broker.server import BrokerServer
from headrace.broker.settings import BrokerSettings
from headrace.core.errors import HeadraceError
from headrace.log.errors import StorageError

OnReady = Callable[[BrokerServer], None]
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(settings: BrokerSettings, on_ready: OnReady) -> None:
    """Serve until a signal comes. Raises HeadraceError if the broker cannot start."""
    _allow_many_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, on_ready))


def _allow_many_files() -> None:
    """Connections and segments are open files, and the usual soft limit is 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def start(server: BrokerServer, settings: BrokerSettings) -> None:
    """Start the server. Raises HeadraceError, also if the disk fails."""
    try:
        await server.start()
    except StorageError as error:
        raise HeadraceError(
            "storage_failed",
            f"The broker cannot use its data folder {settings.data_dir}: {error}",
            remedy="Free disk space, make the folder readable and writable, or choose another folder.",
        ) from error


async def _serve(settings: BrokerSettings, on_ready: OnReady) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        asked.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    server = BrokerServer(settings)
    await start(server, settings)
    try:
        # Handle signals that arrived while the logs were being opened.
        await asyncio.sleep(0)
        if not asked.is_set():
            on_ready(server)
        await asked.wait()
    finally:
        await server.stop()
