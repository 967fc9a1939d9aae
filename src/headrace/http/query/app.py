"""The query routes: they read the request, call `query/` in a thread, and write the answer.

| route | answer |
|---|---|
| `POST /sql`, `GET` and `DELETE /sql/{id}` | see `sql.py`; in the gateway, `forwarding.py` passes them on |
| `GET /receipts/{topic}/{partition}/{offset}` | see `receipts.py`; passed on like `/sql` |
| `GET /flow` | counts, latencies and the state of the queries |
| `GET /flow/stream` | the same as server-sent events, whenever it changes |
| `GET /latency` | only the latencies |
| `GET /topics` | topics with ids, partitions, offsets and bytes |
| `GET /topics/{name}/messages?limit=` | newest messages, decoded |
| `GET /health` | 200 if all is well, 503 with the problems if not; processes and queries |
| `GET /health/live` | 200 as long as the gateway itself works |

Invariants: every failure has the common JSON error format and the status from the table in `core/errors.py`;
nothing that waits for the log runs on the event loop. Never runs SQL: the query process does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from litestar import Litestar, Request, Response, Router, get
from litestar.exceptions import HTTPException
from litestar.params import FromPath, FromQuery
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.types import ControllerRouterHandler

from headrace.core.errors import HeadraceError
from headrace.http.admission import DoorRules, Refusal
from headrace.http.query.answers import (
    flow_content,
    latency_content,
    messages_content,
    topics_content,
)
from headrace.http.query.forwarding import QueryProcess, forwarding_handlers
from headrace.http.query.health import PlatformReport, health_content, judged
from headrace.http.query.receipts import receipt_handlers
from headrace.http.query.sql import sql_handlers
from headrace.query.flow import FlowWatcher
from headrace.query.result_formats import JSON
from headrace.query.result_values import encoded
from headrace.query.topics import TopicBrowser

if TYPE_CHECKING:
    # What answers questions comes with Arrow and numpy, which the gateway does without.
    from headrace.query.desk import Desk
    from headrace.query.receipts.watching import Receipts
    from headrace.query.spark.desk import SparkDesk

NEWEST_MESSAGES: Final = 50
STREAM_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 10.0

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

    sql: QueryProcess
    topics: TopicBrowser
    flow: FlowWatcher
    # None if this process runs without a supervisor.
    platform: Callable[[], PlatformReport | None] = lambda: None


def _refusal(error: HeadraceError) -> Refusal:
    return Refusal(status=error.http_status, media_type=JSON, body=encoded(error.as_json()))


# SQL changes nothing, so it may also come as text.
QUERY_RULES: Final = DoorRules(refusal=_refusal, checked_by_route=frozenset({"/sql"}))


def query_handlers(services: QueryServices) -> list[ControllerRouterHandler]:
    """The routes, for an application that also has others."""
    return [_router([*forwarding_handlers(services.sql), *_flow_routes(services), *_topic_routes(services)])]


def create_query_app(
    desk: Desk,
    spark: SparkDesk | None = None,
    *,
    receipts: Receipts | None = None,
    more_handlers: Sequence[ControllerRouterHandler] = (),
) -> Litestar:
    """The application of the query process. `receipts` is None where there is no log."""
    return Litestar(
        route_handlers=[
            _router([*sql_handlers(desk, spark), *receipt_handlers(receipts), _live()]),
            *more_handlers,
        ],
        openapi_config=None,
        # Logging is up to the process that serves this.
        logging_config=None,
    )


def _router(handlers: Sequence[ControllerRouterHandler]) -> Router:
    return Router(
        path="/",
        route_handlers=handlers,
        exception_handlers={
            HeadraceError: _failed,
            HTTPException: _failed_http,
            Exception: _failed_unexpectedly,
        },
    )


def _live() -> Any:
    # On the event loop and of nothing else: whether this process works at all.
    @get("/health/live", sync_to_thread=False)
    def live() -> Response[bytes]:
        return _json({"status": "ok"})

    return live


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

    return [flow, flow_stream, latency, health, _live()]


def _topic_routes(services: QueryServices) -> list[Any]:
    @get("/topics", sync_to_thread=True)
    def topics() -> Response[bytes]:
        return _json(topics_content(services.topics.topics()))

    @get("/topics/{name:str}/messages", sync_to_thread=True)
    def messages(name: FromPath[str], limit: FromQuery[int] = NEWEST_MESSAGES) -> Response[bytes]:
        return _json(messages_content(services.topics.newest(name, limit)))

    return [topics, messages]


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
            "process_failed", "Answering the request failed.", remedy="See the process's log file."
        ),
    )
