"""A connection keeps the order of replies, holds slow clients back, and harms nobody else when it breaks."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.connection import (
    CHUNK_BYTES,
    MOST_OPEN,
    Connection,
)
from headrace.broker.errors import CloseConnectionError

LIMIT = 1024 * 1024
pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@dataclass
class CountingFile:
    """A file of one byte, as long as asked for; counts what was read."""

    read: int = 0
    missing: int = 0

    def fileno(self) -> int:
        return -1

    def pread(self, size: int, _position: int) -> bytes:
        self.read += size
        return b"r" * (size - self.missing)


@dataclass
class Part:
    size: int
    file: Any = field(default_factory=CountingFile)
    position: int = 0


class Service:
    """Connections that are answered by a function of the frame."""

    def __init__(self, answer: Callable[[bytes], Any]) -> None:
        self.connections: set[Connection] = set()
        self.frames: list[bytes] = []
        self.port = 0
        self._answer = answer

    def dispatch(self, frame: memoryview, _connection: Connection) -> Any:
        self.frames.append(bytes(frame))
        return self._answer(bytes(frame))

    def connection(self) -> Connection:
        return Connection(self.dispatch, LIMIT, self.connections.add, self.connections.discard)


@asynccontextmanager
async def serving(answer: Callable[[bytes], Any]) -> AsyncIterator[Service]:
    service = Service(answer)
    server = await asyncio.get_running_loop().create_server(service.connection, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for connection in tuple(service.connections):
            connection.abort()
        await until(lambda: not service.connections)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


async def connect(service: Service) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", service.port)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def test_replies_go_out_in_the_order_of_requests() -> None:
    futures: dict[bytes, asyncio.Future[Any]] = {}

    def answer(frame: bytes) -> Any:
        if frame.startswith(b"now"):
            return [frame + b";"]
        futures[frame] = asyncio.get_running_loop().create_future()
        return futures[frame]

    async with serving(answer) as service:
        reader, writer = await connect(service)
        writer.write(b"".join(framed(body) for body in (b"later1", b"now2", b"later3", b"now4")))
        await until(lambda: len(service.frames) == 4)
        futures[b"later3"].set_result([b"later3;"])
        await asyncio.sleep(0)
        futures[b"later1"].set_result([b"later1;"])
        assert await reader.readexactly(24) == b"later1;now2;later3;now4;"
        writer.close()


async def test_a_request_that_must_not_be_overtaken_holds_the_later_ones_back() -> None:
    loop = asyncio.get_running_loop()
    holds = [loop.create_future() for _ in range(2)]

    def answer(frame: bytes) -> Any:
        if frame == b"hold":
            (connection,) = service.connections
            for future in holds:
                connection.hold_until(future)
        return [frame]

    async with serving(answer) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"hold") + framed(b"next"))
        assert await reader.readexactly(4) == b"hold"
        writer.write(framed(b"last"))
        for future in holds:
            assert service.frames == [b"hold"]
            future.set_result(None)
            await asyncio.sleep(0.01)
        assert await reader.readexactly(8) == b"nextlast"
        writer.close()


async def test_a_client_that_does_not_read_costs_a_bounded_amount() -> None:
    part = Part(200 * 1024 * 1024)
    async with serving(lambda _frame: [b"head", part, b"tail"]) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"give"))
        await until(lambda: part.file.read > 0)
        before = -1
        while part.file.read != before:
            before = part.file.read
            await asyncio.sleep(0.1)
        # The sockets' own buffers take some megabytes; the rest stays in the file.
        assert part.file.read < 20 * 1024 * 1024
        received = 0
        while received < part.size + 8:
            received += len(await reader.read(1 << 20))
        assert received == part.size + 8
        assert part.file.read == part.size
        writer.close()


class RealFile:
    """As a segment's: the kernel can read it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self._descriptor

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._descriptor, size, position)


@pytest.mark.parametrize("pause", [0.0, 0.02])
async def test_records_arrive_as_they_stand_in_the_file(tmp_path: Path, pause: float) -> None:
    content = random.Random(3).randbytes(9 * 1024 * 1024)
    (tmp_path / "segment").write_bytes(content)
    file = RealFile(tmp_path / "segment")
    parts = [Part(4_000_000, file, 17), Part(10, file, 5), Part(5_000_000, file, 4_000_000)]
    expected = b"".join(b"<" + content[part.position :][: part.size] + b">" for part in parts)

    def answer(_frame: bytes) -> Any:
        return [piece for part in parts for piece in (b"<", part, b">")]

    async with serving(answer) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"one") + framed(b"two"))
        received = bytearray()
        while len(received) < 2 * len(expected):
            received += await reader.read(300_000)
            await asyncio.sleep(pause)
        assert bytes(received) == expected + expected
        writer.close()


async def test_a_real_file_that_ends_too_early_ends_the_connection(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"x" * 200_000)
    part = Part(300_000, RealFile(tmp_path / "segment"))
    async with serving(lambda _frame: [b"head", part]) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"give"))
        assert len(await reader.read()) < 300_000
        await until(lambda: not service.connections)
        writer.close()


