"""The asking side of questions for Spark: writes them to the log, and waits for the pipeline process.

Invariants: a question is given up, with an error, as soon as the pipeline process is known not to run, or has
given no sign for a while; whatever happens, its record is withdrawn, and the files of its answer are deleted;
the log is connected to at the first question, so that whoever never asks needs none. Belongs to one event
loop; what waits for the log runs in threads.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.core.errors import HTTP_STATUS, HeadraceError
from headrace.pipeline.catalogue.spark_questions import (
    LEASE_SECONDS,
    SparkAnswer,
    SparkQuestion,
    SparkQuestionLog,
    TableAt,
    lease,
)
from headrace.query.running import cancelled

_LOOK_SECONDS: Final = 0.05
_CHECK_SECONDS: Final = 0.5
_RENEW_SECONDS: Final = LEASE_SECONDS / 4
# The pipeline process gives a sign every two seconds.
_SILENCE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLimits:
    """`waiting` questions at most wait or run in Spark; each may take `seconds` once it runs."""

    seconds: float = 600.0
    waiting: int = 8
    rows: int = 100_000
    megabytes: int = 256


class SparkAsker:
    """`pipeline` gives what tells one pipeline process from another, or None while none is ready."""

    def __init__(self, bootstrap: str, pipeline: Callable[[], str | None], limits: SparkLimits) -> None:
        self._bootstrap = bootstrap
        self._pipeline = pipeline
        self._limits = limits
        self._opening = asyncio.Lock()
        self._log: SparkQuestionLog | None = None
        self._asked = 0

    async def close(self) -> None:
        if self._log is not None:
            await asyncio.to_thread(self._log.stop)
            self._log = None

    async def ask(
        self,
        sql: str,
        tables: Sequence[TableAt],
        *,
        is_cancelled: Callable[[], bool],
        on_state: Callable[[str], None],
    ) -> SparkAnswer:
        """The answer; hand it to `forget` when its files were read. Raises HeadraceError."""
        if self._asked >= self._limits.waiting:
            raise HeadraceError(
                "too_many_questions",
                f"{self._asked} questions run or wait in Spark.",
                remedy="Ask again in a moment, or raise the setting `query_spark_waiting`.",
            )
        self._asked += 1
        question = SparkQuestion(
            id=uuid.uuid4().hex,
            sql=sql,
            tables=tuple(tables),
            seconds=self._limits.seconds,
            most_rows=self._limits.rows,
            most_megabytes=self._limits.megabytes,
            alive_until=lease(),
        )
        answer: SparkAnswer | None = None
        try:
            pipeline = await asyncio.to_thread(self._pipeline)
            if pipeline is None:
                raise _not_running()
            log = await self._opened()
            await asyncio.to_thread(log.ask, question)
            answer = await self._answer(question, log, pipeline, is_cancelled, on_state)
        finally:
            self._asked -= 1
            if answer is None or answer.state != "DONE":
                await self.forget(question.id, answer)
        if answer.state == "FAILED":
            code = answer.error if answer.error in HTTP_STATUS else "query_failed"
            raise HeadraceError(code, answer.message, remedy=answer.remedy)
        return answer

    async def forget(self, question_id: str, answer: SparkAnswer | None) -> None:
        """Nobody waits for it any more, or its files were read."""
        if self._log is not None:
            self._log.withdraw(question_id)
        if answer is not None and answer.folder:
            # The pipeline process does so too, but it may have ended.
            await asyncio.to_thread(shutil.rmtree, Path(answer.folder), ignore_errors=True)

    async def _opened(self) -> SparkQuestionLog:
        async with self._opening:
            if self._log is None:
                log = SparkQuestionLog(self._bootstrap)
                await asyncio.to_thread(log.start)
                self._log = log
            return self._log

    async def _answer(
        self,
        question: SparkQuestion,
        log: SparkQuestionLog,
        pipeline: str,
        is_cancelled: Callable[[], bool],
        on_state: Callable[[str], None],
    ) -> SparkAnswer:
        renewed = checked = heard = time.monotonic()
        before: SparkAnswer | None = None
        while True:
            if is_cancelled():
                raise cancelled()
            found = log.answer(question.id)
            now = time.monotonic()
            if found is not None and found != before:
                before, heard = found, now
                if found.state in ("DONE", "FAILED"):
                    return found
                on_state(_in_words(found))
            if now - checked > _CHECK_SECONDS:
                checked = now
                if await asyncio.to_thread(self._pipeline) != pipeline:
                    raise _ended()
            if now - heard > _SILENCE_SECONDS:
                raise _silent()
            if now - renewed > _RENEW_SECONDS:
                renewed = now
                log.renew(
                    SparkQuestion(
                        **{name: getattr(question, name) for name in question.__struct_fields__}
                        | {"alive_until": lease()}
                    )
                )
            await asyncio.sleep(_LOOK_SECONDS)


def _in_words(answer: SparkAnswer) -> str:
    if answer.state == "QUEUED":
        return f"queued in Spark{f': {answer.progress}' if answer.progress else ''}"
    return f"running in Spark{f': {answer.progress}' if answer.progress else ''}"


def _not_running() -> HeadraceError:
    return HeadraceError(
        "query_unavailable",
        "The pipeline process, in which Spark runs, is not ready.",
        remedy="`headrace status` shows it. Start it, ask again in a moment, or leave `engine` out: then "
        "DuckDB answers.",
    )


def _ended() -> HeadraceError:
    return HeadraceError(
        "query_unavailable",
        "The pipeline process ended while it ran the question.",
        remedy="It restarts by itself: ask again in a moment.",
    )


def _silent() -> HeadraceError:
    return HeadraceError(
        "query_unavailable",
        f"The pipeline process has given no sign of the question for {_SILENCE_SECONDS:g} s.",
        remedy="Check that it works (`headrace status`), then ask again.",
    )
