"""Two applications on one port, told apart by the path. Never looks at anything else of a request."""

from __future__ import annotations

from collections.abc import Collection

from litestar.types import ASGIApp, Receive, Scope, Send


class ByPath:
    """Requests for a path in `paths`, or below one, go to `chosen`, everything else to `others`."""

    def __init__(self, others: ASGIApp, *, paths: Collection[str], chosen: ASGIApp) -> None:
        self._others = others
        self._paths = tuple(paths)
        self._chosen = chosen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The messages about the start and the end of the server have no path.
        path = str(scope.get("path", ""))
        is_chosen = any(path == each or path.startswith(f"{each}/") for each in self._paths)
        await (self._chosen if is_chosen else self._others)(scope, receive, send)
