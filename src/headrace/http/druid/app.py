"""Druid's SQL API and the routes about the server that its clients ask.

| route | answer |
|---|---|
| `POST /druid/v2/sql` | the rows of a statement, in one of Druid's result formats |
| `DELETE /druid/v2/sql/{id}` | cancels: 202, or 404 if nothing with this id runs |
| `GET /druid/v2/datasources` | the names of the tables |
| `GET /status`, `/status/health`, `/status/properties` | about the server |

Invariants: every error has Druid's format; a statement that is cancelled, runs into its timeout, or whose client
has gone, ends at once for the client and is cancelled in the engine; nothing slow runs on the event loop. Decides
nothing about SQL: that is `headrace.query.druid`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import psutil
from litestar import Litestar, Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody
from litestar.response import Stream

import headrace
from headrace.core.errors import HeadraceError
from headrace.http.druid.answers import TIMEOUT, answer, error_of, failed, refused
from headrace.http.druid.requests import (
    DruidRequest,
    context_of,
    query_id_of,
    request_of,
    timeout_of,
    wanted_of,
)
from headrace.http.foreign_api import create_application
from headrace.query.druid.asking import DruidEngine
from headrace.query.druid.calls import Context
from headrace.query.druid.results import MEDIA_TYPES, Wanted, written
from headrace.query.druid.schema import Catalogue
from headrace.query.druid.translating import Statement, Translation, read, translate

MOST_BODY_BYTES: Final = 4 * 1024 * 1024
SQL_QUERY_ID: Final = "X-Druid-SQL-Query-Id"
QUERY_ID: Final = "X-Druid-Query-Id"


@dataclass(slots=True, kw_only=True)
class _Running:
    """What runs, by the id that clients know: it need not be unique."""

    engine: DruidEngine
    by_query_id: dict[str, set[str]] = field(default_factory=dict)

    @contextlib.contextmanager
    def entered(self, query_id: str) -> Any:
        question_id = uuid4().hex
        self.by_query_id.setdefault(query_id, set()).add(question_id)
        try:
            yield question_id
        finally:
            self.forget(query_id, question_id)

    def forget(self, query_id: str, question_id: str) -> None:
        questions = self.by_query_id.get(query_id, set())
        questions.discard(question_id)
        if not questions:
            self.by_query_id.pop(query_id, None)

    def cancel(self, query_id: str) -> bool:
        found = [self.engine.cancel(each) for each in tuple(self.by_query_id.get(query_id, ()))]
        return any(found)


def create_druid_app(engine: DruidEngine) -> Litestar:
    """The application; the caller starts the engine before and stops it after."""
    return create_application(
        [*_sql(engine), *_about(engine)],
        error=error_of,
        code_of=lambda error: error.http_status,
        exception_handlers={HeadraceError: lambda _, error: refused(error)},
    )


def _sql(engine: DruidEngine) -> Sequence[HTTPRouteHandler]:
    running = _Running(engine=engine)

    @post("/druid/v2/sql", status_code=200, request_max_body_size=MOST_BODY_BYTES)
    async def sql(request: Request[Any, Any, Any], body: RawBody) -> Response[Any]:
        host = request.headers.get("host", "")
        headers: dict[str, str] = {}
        try:
            asked = request_of(body, request.content_type[0].lower())
            query_id = query_id_of(asked.settings)
            headers = {SQL_QUERY_ID: query_id, QUERY_ID: query_id}
            statement = await asyncio.to_thread(read, asked.query)
            settings = {**asked.settings, **statement.settings}
            return await _unless_gone(
                request, _answer(running, asked, statement, settings, query_id, headers)
            )
        except HeadraceError as error:
            return refused(error, host=host, headers=headers)
        except TimeoutError:
            message = "The query did not end within its timeout."
            return failed(TIMEOUT, message, host=host, headers=headers)

    @delete("/druid/v2/sql/{query_id:str}", status_code=202)
    async def cancel(query_id: FromPath[str]) -> Response[bytes]:
        return Response(b"", status_code=202 if running.cancel(query_id) else 404)

    return [sql, cancel]


async def _answer(
    running: _Running,
    asked: DruidRequest,
    statement: Statement,
    settings: Mapping[str, Any],
    query_id: str,
    headers: dict[str, str],
) -> Response[Any]:
    context, timeout = context_of(settings), timeout_of(settings)
    wanted = wanted_of(asked, settings, context)
    if wanted.header:
        headers["X-Druid-SQL-Header-Included"] = "yes"
    entered = running.entered(query_id)
    question_id = entered.__enter__()
    try:
        async with asyncio.timeout(timeout):
            parts = await _parts(running.engine, asked, statement, context, wanted, question_id)
    except BaseException:
        running.engine.cancel(question_id)
        entered.__exit__(None, None, None)
        raise
    return Stream(
        _until_end(parts, entered), media_type=MEDIA_TYPES[wanted.format], headers=headers, status_code=200
    )


async def _parts(
    engine: DruidEngine,
    asked: DruidRequest,
    statement: Statement,
    context: Context,
    wanted: Wanted,
    question_id: str,
) -> AsyncIterator[bytes]:
    tables = await engine.tables()
    translation = await asyncio.to_thread(
        translate,
        statement,
        tables,
        context=context,
        parameters=asked.parameters,
        catalogue=Catalogue(tables),
    )
    if not statement.explained:
        return await engine.ask(translation.sql, wanted, question_id=question_id)
    plan = await engine.ask(f"EXPLAIN {translation.sql}", Wanted(format="array"), question_id=question_id)
    text = b"".join([part async for part in plan])
    return _explanation(translation, json.loads(text), wanted)


async def _explanation(
    translation: Translation, plan: list[list[str]], wanted: Wanted
) -> AsyncIterator[bytes]:
    """The three columns of Druid's EXPLAIN PLAN FOR. The plan is DuckDB's."""
    content = [
        {"query": {"queryType": "duckdb", "sql": translation.sql, "plan": plan[-1][-1] if plan else ""}}
    ]
    resources = [{"name": name, "type": "DATASOURCE"} for name in translation.tables]
    row = (json.dumps(content), json.dumps(resources), json.dumps({"statementType": "SELECT"}))
    for part in written(("PLAN", "RESOURCES", "ATTRIBUTES"), ("VARCHAR",) * 3, [row], wanted):
        yield part


async def _until_end(parts: AsyncIterator[bytes], entered: Any) -> AsyncIterator[bytes]:
    try:
        async for part in parts:
            yield part
    finally:
        entered.__exit__(None, None, None)
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()


async def _unless_gone(request: Request[Any, Any, Any], work: Any) -> Response[Any]:
    """The response; nobody waits for it any more once the client has disconnected."""
    response = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({response, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not response.done():
            response.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await response
            raise HeadraceError("query_cancelled", "The client has disconnected.")
        return response.result()
    finally:
        gone.cancel()
        response.cancel()


async def _disconnected(request: Request[Any, Any, Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _about(engine: DruidEngine) -> Sequence[HTTPRouteHandler]:
    @get("/druid/v2/datasources")
    async def datasources() -> Response[bytes]:
        return answer(sorted(table.name for table in await engine.tables()))

    @get("/status")
    async def status() -> Response[bytes]:
        used, total = psutil.Process().memory_info().rss, psutil.virtual_memory().total
        memory = {
            "maxMemory": total,
            "totalMemory": used,
            "freeMemory": 0,
            "usedMemory": used,
            "directMemory": 0,
        }
        return answer({"version": headrace.__version__, "modules": [], "memory": memory})

    @get("/status/health")
    async def health() -> Response[bytes]:
        return answer(True)

    @get("/status/properties")
    async def properties() -> Response[bytes]:
        return answer({"druid.service": "headrace", "druid.sql.enable": "true"})

    return [datasources, status, health, properties]
