"""What runs the translated SQL: the protocol that the door depends on, and one over a blocking `run`.

Invariants of the protocol: `ask` returns when the answer begins, so that an error before it is raised there;
`cancel` ends a question within a second, also one that waits; closing the answer ends it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from headrace.core.errors import HeadraceError
from headrace.query.druid.results import Wanted, written
from headrace.query.druid.tables import DruidTable
from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.sql import QueryResult

MOST_AT_ONCE: Final = 16


class DruidEngine(Protocol):
    """Answers DuckDB SQL. Its sessions have the time zone UTC."""

    async def tables(self) -> Sequence[DruidTable]:
        """What can be read now."""

    async def tables_at(self, moments: Sequence[str]) -> Sequence[DruidTable]:
        """Tables at versions, by their names in statements. Raises HeadraceError."""

    async def ask(
        self, sql: str, wanted: Wanted, *, question_id: str, after: After = NOTHING
    ) -> AsyncIterator[bytes]:
        """The answer in the wanted format, once the events of `after` can be seen. Raises HeadraceError."""

    def cancel(self, question_id: str) -> bool:
        """False if there is no such question."""


class Run(Protocol):
    def __call__(self, sql: str, parameters: Sequence[object]) -> QueryResult: ...


class ThreadedEngine:
    """Questions to a blocking `run`, each in a thread. `interrupt` stops the one with an id, if it can."""

    def __init__(
        self,
        run: Run,
        tables: Callable[[], Sequence[DruidTable]],
        *,
        interrupt: Callable[[str], None] = lambda _: None,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._run = run
        self._tables = tables
        self._interrupt = interrupt
        self._most_at_once = most_at_once
        self._threads = ThreadPoolExecutor(most_at_once, thread_name_prefix="druid-sql")
        self._busy = 0
        self._asked: dict[str, asyncio.Event] = {}

    async def tables(self) -> Sequence[DruidTable]:
        return await asyncio.to_thread(self._tables)

    async def tables_at(self, moments: Sequence[str]) -> Sequence[DruidTable]:
        raise HeadraceError("bad_request", f"There are no versions of tables here: {', '.join(moments)}.")

    async def ask(
        self, sql: str, wanted: Wanted, *, question_id: str, after: After = NOTHING
    ) -> AsyncIterator[bytes]:
        if after.receipts:
            raise HeadraceError("bad_request", "There is no log here whose events could be waited for.")
        if self._busy >= self._most_at_once:
            raise HeadraceError(
                "too_many_questions",
                f"{self._busy} questions are being answered.",
                remedy="Ask again in a moment.",
            )
        cancelled = self._asked[question_id] = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._busy += 1
        work = loop.run_in_executor(self._threads, self._run, sql, ())
        # The thread may go on after nobody waits for it.
        work.add_done_callback(self._done)
        stopped = asyncio.ensure_future(cancelled.wait())
        either: set[asyncio.Future[Any]] = {work, stopped}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            self._asked.pop(question_id, None)
            if not work.done():
                self._interrupt(question_id)
        if not work.done() or cancelled.is_set():
            raise HeadraceError("query_cancelled", "The question was cancelled.")
        result = work.result()
        return self._parts(written(result.columns, result.types, result.rows, wanted))

    def cancel(self, question_id: str) -> bool:
        found = self._asked.get(question_id)
        if found is None:
            return False
        found.set()
        return True

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _parts(self, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part

    def _done(self, work: asyncio.Future[QueryResult]) -> None:
        self._busy -= 1
        if not work.cancelled():
            # Seen here, so that an error that nobody waits for any more is not reported as lost.
            work.exception()
