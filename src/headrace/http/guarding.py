"""Puts the checks of `admission.py` in front of an ASGI application.

Invariants: nothing of a refused request reaches the application, whatever its path or method; refusals have
the format of the door's API. A page of an origin that the operator has listed gets the answers that browsers
need to let it call us (CORS); all others get none. Never reads a body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.http.admission import Admission, DoorRules, Headers, Refusal, check_media_type

# Servers and frameworks each have types of their own for ASGI's dictionaries.
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

_POLICY_VIOLATION: Final = 1008
_PREFLIGHT_SECONDS: Final = b"600"


class Guarded:
    """The application behind the checks."""

    def __init__(self, application: Application, *, admission: Admission, rules: DoorRules) -> None:
        self._application = application
        self._admission = admission
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._application(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        method = scope.get("method", "GET")
        try:
            self._admission.check_caller(method, headers)
            if kind == "http":
                check_media_type(method, scope["path"], headers, self._rules)
        except HeadraceError as error:
            if kind == "http":
                await _send_refusal(self._rules.refusal(error), send)
            else:
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        origin = headers.get(b"origin")
        if origin is not None and self._admission.lists(origin):
            if method == "OPTIONS" and b"access-control-request-method" in headers:
                await _send_permission(origin, headers, send)
                return
            send = _readable_by(origin, send)
        await self._application(scope, receive, send)


async def _send_refusal(refusal: Refusal, send: Send) -> None:
    headers = [
        (b"content-type", refusal.media_type.encode()),
        (b"content-length", b"%d" % len(refusal.body)),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})


async def _send_permission(origin: bytes, headers: Headers, send: Send) -> None:
    """The answer to a browser that asks whether a page of a listed origin may send its request."""
    allowed = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", headers[b"access-control-request-method"]),
        (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"")),
        (b"access-control-max-age", _PREFLIGHT_SECONDS),
        (b"vary", b"origin"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})


def _readable_by(origin: bytes, send: Send) -> Send:
    async def marked(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [
                *message.get("headers", ()),
                (b"access-control-allow-origin", origin),
                (b"vary", b"origin"),
            ]
            message = {**message, "headers": headers}
        await send(message)

    return marked
