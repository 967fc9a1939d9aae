"""Streams rows to a client: a thread that polls, and an async iterator that yields.

Each running query has its own thread: what it polls belongs to that thread alone, from the first poll to the
cleanup. The thread is at most a few batches ahead of the client. When the client disconnects or the server
stops, the thread ends at its next check and cleans up.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, Generic, TypeVar

from headrace.http.statements.row_formats import Header, RowFormat
from headrace.pipeline.serving.errors import SERVER_ERROR
from headrace.pipeline.serving.pull_queries import PullAnswer
from headrace.pipeline.serving.push_queries import PushQueries, PushQuery
from headrace.pipeline.serving.topic_printing import PrintedTopic

_log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_BATCHES_AHEAD: Final = 4
_PULL_CHUNK: Final = 256
_Item = TypeVar("_Item")


class Pump(Generic[_Item]):
    """Polls in a thread until there is no more (None), it is closed, or `poll` raises."""

    def __init__(self, poll: Callable[[float], list[_Item] | None], clean_up: Callable[[], None]) -> None:
        self._poll = poll
        self._clean_up = clean_up
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[_Item] | None] = asyncio.Queue(_BATCHES_AHEAD)
        self._closed = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rows of a query", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    async def __aiter__(self) -> AsyncIterator[list[_Item]]:
        while (items := await self._queue.get()) is not None:
            yield items

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                items = self._poll(_POLL_SECONDS)
                if items is None:
                    break
                if items:
                    self._give(items)
        except Exception as error:
            # Sent to the client as the last row; the thread has nobody else to tell.
            self.failure = error
            _log.exception("a query failed while its rows were being read")
        finally:
            try:
                self._clean_up()
            finally:
                self._give(None)

    def _give(self, items: list[_Item] | None) -> None:
        """Wait for room, as long as there is a reader."""
        if self._loop.is_closed():
            return
        putting = asyncio.run_coroutine_threadsafe(self._queue.put(items), self._loop)
        while not self._closed.is_set():
            try:
                putting.result(_POLL_SECONDS)
            except FutureTimeoutError:
                continue
            except (FutureCancelledError, RuntimeError):
                self._closed.set()
            return
        putting.cancel()


async def pulled(answer: PullAnswer, query_id: str, rows: RowFormat) -> AsyncIterator[bytes]:
    """The answer to a pull query."""
    yield rows.begin(Header(query_id=query_id, columns=answer.columns, keys=answer.keys))
    for start in range(0, len(answer.rows), _PULL_CHUNK):
        yield b"".join(rows.row(values) for values in answer.rows[start : start + _PULL_CHUNK])
    yield rows.end(None)


async def pushed(query: PushQuery, queries: PushQueries, rows: RowFormat) -> AsyncIterator[bytes]:
    """The rows of a push query, until it ends or the client disconnects."""

    def clean_up() -> None:
        query.end()
        queries.end(query.id)

    pump: Pump[list[Any]] = Pump(query.poll, clean_up)
    try:
        yield rows.begin(Header(query_id=query.id, columns=query.columns))
        async for batch in pump:
            # One chunk per row, like ksqlDB: some clients parse chunk by chunk. Without a pause the server
            # would merge chunks.
            for values in batch:
                yield rows.row(values)
                await asyncio.sleep(0)
        if pump.failure is not None or query.failure is not None:
            yield rows.error(SERVER_ERROR, query.failure or str(pump.failure))
        else:
            yield rows.end("Limit Reached" if query.limit_reached else "Query Completed")
    finally:
        pump.close()


async def printed(topic: PrintedTopic) -> AsyncIterator[bytes]:
    """The lines of a PRINT statement."""
    pump: Pump[str] = Pump(topic.poll, topic.close)
    try:
        async for lines in pump:
            yield "".join(f"{line}\n" for line in lines).encode()
    finally:
        pump.close()
