"""Druid's SQL API and the routes about the server that its clients ask.

| route | answer |
|---|---|
| `POST /druid/v2/sql` | the rows of a statement, in one of Druid's result formats |
| `DELETE /druid/v2/sql/{id}` | cancels: 202, or 404 if nothing with this id runs |
| `GET /druid/v2/datasources` | the names of the tables |
| `GET /status`, `/status/health`, `/status/properties` | about the server |

Invariants: every error has Druid's format; nothing slow runs on the event loop. Decides nothing about SQL:
that is `headrace.query.druid`.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import psutil
from litestar import Litestar, Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody
from litestar.response import Stream

import headrace
from headrace.core.errors import HeadraceError
from headrace.http.druid.answers import TIMEOUT, answer, error_of, failed, refused
from headrace.http.druid.requests import Asked, asked_of, query_id_of, request_of
from headrace.http.druid.running import RunningStatements
from headrace.http.foreign_api import create_application
from headrace.query.druid.asking import DruidEngine
from headrace.query.druid.results import MEDIA_TYPES, Wanted, written
from headrace.query.druid.schema import Catalogue
from headrace.query.druid.translating import Translation, translate
from headrace.query.references.spelling import moments_in, with_freshness

MOST_BODY_BYTES: Final = 4 * 1024 * 1024
SQL_QUERY_ID: Final = "X-Druid-SQL-Query-Id"
QUERY_ID: Final = "X-Druid-Query-Id"


def create_druid_app(engine: DruidEngine) -> Litestar:
    """The application; the caller starts the engine before and stops it after."""
    return create_application(
        [*_sql(engine), *_about(engine)],
        error=error_of,
        code_of=lambda error: error.http_status,
        exception_handlers={HeadraceError: lambda _, error: refused(error)},
    )


def _sql(engine: DruidEngine) -> Sequence[HTTPRouteHandler]:
    running = RunningStatements(engine)

    @post("/druid/v2/sql", status_code=200, request_max_body_size=MOST_BODY_BYTES)
    async def sql(request: Request[Any, Any, Any], body: RawBody) -> Response[Any]:
        host = request.headers.get("host", "")
        headers: dict[str, str] = {}
        try:
            given = request_of(body, request.content_type[0].lower())
            query_id = query_id_of(given.settings)
            headers = {SQL_QUERY_ID: query_id, QUERY_ID: query_id}
            asked = await asyncio.to_thread(asked_of, given)
            parts = await running.begin(
                query_id,
                functools.partial(_parts, engine, asked),
                gone=functools.partial(_disconnected, request),
                timeout_seconds=asked.timeout_seconds,
            )
        except HeadraceError as error:
            return refused(error, host=host, headers=headers)
        except TimeoutError:
            message = "The query did not end within its timeout."
            return failed(TIMEOUT, message, host=host, headers=headers)
        if asked.wanted.header:
            headers["X-Druid-SQL-Header-Included"] = "yes"
        return Stream(parts, media_type=MEDIA_TYPES[asked.wanted.format], headers=headers, status_code=200)

    @delete("/druid/v2/sql/{query_id:str}", status_code=202)
    async def cancel(query_id: FromPath[str]) -> Response[bytes]:
        return Response(b"", status_code=202 if running.cancel(query_id) else 404)

    return [sql, cancel]


async def _parts(engine: DruidEngine, asked: Asked, question_id: str) -> AsyncIterator[bytes]:
    tables = await engine.tables()
    if moments := moments_in(asked.statement.text, [table.name for table in tables]):
        tables = [*tables, *await engine.tables_at(moments)]
    translation = await asyncio.to_thread(
        translate,
        asked.statement,
        tables,
        context=asked.context,
        parameters=asked.parameters,
        catalogue=Catalogue(tables),
    )
    if not translation.explained:
        sql = with_freshness(translation.sql, asked.freshness)
        return await engine.ask(sql, asked.wanted, question_id=question_id, after=asked.after)
    plan = await engine.ask(f"EXPLAIN {translation.sql}", Wanted(format="array"), question_id=question_id)
    text = b"".join([part async for part in plan])
    return _explanation(translation, json.loads(text), asked.wanted)


async def _explanation(
    translation: Translation, plan: list[list[str]], wanted: Wanted
) -> AsyncIterator[bytes]:
    """The three columns of Druid's EXPLAIN PLAN FOR. The plan is DuckDB's."""
    content = [
        {"query": {"queryType": "duckdb", "sql": translation.sql, "plan": plan[0][-1] if plan else ""}}
    ]
    resources = [{"name": name, "type": "DATASOURCE"} for name in translation.tables]
    row = (json.dumps(content), json.dumps(resources), json.dumps({"statementType": "SELECT"}))
    for part in written(("PLAN", "RESOURCES", "ATTRIBUTES"), ("VARCHAR",) * 3, [row], wanted):
        yield part


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
