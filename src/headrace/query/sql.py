"""SQL over the lake for callers that wait: the same workers, limits and answers as behind `POST /sql`.

`SqlRunner` asks the desk of this process; `LakeQuery` has a desk of its own, for commands that need no
running platform. Any number of threads may run queries at once. Each sees all tables at one moment, reads
only files of those versions, changes nothing (`permitted.py`), and ends within its limits.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headrace.query.buckets.serving import Buckets
from headrace.query.desk import Desk
from headrace.query.log_sources import LogSources
from headrace.query.planning import Tails
from headrace.query.questions import Question, QuestionLimits
from headrace.query.result_formats import ROWS, unpickled

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """An answer: the names and DuckDB types of its columns, and its rows as Python values."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


class SqlRunner:
    """Questions of other threads to a desk that belongs to `loop`."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._loop = loop

    def run(self, sql: str, parameters: Sequence[object] = (), *, question_id: str = "") -> QueryResult:
        """Raises HeadraceError: query_failed, too_many_questions, or no_such_table if there are none yet.

        Blocks: never call it from the desk's event loop.
        """
        question = Question(sql=sql, parameters=tuple(parameters), answer_format=ROWS)
        if question_id:
            question = dataclasses.replace(question, question_id=question_id)
        columns, types, content = asyncio.run_coroutine_threadsafe(
            whole_answer(self._desk, question), self._loop
        ).result()
        return QueryResult(columns=columns, types=types, rows=tuple(unpickled(content)))


class LakeQuery:
    """Answers SQL from the Delta tables in `lake_dir`, with workers of its own, which start when asked."""

    def __init__(
        self,
        lake_dir: Path,
        *,
        time_limit_seconds: float = 30.0,
        memory_megabytes: int = 512,
        threads: int | None = None,
        most_rows: int = 100_000,
        tails: Tails | None = None,
        sources: LogSources | None = None,
        buckets: Buckets | None = None,
        topic_megabytes: int = 1024,
    ) -> None:
        self._lake_dir = lake_dir.resolve()
        self._limits = QuestionLimits(
            seconds=time_limit_seconds,
            memory_megabytes=memory_megabytes,
            rows=most_rows,
            threads=threads or os.cpu_count() or 1,
            topic_megabytes=topic_megabytes,
        )
        self._tails = tails
        self._sources = sources
        self._buckets = buckets
        self._lock = threading.Lock()
        self._own: _OwnDesk | None = None

    def run(self, sql: str, parameters: Sequence[object] = ()) -> QueryResult:
        """As `SqlRunner.run`."""
        with self._lock:
            if self._own is None:
                self._own = _OwnDesk(self._lake_dir, self._limits, self._tails, self._sources, self._buckets)
            runner = self._own.runner
        return runner.run(sql, parameters)

    def close(self) -> None:
        """End the workers. No query may be running; the next one starts over."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()


class _OwnDesk:
    """A desk with an event loop in a thread of its own: workers live as long as the thread."""

    def __init__(
        self,
        lake_dir: Path,
        limits: QuestionLimits,
        tails: Tails | None,
        sources: LogSources | None,
        buckets: Buckets | None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sql", daemon=True)
        self._thread.start()
        folder = Path(tempfile.mkdtemp(prefix="headrace-query-"))
        # For those who do not close it; workers end with this process in any case.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._desk = self._do(
            self._made(lake_dir, limits, folder, tails=tails, sources=sources, buckets=buckets)
        )
        self.runner = SqlRunner(self._desk, self._loop)

    def close(self) -> None:
        self._do(self._desk.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _made(
        self,
        lake_dir: Path,
        limits: QuestionLimits,
        folder: Path,
        *,
        tails: Tails | None,
        sources: LogSources | None,
        buckets: Buckets | None,
    ) -> Desk:
        desk = Desk(
            lake_dir,
            limits=limits,
            slots=os.cpu_count() or 1,
            most_waiting=1000,
            folder=folder,
            tails=tails,
            sources=sources,
            buckets=buckets,
        )
        await desk.start()
        return desk

    def _do(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def whole_answer(desk: Desk, question: Question) -> tuple[tuple[str, ...], tuple[str, ...], bytes]:
    """Columns, types and content. Stops the question if the task that waits is cancelled."""
    answer = await desk.ask(question)
    try:
        content = b"".join([part async for part in answer.parts()])
    finally:
        answer.close()
    return answer.columns, answer.types, content
