"""A door over a small lake, in an event loop of its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.query.postgres.server import PostgresServer
from tests.query.delta_tables import write_events
from tests.query.postgres.lake_engine import LakeEngine


class Door:
    """A running door. `engine` and `server` are for looking at; `call` runs code in its loop."""

    def __init__(self, engine: LakeEngine, server: PostgresServer, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self.server = server
        self.loop = loop
        self.host = "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def conninfo(self) -> str:
        return f"host={self.host} port={self.port} user=tester dbname=headrace sslmode=disable"


@contextmanager
def opened(lake: Path, **options: float) -> Iterator[Door]:
    engine = LakeEngine(lake)
    loop = asyncio.new_event_loop()
    server = PostgresServer(engine, host="127.0.0.1", port=0, **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(engine.start(), loop).result(20)
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
        yield Door(engine, server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
        asyncio.run_coroutine_threadsafe(engine.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def write_lake(lake: Path) -> None:
    """`events`, partitioned and all text, and `kinds` with a column of each type."""
    rows = [("ListingView", f"2026-01-0{day}", f"u{user}") for day in (1, 2) for user in range(5)]
    write_events(lake, [*rows, ("Click", "2026-01-02", "u1")])
    moment = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "small": pa.array([7, None], pa.int16()),
        "whole": pa.array([7, -8], pa.int32()),
        "single": pa.array([1.5, None], pa.float32()),
        "real": pa.array([0.1, -2.0], pa.float64()),
        "price": pa.array([Decimal("12.50"), None], pa.decimal128(10, 2)),
        "flag": pa.array([True, False], pa.bool_()),
        "name": pa.array(["it's", None], pa.string()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "day": pa.array([moment.date(), None], pa.date32()),
        "at": pa.array([moment, None], pa.timestamp("us", tz="UTC")),
        "tags": pa.array([["a", "b c", None], []], pa.list_(pa.string())),
        "numbers": pa.array([[1, 2], None], pa.list_(pa.int32())),
        "nested": pa.array([{"x": 1, "y": "z"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    }
    write_deltalake(lake / "kinds", pa.table(columns))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder)
    return folder


@pytest.fixture(scope="module")
def door(lake: Path) -> Iterator[Door]:
    with opened(lake) as running:
        yield running