async def test_nothing_more_is_taken_from_a_client_with_many_open_requests() -> None:
    def answer(_frame: bytes) -> Any:
        return asyncio.get_running_loop().create_future()

    async with serving(answer) as service:
        _reader, writer = await connect(service)
        for number in range(10 * MOST_OPEN):
            writer.write(framed(b"%d" % number + b"x" * 1000))
        await until(lambda: len(service.frames) == MOST_OPEN)
        await asyncio.sleep(0.1)
        assert len(service.frames) == MOST_OPEN
        writer.close()


async def test_a_client_that_asks_without_reading_is_not_served_without_end() -> None:
    async with serving(lambda _frame: [b"x" * 100_000]) as service:
        reader, writer = await connect(service)
        for number in range(2_000):
            writer.write(framed(b"%d" % number))
        seen = -1
        while len(service.frames) != seen:
            seen = len(service.frames)
            await asyncio.sleep(0.1)
        assert seen * 100_000 < 16 * 1024 * 1024
        received = 0
        while received < 2_000 * 100_000:
            received += len(await reader.read(1 << 20))
        assert len(service.frames) == 2_000
        writer.close()


@pytest.mark.parametrize("size", [-1, LIMIT + 1])
async def test_a_frame_of_a_wrong_size_ends_its_connection_alone(size: int) -> None:
    async with serving(lambda frame: [frame]) as service:
        _other_reader, other_writer = await connect(service)
        reader, writer = await connect(service)
        writer.write(struct.pack(">i", size) + b"x" * 100)
        assert await reader.read() == b""
        other_writer.write(framed(b"still here"))
        assert await _other_reader.readexactly(10) == b"still here"
        other_writer.close()


@pytest.mark.parametrize("error", [CloseConnectionError("no"), ValueError("a bug")])
async def test_a_request_that_fails_ends_its_connection_alone(error: Exception) -> None:
    def answer(frame: bytes) -> Any:
        if frame == b"bad":
            raise error
        if frame == b"bad later":
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
            return future
        return [frame]

    async with serving(answer) as service:
        other_reader, other_writer = await connect(service)
        for body in (b"bad", b"bad later"):
            reader, writer = await connect(service)
            writer.write(framed(body))
            assert await reader.read() == b""
        other_writer.write(framed(b"still here"))
        assert await other_reader.readexactly(10) == b"still here"
        other_writer.close()


async def test_a_file_that_ends_too_early_ends_the_connection() -> None:
    part = Part(5 * CHUNK_BYTES, CountingFile(missing=1))
    async with serving(lambda _frame: [b"head", part]) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"give"))
        await until(lambda: not service.connections)
        assert len(await reader.read()) <= 4
        writer.close()


async def test_what_a_lost_client_waited_for_is_cancelled() -> None:
    futures: list[asyncio.Future[Any]] = []

    def answer(_frame: bytes) -> Any:
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with serving(answer) as service:
        _reader, writer = await connect(service)
        writer.write(framed(b"a") + framed(b"b"))
        await until(lambda: len(futures) == 2)
        writer.close()
        await until(lambda: all(future.cancelled() for future in futures))


async def test_closing_lets_out_what_is_owed_and_takes_nothing_more() -> None:
    part = Part(30 * 1024 * 1024)
    async with serving(lambda _frame: [b"head", part]) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"give"))
        await until(lambda: part.file.read > 0)
        next(iter(service.connections)).close()
        writer.write(framed(b"too late"))
        assert len(await reader.read()) == part.size + 4
        assert len(service.frames) == 1
        writer.close()


async def test_no_reply_leaves_no_gap() -> None:
    async with serving(lambda frame: None if frame == b"quiet" else [frame]) as service:
        reader, writer = await connect(service)
        writer.write(framed(b"quiet") + framed(b"loud"))
        assert await reader.readexactly(4) == b"loud"
        writer.close()


async def test_replies_that_are_gathered_keep_their_order_among_records_and_later_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "segment").write_bytes(b"r" * 200_000)
    record = Part(200_000, RealFile(tmp_path / "segment"))
    kinds = random.Random(5).choices(("small", "large", "records", "later", "none"), k=200)

    def answer(frame: bytes) -> Any:
        kind = kinds[int(frame)]
        if kind == "none":
            return None
        if kind == "records":
            return [frame, record]
        reply = [frame * (700 if kind == "large" else 1) + b";"]
        if kind != "later":
            return reply
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, reply)
        return future

    expected = bytearray()
    for number, kind in enumerate(kinds):
        frame = b"%d" % number
        plain = frame * (700 if kind == "large" else 1) + b";"
        expected += {"none": b"", "records": frame + b"r" * 200_000}.get(kind, plain)
    async with serving(answer) as service:
        reader, writer = await connect(service)
        writer.write(b"".join(framed(b"%d" % number) for number in range(len(kinds))))
        assert await reader.readexactly(len(expected)) == expected
        writer.close()
