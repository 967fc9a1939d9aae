"""The engine behind Druid's API on a running platform: questions go to the desk of this process, and a worker
encodes their answers.

Invariants: an answer passes through this process as bytes; whatever holds for `POST /sql` holds here, since
it is the same desk.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence

from headrace.query.desk import Answer, Desk
from headrace.query.druid.answer_encoding import DruidEncoder
from headrace.query.druid.results import Wanted
from headrace.query.druid.tables import DruidTable, druid_tables
from headrace.query.questions import Question
from headrace.query.receipts.receipt import NOTHING, After


class DruidDesk:
    """`DruidEngine` over a desk. Belongs to the event loop of the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def tables(self) -> Sequence[DruidTable]:
        return druid_tables(list((await self._desk.tables()).values()))

    async def tables_at(self, moments: Sequence[str]) -> Sequence[DruidTable]:
        return druid_tables(list((await self._desk.tables_at(moments)).values()))

    async def ask(
        self, sql: str, wanted: Wanted, *, question_id: str, after: After = NOTHING
    ) -> AsyncIterator[bytes]:
        encoder = functools.partial(DruidEncoder, wanted)
        question = Question(sql=sql, answer_format=encoder, question_id=question_id, after=after)
        return _parts(await self._desk.ask(question))

    def cancel(self, question_id: str) -> bool:
        return self._desk.cancel(question_id)


async def _parts(answer: Answer) -> AsyncIterator[bytes]:
    try:
        async for part in answer.parts():
            yield bytes(part)
    finally:
        answer.close()
