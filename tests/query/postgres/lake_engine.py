"""The door's engine of a running platform, over a desk with workers of its own; it counts questions."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.query.desk import Desk
from headrace.query.postgres.desk_engine import DeskEngine
from headrace.query.questions import QuestionLimits
from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.sql import QueryResult
from headrace.query.table_snapshot import Column

_LIMITS = QuestionLimits(rows=300_000, threads=1)


class LakeEngine:
    """Answers from the tables in `lake`. `running` counts questions, `interrupted` the stopped ones."""

    def __init__(self, lake: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-test-"))
        self._desk = Desk(lake, limits=_LIMITS, slots=2, most_waiting=100, folder=folder)
        self._engine = DeskEngine(self._desk)
        self.running = 0
        self.interrupted = 0

    async def start(self) -> None:
        await self._desk.start()

    async def tables(self) -> Mapping[str, Sequence[Column]]:
        return await self._engine.tables()

    async def tables_at(self, moments: Sequence[str]) -> Mapping[str, Sequence[Column]]:
        return await self._engine.tables_at(moments)

    async def run(
        self, sql: str, parameters: Sequence[object] = (), *, after: After = NOTHING
    ) -> QueryResult:
        assert not parameters, "the door writes parameters into the statement"
        self.running += 1
        try:
            return await self._engine.run(sql, parameters, after=after)
        except asyncio.CancelledError:
            self.interrupted += 1
            raise
        finally:
            self.running -= 1

    async def close(self) -> None:
        await self._desk.stop()
