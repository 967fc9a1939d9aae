"""Questions with `engine=spark`: checked and translated by a worker, run by Spark, handed on by a worker.

How a question goes: a worker checks the statement as any other, and translates it (`translating.py`); the
pipeline process runs it at the versions that were seen (`asking.py`); a worker reads the answer's files and
encodes them, so that every format looks as DuckDB's own. No slot and no worker is held while Spark runs.

Invariants: a question can be cancelled at any time, by its id and by whoever asked going away; the files of
an answer are deleted when it is closed. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.spark_questions import SparkAnswer, TableAt
from headrace.query.desk import Answer, Desk
from headrace.query.questions import LAKE, Question, StoredAnswer
from headrace.query.receipts.receipt import NOTHING
from headrace.query.result_formats import SPARK_STATEMENT
from headrace.query.spark.asking import SparkAsker


class SparkDesk:
    """Beside a desk, with whose workers it shares."""

    def __init__(self, desk: Desk, asker: SparkAsker) -> None:
        self._desk = desk
        self._asker = asker
        self._asked: dict[str, _Asked] = {}
        self._forgetting: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        for asked in list(self._asked.values()):
            asked.is_cancelled = True
        if self._forgetting:
            await asyncio.wait(set(self._forgetting))
        await self._asker.close()

    async def ask(self, question: Question) -> Answer:
        """As `Desk.ask`."""
        if question.question_id in self._asked:
            raise HeadraceError(
                "bad_request",
                f"A question with the id {question.question_id} is being answered.",
                remedy="Choose another id, or leave it out.",
            )
        asked = _Asked()
        self._asked[question.question_id] = asked
        try:
            content = await self._translated(question)
            answer = await self._asker.ask(
                content["sql"],
                [TableAt(**table) for table in content["locations"]],
                is_cancelled=lambda: asked.is_cancelled,
                on_state=asked.say,
            )
        finally:
            self._asked.pop(question.question_id, None)
        stored = StoredAnswer(
            files=answer.files,
            columns=tuple(content["columns"]),
            types=tuple(content["types"]),
            tables=tuple(content["tables"]),
        )
        try:
            read = await self._desk.ask(
                dataclasses.replace(question, parameters=(), after=NOTHING, stored=stored)
            )
        except BaseException:
            self._forget(answer)
            raise
        read.on_close(lambda: self._forget(answer))
        return read

    def cancel(self, question_id: str) -> bool:
        """False if there is none with this id in Spark."""
        asked = self._asked.get(question_id)
        if asked is None:
            return False
        asked.is_cancelled = True
        return True

    def state(self, question_id: str) -> str | None:
        """In words; None if there is none with this id in Spark."""
        asked = self._asked.get(question_id)
        return asked.state if asked is not None else None

    async def _translated(self, question: Question) -> dict[str, Any]:
        answer = await self._desk.ask(
            dataclasses.replace(question, answer_format=SPARK_STATEMENT, freshness=LAKE)
        )
        try:
            content: dict[str, Any] = json.loads(b"".join([part async for part in answer.parts()]))
        finally:
            answer.close()
        return content

    def _forget(self, answer: SparkAnswer) -> None:
        task = asyncio.create_task(self._asker.forget(answer.id, answer), name="forget-spark-answer")
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)


class _Asked:
    """A question that is in Spark, or on its way there."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.state = "translated for Spark"

    def say(self, state: str) -> None:
        self.state = state
