"""ksqlDB's REST API: the routes that we have, in its formats, for existing clients.

Invariants: every error has one of ksqlDB's two formats, and the first three digits of its code are the HTTP
status; a statement is answered once it is in the statement log; the rows of a query are sent as they arrive.
Decides nothing about statements: that is `headrace.pipeline.serving`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response, asgi, get, post
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.params import FromPath, RawBody
from litestar.response import Redirect, Stream
from litestar.types import Receive, Scope, Send

import headrace
from headrace.core.errors import HeadraceError
from headrace.http.foreign_api import RefusedError, create_application
from headrace.http.statements.answers import (
    JSON,
    KSQL_JSON,
    answer,
    posted,
    refused,
    session_of,
    statement_error,
    status_of,
    text_field,
)
from headrace.http.statements.inserts import serve_inserts
from headrace.http.statements.row_formats import chosen_format
from headrace.http.statements.streaming import printed, pulled, pushed
from headrace.pipeline.serving.entities import SUCCESS, status
from headrace.pipeline.serving.errors import (
    BAD_REQUEST,
    CATCH_UP_TIMEOUT,
    NOT_FOUND,
    StatementFailedError,
    code_of,
)
from headrace.pipeline.serving.pull_queries import PullAnswer
from headrace.pipeline.serving.service import StatementService, prohibited_message
from headrace.pipeline.serving.session import is_prohibited
from headrace.pipeline.serving.topic_printing import PrintedTopic

SERVICE_ID: Final = "default_"
_CATCH_UP_SECONDS: Final = 5.0


def create_statements_app(service: StatementService) -> Litestar:
    """The application; the caller starts the service before and stops it after."""
    return create_application(
        [*_statements(service), *_queries(service), *_states(service), *_about(service)],
        error=refused,
        code_of=code_of,
        exception_handlers={StatementFailedError: _failed},
    )


def _statements(service: StatementService) -> Sequence[HTTPRouteHandler]:
    @post("/ksql", status_code=200)
    async def ksql(request: Request[Any, Any, Any], body: RawBody) -> Response[bytes]:
        content = posted(body)
        text, session = text_field(content, "ksql", "sql"), session_of(content)
        wanted = content.get("commandSequenceNumber")
        if isinstance(wanted, int) and not await asyncio.to_thread(
            service.log.wait_for, wanted, _CATCH_UP_SECONDS
        ):
            raise RefusedError(
                CATCH_UP_TIMEOUT,
                "Timed out while waiting for a previous command to execute. "
                f"command sequence number: {wanted}",
            )
        return answer(await asyncio.to_thread(service.execute, text, session), media_type=_media(request))

    return [ksql]


def _queries(service: StatementService) -> Sequence[HTTPRouteHandler | ASGIRouteHandler]:
    async def begun(request: Request[Any, Any, Any], body: bytes, *, old_endpoint: bool) -> Stream:
        content = posted(body)
        text, session = (
            text_field(content, "ksql" if old_endpoint else "sql", "sql", "ksql"),
            session_of(content),
        )
        rows = chosen_format(request.headers.get("accept", ""), old_endpoint=old_endpoint)
        found = await asyncio.to_thread(service.begin, text, session)
        if isinstance(found, PrintedTopic):
            return Stream(printed(found), media_type="text/plain; charset=utf-8")
        if isinstance(found, PullAnswer):
            query_id = f"query_{uuid.uuid4().hex}"
            return Stream(pulled(found, query_id, rows), media_type=rows.media_type)
        return Stream(pushed(found, service.push, rows), media_type=rows.media_type)

    @post("/query", status_code=200)
    async def query(request: Request[Any, Any, Any], body: RawBody) -> Stream:
        return await begun(request, body, old_endpoint=True)

    @post("/query-stream", status_code=200)
    async def query_stream(request: Request[Any, Any, Any], body: RawBody) -> Stream:
        return await begun(request, body, old_endpoint=False)

    @post("/close-query", status_code=200)
    async def close_query(body: RawBody) -> Response[bytes]:
        query_id = text_field(posted(body), "queryId")
        if not service.push.close(query_id):
            raise RefusedError(BAD_REQUEST, f"No query with id {query_id}")
        return Response(b"", media_type=KSQL_JSON)

    @asgi("/inserts-stream", copy_scope=True)
    async def inserts_stream(scope: Scope, receive: Receive, send: Send) -> None:
        await serve_inserts(service, scope, receive, send)

    return [query, query_stream, close_query, inserts_stream]


def _states(service: StatementService) -> Sequence[HTTPRouteHandler]:
    @get("/status")
    async def statuses(request: Request[Any, Any, Any]) -> Response[bytes]:
        listed = dict.fromkeys(service.log.commands(), SUCCESS)
        return answer({"commandStatuses": listed}, media_type=_media(request))

    @get("/status/{kind:str}/{entity:str}/{action:str}")
    async def command_status(
        request: Request[Any, Any, Any], kind: FromPath[str], entity: FromPath[str], action: FromPath[str]
    ) -> Response[bytes]:
        await asyncio.to_thread(service.log.read_to_end)
        commands = service.log.commands()
        # ksqlDB quotes the name in some of its command ids, and people omit the quotes.
        for name in (entity, f"`{entity}`", entity.strip("`")):
            outcome = commands.get(f"{kind}/{name}/{action}")
            if outcome is not None:
                return answer(status(outcome), media_type=_media(request))
        raise RefusedError(NOT_FOUND, "Command not found")

    @get("/clusterStatus")
    async def cluster_status(request: Request[Any, Any, Any]) -> Response[bytes]:
        host = request.headers.get("host", "localhost:8088")
        about = {
            "hostAlive": True,
            "lastStatusUpdateMs": time.time_ns() // 1_000_000,
            "activeStandbyPerQuery": {},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
        }
        return answer({"clusterStatus": {host: about}}, media_type=_media(request))

    @get("/is_valid_property/{name:str}")
    async def is_valid_property(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
        if is_prohibited(name):
            raise RefusedError(BAD_REQUEST, prohibited_message([name]))
        return answer(True, media_type=_media(request))

    return [statuses, command_status, cluster_status, is_valid_property]


def _about(service: StatementService) -> Sequence[HTTPRouteHandler]:
    @get("/")
    async def root() -> Redirect:
        return Redirect("/info", status_code=307)

    @get("/info")
    async def info(request: Request[Any, Any, Any]) -> Response[bytes]:
        about = {
            "version": headrace.__version__,
            "kafkaClusterId": await asyncio.to_thread(service.cluster.id),
            "ksqlServiceId": SERVICE_ID,
            "serverStatus": "RUNNING",
        }
        return answer({"KsqlServerInfo": about}, media_type=_media(request))

    @get("/healthcheck")
    async def healthcheck(request: Request[Any, Any, Any]) -> Response[bytes]:
        try:
            await asyncio.to_thread(service.log.read_to_end)
            healthy = True
        except HeadraceError:
            healthy = False
        details = {name: {"isHealthy": healthy} for name in ("metastore", "kafka", "commandRunner")}
        state = "READY" if healthy else "NOT_READY"
        return answer(
            {"isHealthy": healthy, "details": details, "serverState": state}, media_type=_media(request)
        )

    @get("/v1/metadata")
    async def metadata(request: Request[Any, Any, Any]) -> Response[bytes]:
        cluster = await _cluster_id(service)
        return answer({"version": headrace.__version__, "clusterId": cluster}, media_type=_media(request))

    @get("/v1/metadata/id")
    async def metadata_id(request: Request[Any, Any, Any]) -> Response[bytes]:
        return answer(await _cluster_id(service), media_type=_media(request))

    return [root, info, healthcheck, metadata, metadata_id]


async def _cluster_id(service: StatementService) -> dict[str, Any]:
    kafka = await asyncio.to_thread(service.cluster.id)
    return {
        "id": "",
        "scope": {"path": [], "clusters": {"kafka-cluster": kafka, "ksql-cluster": SERVICE_ID}},
    }


def _media(request: Request[Any, Any, Any]) -> str:
    """ksqlDB's own media type, unless the client asks for plain JSON."""
    accept = request.headers.get("accept", "")
    return JSON if JSON in accept and KSQL_JSON not in accept else KSQL_JSON


def _failed(_: Request[Any, Any, Any], error: StatementFailedError) -> Response[bytes]:
    return answer(statement_error(error), status_of(error.code))
