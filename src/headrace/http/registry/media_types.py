"""Answers in the media type that a request accepts: one of Confluent's three, all of which are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from litestar.types import ASGIApp, Receive, Scope, Send

# The first that is accepted.
_OFFERED: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_ANY: Final = frozenset({"*/*", "application/*", ""})


class AcceptedMediaType:
    """Around one application. A request that accepts none of the types gets the first all the same."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = [value for name, value in scope.get("headers", ()) if name == b"accept"]
        media_type = chosen(b",".join(accepted).decode("latin-1")).encode("ascii")

        async def send_as_accepted(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [each for each in message["headers"] if each[0].lower() != b"content-type"]
                message = {**message, "headers": [*headers, (b"content-type", media_type)]}
            await send(message)  # type: ignore[arg-type]

        await self._app(scope, receive, send_as_accepted)


def chosen(accept: str) -> str:
    """The type for an `Accept` header: of those with the highest weight, the first that is offered."""
    weights: dict[str, float] = {}
    for part in accept.split(","):
        media_type, *parameters = (each.strip().lower() for each in part.split(";"))
        weights[media_type] = _weight(parameters)
    best, found = 0.0, _OFFERED[0]
    for offered in _OFFERED:
        weight = weights.get(offered, max((weights[each] for each in _ANY & weights.keys()), default=0.0))
        if weight > best:
            best, found = weight, offered
    return found


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
