"""The embedded broker inside a test process: a real one, on a real port, up in milliseconds.

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

It runs in its own thread with its own event loop. Invariants: `start` returns once it is serving, `stop` and
`kill` once it is gone; after a restart it has the same folder and port. Without a folder it uses a temporary
one, which is removed when the broker is finally closed, by `close` or at the end of the `with`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from headrace.broker.broker import Broker
from headrace.broker.run import start as start_server
from headrace.broker.server import BrokerServer
from headrace.broker.settings import BrokerSettings
from headrace.core.addresses import bracketed

_Result = TypeVar("_Result")


class EmbeddedBroker:
    """One broker. `settings` are fields of BrokerSettings, such as `fsync="always"` or `configs={…}`."""

    def __init__(self, data_dir: Path | str | None = None, *, port: int = 0, **settings: Any) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-broker-") if data_dir is None else None
        self.data_dir = Path(self._temporary.name if self._temporary is not None else data_dir or "")
        self._settings = BrokerSettings(data_dir=self.data_dir, port=port, **settings)
        self._port = port
        self._server: BrokerServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port, once started."""
        return self._port

    @property
    def bootstrap(self) -> str:
        """The value for clients' `bootstrap.servers`."""
        return f"{bracketed(self._settings.advertised_host or self._settings.host)}:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def start(self) -> None:
        """Raises HeadraceError if it cannot serve."""
        assert self._server is None, "it is already running"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = dataclasses.replace(self._settings, port=self._port)
        server = BrokerServer(settings)
        loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="headrace broker", daemon=True)
        self._thread.start()
        self._loop = loop
        try:
            self._await(start_server(server, settings))
        except BaseException:
            self._end_thread()
            raise
        self._server = server
        self._port = server.port

    def stop(self) -> None:
        """Shut it down cleanly, if it is running."""
        if self._server is not None:
            self._end(self._server.stop())

    def kill(self) -> None:
        """End it like a crash: nothing is flushed, no request is answered, no log is marked as closed."""
        if self._server is not None:
            self._end(self._server.kill())

    def close(self) -> None:
        """Stop it, and remove its folder if that is temporary."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def call(self, work: Callable[[Broker], _Result]) -> _Result:
        """Call `work` with the broker on its event loop and return the result: for tests that look inside."""
        server = self._server
        assert server is not None

        async def run() -> _Result:
            return work(server.broker)

        return self._await(run())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _await(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        self._server = None
        try:
            self._await(work)
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._await(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None
