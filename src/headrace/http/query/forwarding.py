"""`/sql` and `/receipts` on the console's port: requests go on to the query process, and its answers come
back as they are.

Invariants: what the query process says is passed on part by part, as fast as the client takes it, and an
answer that breaks off there breaks off here; a client that goes away closes the connection to the query
process, which ends the question; while the query process does not answer, so does the error. Never reads SQL
or receipts.
"""

from __future__ import annotations

from typing import Any, Final

import httpx
from litestar import Request, delete, get, post
from litestar.params import FromPath, RawBody
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.http.disconnection import while_client_waits
from headrace.http.query.sql import MOST_BODY_BYTES, QUESTION_HEADER
from headrace.query.result_formats import JSON
from headrace.query.result_values import encoded

_PASSED_ON: Final = ("accept", "content-type", QUESTION_HEADER.lower())
_PASSED_BACK: Final = frozenset({"content-type", "content-length", "retry-after", QUESTION_HEADER.lower()})
_CONNECT_SECONDS: Final = 5.0


class QueryProcess:
    """The query process, as the gateway reaches it. Close it."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=url,
            # The query process limits how long a question takes.
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> httpx.Request:
        return self._client.build_request(method, path, headers=headers, content=body)

    async def send(self, request: httpx.Request) -> httpx.Response:
        """The beginning of the answer. Raises query_unavailable."""
        try:
            return await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise HeadraceError(
                "query_unavailable",
                f"The query process does not answer: {error or type(error).__name__}.",
                remedy="It restarts by itself: ask again in a moment. `headrace status` shows why it failed.",
            ) from error


def forwarding_handlers(process: QueryProcess) -> list[ControllerRouterHandler]:
    """The same routes as `sql_handlers` and `receipt_handlers`, answered by the query process."""

    @post("/sql", status_code=200, request_max_body_size=MOST_BODY_BYTES)
    async def sql(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
        return _Forwarded(process, _request(process, request, body))

    @delete("/sql/{question_id:str}", status_code=200)
    async def cancel(request: Request[Any, Any, Any], question_id: FromPath[str]) -> ASGIApp:  # noqa: ARG001
        return _Forwarded(process, _request(process, request, b""))

    @get("/sql/{question_id:str}")
    async def state(request: Request[Any, Any, Any], question_id: FromPath[str]) -> ASGIApp:  # noqa: ARG001
        return _Forwarded(process, _request(process, request, b""))

    @get("/receipts/{topic:str}/{partition:str}/{offset:str}")
    async def receipt(
        request: Request[Any, Any, Any],
        topic: FromPath[str],  # noqa: ARG001
        partition: FromPath[str],  # noqa: ARG001
        offset: FromPath[str],  # noqa: ARG001
    ) -> ASGIApp:
        return _Forwarded(process, _request(process, request, b""))

    return [sql, cancel, state, receipt]


def _request(process: QueryProcess, request: Request[Any, Any, Any], body: bytes) -> httpx.Request:
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    query = request.scope.get("query_string", b"")
    path = f"{request.url.path}?{query.decode('latin-1')}" if query else request.url.path
    return process.request(request.method, path, headers, body)


class _Forwarded:
    """One request to the query process, as an ASGI application."""

    def __init__(self, process: QueryProcess, request: httpx.Request) -> None:
        self._process = process
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await while_client_waits(self._pass_on(send), receive)

    async def _pass_on(self, send: Send) -> None:
        try:
            response = await self._process.send(self._request)
        except HeadraceError as error:
            body = encoded(error.as_json())
            await send(_start(error.http_status, {"content-type": JSON, "content-length": str(len(body))}))
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        try:
            headers = {name: value for name, value in response.headers.items() if name in _PASSED_BACK}
            await send(_start(response.status_code, headers))
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await response.aclose()


def _start(status: int, headers: dict[str, str]) -> Any:
    encoded_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": encoded_headers}
