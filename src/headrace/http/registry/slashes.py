"""Slashes in the names of subjects, which clients send as `%2F`: Protobuf files are often named so.

Servers decode a path before it is routed, after which nobody can tell these slashes from those between the
parts. So they are kept apart until the path is taken to pieces.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

from litestar import Litestar
from litestar.types import ASGIApp, Receive, Scope, Send

# A control character: no subject has one (`headrace.registry.subjects`).
_STAND_IN: Final = "\x1f"
_SLASH: Final = re.compile(rb"%2f", re.IGNORECASE)


class SlashKeeping(Litestar):
    """Routes a path as if its encoded slashes were other characters."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raw = scope.get("raw_path") or b""
        if _SLASH.search(raw):
            path = unquote(_SLASH.sub(_STAND_IN.encode("ascii"), raw.partition(b"?")[0]).decode("latin-1"))
            scope = {**scope, "path": path}
        await super().__call__(scope, receive, send)


class SlashRestoring:
    """Around the routes: parameters from the path get their slashes back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parameters: dict[str, Any] = scope.get("path_params") or {}
        for name, value in parameters.items():
            if isinstance(value, str):
                parameters[name] = value.replace(_STAND_IN, "/")
        await self._app(scope, receive, send)
