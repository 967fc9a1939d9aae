"""The query routes: they read the request, call `query/` in a thread, and write the answer.

| route | answer |
|---|---|
| `POST /sql` | columns, types and rows; CSV or NDJSON if `Accept` asks for it |
| `GET /flow` | counts, latencies and the state of the queries |
| `GET /flow/stream` | the same as server-sent events, whenever it changes |
| `GET /latency` | only the latencies |
| `GET /topics` | topics with ids, partitions, offsets and bytes |
| `GET /topics/{name}/messages?limit=` | newest messages, decoded |
| `GET /health` | 200 if all is well, 503 with the problems if not; processes and queries |
| `GET /health/live` | 200 as long as the gateway itself works |

The body of `POST /sql` is `{"query": "SELECT …"}` as JSON, or the SQL itself as text.

Invariants: every failure has the common JSON error format and the status from the table in `core/errors.py`;
nothing that waits for DuckDB, Delta or the log runs on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.exceptions import HTTPException
from litestar.params import FromPath, FromQuery, RawBody
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.types import ControllerRouterHandler

from headrace.core.errors import HeadraceError
from headrace.http.admission import DoorRules, Refusal
from headrace.http.query.answers import (
    JSON,
    RESULT_FORMATS,
    encoded,
    flow_content,
    latency_content,
    messages_content,
    topics_content,
)
from headrace.http.query.health import PlatformReport, health_content, judged
from headrace.query.flow import FlowWatcher
from headrace.query.sql import LakeQuery
from headrace.query.topics import TopicBrowser

MOST_BODY_BYTES: Final = 2 * 1024 * 1024
NEWEST_MESSAGES: Final = 50
STREAM_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 10.0

# The content type that curl sends by default with --data is read as plain SQL.
_TEXT_TYPES: Final = frozenset({"", "application/sql", "application/x-www-form-urlencoded", "text/plain"})
_CODES: Final = {
    404: "no_such_page",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
}

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryServices:
    """What the routes use. Whoever created these closes them."""

    sql: LakeQuery
    topics: TopicBrowser
    flow: FlowWatcher
    # None if this process runs without a supervisor.
    platform: Callable[[], PlatformReport | None] = lambda: None


def _refusal(error: HeadraceError) -> Refusal:
    return Refusal(status=error.http_status, media_type=JSON, body=encoded(error.as_json()))


# SQL changes nothing, so it may also come as text.
QUERY_RULES: Final = DoorRules(refusal=_refusal, checked_by_route=frozenset({"/sql"}))


class _SqlRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of `POST /sql`."""

    query: str


def query_handlers(services: QueryServices) -> list[ControllerRouterHandler]:
    """The routes, for an application that also has others."""
    return [
        Router(
            path="/",
            route_handlers=[_sql_route(services), *_flow_routes(services), *_topic_routes(services)],
            exception_handlers={
                HeadraceError: _failed,
                HTTPException: _failed_http,
                Exception: _failed_unexpectedly,
            },
        )
    ]


def _sql_route(services: QueryServices) -> Any:
    @post("/sql", status_code=200, sync_to_thread=True, request_max_body_size=MOST_BODY_BYTES)
    def sql(request: Request[Any, Any, Any], body: RawBody) -> Response[bytes]:
        result = services.sql.run(_statement(request, body))
        media_type = request.accept.best_match(list(RESULT_FORMATS), default=JSON) or JSON
        return Response(RESULT_FORMATS[media_type](result), media_type=media_type)

    return sql


def _flow_routes(services: QueryServices) -> list[Any]:
    @get("/flow", sync_to_thread=True)
    def flow() -> Response[bytes]:
        return _json(flow_content(services.flow.snapshot()))

    @get("/flow/stream")
    async def flow_stream() -> ServerSentEvent:
        return ServerSentEvent(_flow_events(services.flow))

    @get("/latency", sync_to_thread=True)
    def latency() -> Response[bytes]:
        return _json(latency_content(services.flow.snapshot()))

    @get("/health", sync_to_thread=True)
    def health() -> Response[bytes]:
        found = judged(services.flow.snapshot(), services.platform(), now=time.time())
        return _json(health_content(found), status_code=503 if found.problems else 200)

    # On the event loop and of nothing else: whether this process works at all.
    @get("/health/live", sync_to_thread=False)
    def live() -> Response[bytes]:
        return _json({"status": "ok"})

    return [flow, flow_stream, latency, health, live]


def _topic_routes(services: QueryServices) -> list[Any]:
    @get("/topics", sync_to_thread=True)
    def topics() -> Response[bytes]:
        return _json(topics_content(services.topics.topics()))

    @get("/topics/{name:str}/messages", sync_to_thread=True)
    def messages(name: FromPath[str], limit: FromQuery[int] = NEWEST_MESSAGES) -> Response[bytes]:
        return _json(messages_content(services.topics.newest(name, limit)))

    return [topics, messages]


def _statement(request: Request[Any, Any, Any], body: bytes) -> str:
    content_type = request.content_type[0].lower()
    try:
        if content_type == JSON:
            return msgspec.json.decode(body, type=_SqlRequest).query
        if content_type in _TEXT_TYPES:
            return body.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HeadraceError(
            "bad_request",
            f"Cannot read the request body: {error}.",
            remedy='Send {"query": "SELECT …"} as application/json, or the SQL as text/plain.',
        ) from error
    raise HeadraceError(
        "unsupported_media_type",
        f"Content type {content_type} is not supported here.",
        remedy='Send {"query": "SELECT …"} as application/json, or the SQL as text/plain.',
    )


async def _flow_events(flow: FlowWatcher) -> AsyncIterator[ServerSentEventMessage]:
    """The current flow, then every change, checked once a second, until the watcher stops."""
    sent = b""
    quiet = 0.0
    while not flow.stopped:
        content = encoded(flow_content(await asyncio.to_thread(flow.snapshot)))
        quiet = 0.0 if content != sent else quiet + STREAM_SECONDS
        if content != sent:
            sent = content
            yield ServerSentEventMessage(event="flow", data=content.decode())
        elif quiet >= QUIET_SECONDS:
            # Without an occasional message neither side would notice that the other is gone.
            quiet = 0.0
            yield ServerSentEventMessage(comment="still here", data=None)
        await asyncio.sleep(STREAM_SECONDS)


def _json(content: object, *, status_code: int = 200) -> Response[bytes]:
    return Response(encoded(content), media_type=JSON, status_code=status_code)


def _failed(_: Request[Any, Any, Any], error: HeadraceError) -> Response[bytes]:
    return _json(error.as_json(), status_code=error.http_status)


def _failed_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.status_code >= 500:
        return _failed_unexpectedly(request, error)
    reasons = error.extra if isinstance(error.extra, list) else []
    details = "; ".join(f"{reason.get('key')}: {reason.get('message')}" for reason in reasons)
    code = _CODES.get(error.status_code, "bad_request")
    return _failed(request, HeadraceError(code, details or error.detail))


def _failed_unexpectedly(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _logger.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return _failed(
        request,
        HeadraceError(
            "process_failed", "Answering the request failed.", remedy="See the gateway's log file."
        ),
    )
