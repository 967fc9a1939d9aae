"""The engine behind the PostgreSQL door of a running platform: questions go to the desk of this process.

Invariants: a question whose task is cancelled is stopped by the desk, with its worker if need be; whatever
holds for `POST /sql` holds here, since it is the same desk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from headrace.query.desk import Desk
from headrace.query.questions import Question
from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.result_formats import ROWS, unpickled
from headrace.query.sql import QueryResult, whole_answer
from headrace.query.table_snapshot import Column


class DeskEngine:
    """`Engine` over a desk. Belongs to the event loop of the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def tables(self) -> Mapping[str, Sequence[Column]]:
        found = await self._desk.tables()
        return {name: table.columns for name, table in found.items() if not table.unreadable}

    async def tables_at(self, moments: Sequence[str]) -> Mapping[str, Sequence[Column]]:
        found = await self._desk.tables_at(moments)
        return {name: table.columns for name, table in found.items()}

    async def run(self, sql: str, parameters: Sequence[object], *, after: After = NOTHING) -> QueryResult:
        question = Question(sql=sql, parameters=tuple(parameters), answer_format=ROWS, after=after)
        columns, types, content = await whole_answer(self._desk, question)
        rows = await asyncio.to_thread(unpickled, content)
        return QueryResult(columns=columns, types=types, rows=tuple(rows))
