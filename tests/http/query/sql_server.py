"""A desk behind the HTTP doors of the query process, on a real server and port, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config

from headrace.http.by_path import ByPath
from headrace.http.druid.app import create_druid_app
from headrace.http.query.app import create_query_app
from headrace.query.desk import Desk
from headrace.query.druid.desk_engine import DruidDesk
from headrace.query.log_sources import LogSources
from headrace.query.planning import Tails
from headrace.query.questions import QuestionLimits
from headrace.query.receipts.after import AfterReceipts
from headrace.query.receipts.watching import Receipts
from tests.ports import free_port
from tests.query.records import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServer:
    desk: Desk
    loop: asyncio.AbstractEventLoop
    address: str
    client: httpx.Client

    def ask(self, query: str, **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        return self.client.post("/sql", json={"query": query, **more}, headers=headers)

    def is_idle(self) -> bool:
        return (self.desk.slots.running, self.desk.slots.waiting) == (0, 0)


@contextmanager
def sql_server(
    folder: Path,
    *,
    limits: QuestionLimits,
    slots: int = 2,
    most_waiting: int = 64,
    tails: Tails | None = None,
    receipts: Receipts | None = None,
    sources: LogSources | None = None,
) -> Iterator[SqlServer]:
    port = free_port()
    stop = threading.Event()
    loop = asyncio.new_event_loop()
    desk = Desk(
        folder / "lake",
        limits=limits,
        slots=slots,
        most_waiting=most_waiting,
        folder=folder / "workers",
        tails=tails,
        sources=sources,
    )
    desk.receipts = None if receipts is None else AfterReceipts(receipts)

    async def run() -> None:
        await desk.start()
        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.graceful_timeout = 1.0

        async def stopped() -> None:
            while not stop.is_set():
                await asyncio.sleep(0.05)

        application = ByPath(
            create_druid_app(DruidDesk(desk)),
            paths=("/sql", "/receipts", "/health"),
            chosen=create_query_app(desk, receipts=receipts),
        )
        await serve(application, config, shutdown_trigger=stopped)  # type: ignore[arg-type]
        await desk.stop()

    def in_thread() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run())
        loop.close()

    thread = threading.Thread(target=in_thread)
    thread.start()
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=address, timeout=120, limits=httpx.Limits(max_connections=None)) as client:
            wait_until(lambda: _answers(client), "the server answers")
            yield SqlServer(desk=desk, loop=loop, address=address, client=client)
    finally:
        stop.set()
        thread.join()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/live").status_code == 200
    except httpx.TransportError:
        return False
