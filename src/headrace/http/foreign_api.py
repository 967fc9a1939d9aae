"""What the doors that implement another product's API share: rejected requests, and errors in its format.

Invariants: every failure is answered in the product's format; an unexpected one is logged as well. Never
chooses codes: the door passes `error`, which takes one of the product's codes or a plain HTTP status, and
`code_of`, which finds the code of a HeadraceError.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ControllerRouterHandler, ExceptionHandlersMap, Middleware

from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that the API rejects; `code` is one of the product's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def posted_object(body: bytes, bad_request: int = 400) -> dict[str, Any]:
    """The JSON object in a request. Raises RefusedError with the code `bad_request`."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(bad_request, f"The request is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise RefusedError(bad_request, "The request is not a JSON object.")
    return content


def create_application(
    route_handlers: Sequence[ControllerRouterHandler],
    *,
    error: Callable[[int, str], Response[bytes]],
    code_of: Callable[[HeadraceError], int],
    exception_handlers: ExceptionHandlersMap | None = None,
    middleware: Sequence[Middleware] = (),
    application_type: type[Litestar] = Litestar,
) -> Litestar:
    """An application with these routes; `exception_handlers` are for the door's own errors."""

    def refused(_: Request[Any, Any, Any], failure: RefusedError) -> Response[bytes]:
        return error(failure.code, str(failure))

    def failed(_: Request[Any, Any, Any], failure: HeadraceError) -> Response[bytes]:
        return error(code_of(failure), str(failure))

    def http_error(_: Request[Any, Any, Any], failure: HTTPException) -> Response[bytes]:
        response = error(failure.status_code, f"HTTP {failure.status_code} {failure.detail}")
        response.headers.update(failure.headers or {})
        return response

    def unexpected(request: Request[Any, Any, Any], failure: Exception) -> Response[bytes]:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=failure)
        return error(500, "Internal Server Error")

    return application_type(
        route_handlers=route_handlers,
        exception_handlers={
            RefusedError: refused,
            HeadraceError: failed,
            HTTPException: http_error,
            Exception: unexpected,
            **(exception_handlers or {}),
        },
        middleware=list(middleware),
        openapi_config=None,
        # Logging is up to the process that serves this.
        logging_config=None,
    )
