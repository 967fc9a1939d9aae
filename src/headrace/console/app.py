"""The console's application: pages, their live streams, static files, and the JSON API of `http/query`.

| path | what |
|---|---|
| `/` | overview: the flow, its counts, latencies and queries |
| `/console/topics`, `/console/topics/{name}` | topics; one topic with its newest messages |
| `/console/sql` | a page that runs SQL through `POST /sql` |
| `/console/live/…` | the server-sent events of each page |
| `/console/static/…` | style sheet, scripts, and the vendor files built from npm |

Invariants: no page path collides with a JSON path; every response has the headers in `SECURITY_HEADERS`;
nothing on a page comes from another host. Never reads the log or the lake except through the services it is
given.
"""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from litestar import Litestar, MediaType, Request, Response, Router, get
from litestar.datastructures import CacheControlHeader, MutableScopeHeaders
from litestar.exceptions import HTTPException
from litestar.params import FromPath
from litestar.response import ServerSentEvent
from litestar.static_files import create_static_files_router
from litestar.types import HTTPScope, Message, Scope

from headrace.console.assets import STATIC_DIR, STATIC_PATH
from headrace.console.live import LiveFlow
from headrace.console.rendering import Renderer
from headrace.console.streams import part_stream
from headrace.console.views import OverviewView, TopicsView, TopicView
from headrace.core.errors import HeadraceError
from headrace.http.query.app import QueryServices, query_handlers

SECURITY_HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_log = logging.getLogger(__name__)


def create_console_app(services: QueryServices, *, live: LiveFlow | None = None) -> Litestar:
    """The pages and the JSON API as one application.

    Call `live.close` before stopping the server: it ends the streams of open pages.
    """
    flow = live or LiveFlow(services.flow.snapshot)
    renderer = Renderer()

    def running(_: Litestar) -> AbstractAsyncContextManager[None]:
        return flow.running()

    return Litestar(
        route_handlers=[
            _pages(services, flow, renderer),
            _streams(services, flow, renderer),
            create_static_files_router(
                path=STATIC_PATH,
                directories=[STATIC_DIR],
                # The URL of a file contains part of its hash: new content has a new URL.
                cache_control=CacheControlHeader(public=True, max_age=31_536_000, immutable=True),
            ),
            *query_handlers(services),
        ],
        lifespan=[running],
        before_send=[_add_security_headers],
        exception_handlers={404: _not_found(renderer)},
        # Logging is up to the process; Litestar's configuration would replace the root's handlers.
        logging_config=None,
        # The pages of OpenAPI load scripts from other hosts.
        openapi_config=None,
    )


def _pages(services: QueryServices, live: LiveFlow, renderer: Renderer) -> Router:
    @get("/", media_type=MediaType.HTML, sync_to_thread=True)
    def overview() -> str:
        return OverviewView(renderer, services, live).open()

    @get("/console/topics", media_type=MediaType.HTML, sync_to_thread=True)
    def topics() -> str:
        return TopicsView(renderer, services).open()

    @get("/console/topics/{name:str}", media_type=MediaType.HTML, sync_to_thread=True)
    def topic(name: FromPath[str]) -> str:
        return TopicView(renderer, services, name).open()

    @get("/console/sql", media_type=MediaType.HTML, sync_to_thread=False)
    def sql() -> str:
        return renderer.render("sql.html", section="sql", notice=None, table=services.flow.names.events)

    def failed(_: Request[Any, Any, Any], error: Exception) -> Response[str]:
        return _error_page(renderer, error)

    return Router(
        path="/", route_handlers=[overview, topics, topic, sql], exception_handlers={Exception: failed}
    )


def _streams(services: QueryServices, live: LiveFlow, renderer: Renderer) -> Router:
    @get("/overview")
    async def overview() -> ServerSentEvent:
        return part_stream(live, OverviewView(renderer, services, live).parts_or_notice)

    @get("/topics")
    async def topics() -> ServerSentEvent:
        return part_stream(live, TopicsView(renderer, services).parts_or_notice)

    @get("/topics/{name:str}")
    async def topic(name: FromPath[str]) -> ServerSentEvent:
        return part_stream(live, TopicView(renderer, services, name).parts_or_notice)

    return Router(path="/console/live", route_handlers=[overview, topics, topic])


def _error_page(renderer: Renderer, error: Exception) -> Response[str]:
    if isinstance(error, HeadraceError):
        notice, status = error, error.http_status
    elif isinstance(error, HTTPException):
        notice = HeadraceError("bad_request", error.detail)
        status = error.status_code
    else:
        _log.error("A console page failed.", exc_info=error)
        notice = HeadraceError(
            "process_failed",
            "This page could not be rendered.",
            remedy="See the gateway's log file for the reason.",
        )
        status = notice.http_status
    content = renderer.render("error.html", section="", notice=notice, status=status)
    return Response(content, media_type=MediaType.HTML, status_code=status)


def _not_found(renderer: Renderer) -> Any:
    def not_found(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
        notice = HeadraceError(
            "no_such_page",
            f"There is nothing at {request.url.path}.",
            remedy="The overview at / links to all pages.",
        )
        if "text/html" in request.headers.get("accept", ""):
            return _error_page(renderer, notice)
        return Response(notice.as_json(), media_type=MediaType.JSON, status_code=error.status_code)

    return not_found


async def _add_security_headers(message: Message, _: Scope | HTTPScope) -> None:
    if message["type"] == "http.response.start":
        headers = MutableScopeHeaders(message)
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
