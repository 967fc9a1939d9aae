"""The statements that are being answered, by the ids that clients know.

Invariants: a statement that is cancelled, that runs into its timeout, or whose client has gone, ends at once
for whoever waits, and is cancelled in the engine; it is forgotten when its answer has ended, however it
ended. An id that clients choose need not be unique: all of that id are cancelled. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

from headrace.core.errors import HeadraceError
from headrace.query.druid.asking import DruidEngine

Parts = AsyncIterator[bytes]


class RunningStatements:
    """Cancels what it began."""

    def __init__(self, engine: DruidEngine) -> None:
        self._engine = engine
        self._work: dict[str, dict[str, asyncio.Task[Parts]]] = {}

    async def begin(
        self,
        query_id: str,
        start: Callable[[str], Awaitable[Parts]],
        *,
        gone: Callable[[], Awaitable[None]],
        timeout_seconds: float | None,
    ) -> Parts:
        """The parts of the answer. `start` gets an id for the engine, `gone` returns when the client leaves.

        Raises HeadraceError, or TimeoutError.
        """
        question_id = uuid4().hex
        work = asyncio.create_task(_awaited(start(question_id)), name="druid-sql")
        leaving = asyncio.create_task(_awaited(gone()), name="druid-sql-client")
        self._work.setdefault(query_id, {})[question_id] = work
        either: set[asyncio.Task[Any]] = {work, leaving}
        begun = False
        try:
            await asyncio.wait(either, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                raise HeadraceError("query_cancelled", "The query was cancelled.")
            if work.done():
                parts = work.result()
                begun = True
                answer = self._until_end(parts, query_id, question_id)
                # A client can leave before the first part is asked for.
                weakref.finalize(answer, self._forget, query_id, question_id)
                return answer
            if leaving.done():
                raise HeadraceError("query_cancelled", "The client has disconnected.")
            raise TimeoutError
        finally:
            leaving.cancel()
            if not begun:
                self._stop(question_id, work)
                self._forget(query_id, question_id)

    def cancel(self, query_id: str) -> bool:
        """False if nothing with this id is being answered."""
        found = dict(self._work.get(query_id, {}))
        for question_id, work in found.items():
            self._stop(question_id, work)
        return bool(found)

    async def _until_end(self, parts: Parts, query_id: str, question_id: str) -> Parts:
        try:
            async for part in parts:
                yield part
        finally:
            self._forget(query_id, question_id)
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()

    def _stop(self, question_id: str, work: asyncio.Task[Parts]) -> None:
        self._engine.cancel(question_id)
        work.cancel()

    def _forget(self, query_id: str, question_id: str) -> None:
        questions = self._work.get(query_id, {})
        questions.pop(question_id, None)
        if not questions:
            self._work.pop(query_id, None)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
