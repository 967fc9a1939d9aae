"""Asks the engine: translates a statement, runs it under the session's limits, and describes it.

Owns the question that is running, of which there is at most one in a session, and how it is stopped: `stop`
ends it with 57014. Translating happens in threads, one for short statements and one for long ones, so that
a long one delays neither the event loop nor other sessions' short ones. Never knows the protocol's
messages.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.postgres.answers import Answer, ColumnShape, shapes
from headrace.query.postgres.catalogue.relations import Catalogue
from headrace.query.postgres.commands import Question
from headrace.query.postgres.engine import Engine
from headrace.query.postgres.lexer import StatementText, statements
from headrace.query.postgres.protocol.decoding import literal
from headrace.query.postgres.protocol.errors import (
    CANCELLED,
    INTERNAL,
    SYNTAX_ERROR,
    PostgresError,
    from_headrace,
)
from headrace.query.postgres.settings import Settings
from headrace.query.postgres.translation import Session, Translation, translate, with_parameters
from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.references.spelling import moments_in, respelled, with_freshness
from headrace.query.sql import QueryResult

_log = logging.getLogger(__name__)
_SHORT: Final = 8 * 1024
_PLAN: Final = "QUERY PLAN"


class Translators:
    """The threads in which statements are translated, shared by all sessions."""

    def __init__(self) -> None:
        # Its warnings would repeat users' statements in our log.
        logging.getLogger("sqlglot").setLevel(logging.ERROR)
        self._short = ThreadPoolExecutor(1, thread_name_prefix="postgres-translation")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="postgres-long-translation")

    def for_length(self, length: int) -> ThreadPoolExecutor:
        return self._short if length <= _SHORT else self._long

    def close(self) -> None:
        self._short.shutdown(cancel_futures=True)
        self._long.shutdown(cancel_futures=True)


class Questions:
    """The questions of one session, one after the other."""

    def __init__(
        self, engine: Engine, translators: Translators, settings: Settings, session: Session
    ) -> None:
        self._engine = engine
        self._translators = translators
        self._settings = settings
        self._session = session
        self._running: asyncio.Task[QueryResult] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End the question that is running, if there is one."""
        if self._running is not None:
            self._stopped = True
            self._running.cancel()

    async def translated(self, question: Question, declared: Sequence[int] = ()) -> Translation:
        try:
            found = respelled(question.text)
            tables = await self._engine.tables()
            if moments := moments_in(found.sql, tables):
                tables = {**tables, **await self._engine.tables_at(moments)}
        except HeadraceError as error:
            raise from_headrace(error) from error
        statement = _only(found.sql)
        catalogue = Catalogue(tables=tables, settings=self._settings.by_lower_name)
        pool = self._translators.for_length(len(question.text))
        call: Callable[[], Translation] = lambda: translate(statement, catalogue, self._session, declared)  # noqa: E731
        try:
            translation = await asyncio.get_running_loop().run_in_executor(pool, call)
        except PostgresError:
            raise
        except Exception as error:
            # The parser raises whatever it runs into. Only this statement fails.
            _log.exception("A statement could not be translated.")
            raise PostgresError(INTERNAL, f"the statement could not be translated: {error}") from error
        if found.sql == question.text:
            return translation
        # Positions in the engine's errors are not those of what the client has sent.
        sql = with_freshness(translation.sql, found.freshness)
        return dataclasses.replace(translation, sql=sql, unchanged=False)

    async def answer(
        self, question: Question, translation: Translation, literals: Sequence[str] = ()
    ) -> Answer:
        """The whole answer, which the engine keeps within its bounds."""
        sql = with_parameters(translation.sql, literals)
        if not question.explain:
            result = await self._run(sql, translation, question.text, self._settings.after)
            return Answer.of_result(result, translation.names)
        result = await self._run(f"{question.explain} {sql}", translation, question.text)
        lines = [line for row in result.rows for line in str(row[-1]).splitlines()]
        return Answer.of_texts([_PLAN], [[line] for line in lines])

    async def shape(self, question: Question, translation: Translation) -> tuple[ColumnShape, ...]:
        """The columns that the answer will have, without asking for it."""
        if question.explain:
            return Answer.of_texts([_PLAN], []).columns
        nulls = [literal(None, oid, binary=False) for oid in translation.types]
        sql = f"DESCRIBE {with_parameters(translation.sql, nulls)}"
        result = await self._run(sql, translation, question.text)
        columns = [str(row[0]) for row in result.rows]
        return shapes(columns, [str(row[1]) for row in result.rows], translation.names)

    async def _run(
        self, sql: str, translation: Translation, asked: str, after: After = NOTHING
    ) -> QueryResult:
        self._stopped = False
        self._running = asyncio.ensure_future(self._engine.run(sql, (), after=after))
        limit = self._settings.statement_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                return await self._running
        except HeadraceError as error:
            raise from_headrace(error, asked if translation.unchanged else "") from error
        except TimeoutError as error:
            raise PostgresError(CANCELLED, "canceling statement due to statement timeout") from error
        except asyncio.CancelledError as error:
            if not self._stopped:
                raise
            raise PostgresError(CANCELLED, "canceling statement due to user request") from error
        finally:
            self._running = None


def _only(text: str) -> StatementText:
    found = statements(text)
    if len(found) != 1:
        raise PostgresError(SYNTAX_ERROR, "exactly one statement is expected here")
    return found[0]
