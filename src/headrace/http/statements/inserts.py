"""`POST /inserts-stream`: rows in, acknowledgements out, both at once.

The first line names the target, each further line is a row. A row is acknowledged once the log has it; the
first one that fails is reported and ends the answer. Bare ASGI: the answer starts while the request is still
arriving, which the framework's streams do not support.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Final

from litestar.types import Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.http.foreign_api import RefusedError
from headrace.http.statements.answers import (
    DELIMITED,
    JSON,
    KSQL_JSON,
    encoded,
    generic_error,
    posted,
    status_of,
    text_field,
)
from headrace.pipeline.serving.errors import BAD_REQUEST, code_of
from headrace.pipeline.serving.inserting import Inserter, target_of
from headrace.pipeline.serving.service import StatementService

_LONGEST_LINE: Final = 8 * 1024 * 1024


class _Answer:
    """The response: acknowledgements as lines, or as one array."""

    def __init__(self, send: Send, *, delimited: bool) -> None:
        self._send = send
        self._delimited = delimited
        self._count = 0

    async def begin(self) -> None:
        media_type = DELIMITED if self._delimited else JSON
        await self._start(200, media_type)
        await self._body(b"" if self._delimited else b"[")

    async def refuse(self, code: int, message: str) -> None:
        await self._start(status_of(code), KSQL_JSON)
        await self._body(encoded(generic_error(code, message)), more=False)

    async def write(self, content: dict[str, Any]) -> None:
        between = b"," if self._count and not self._delimited else b""
        self._count += 1
        await self._body(between + encoded(content) + (b"\n" if self._delimited else b""))

    async def end(self) -> None:
        await self._body(b"" if self._delimited else b"]", more=False)

    async def _start(self, status: int, media_type: str) -> None:
        headers = [(b"content-type", media_type.encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, content: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": content, "more_body": more})


async def serve_inserts(service: StatementService, scope: Scope, receive: Receive, send: Send) -> None:
    accept = next((value for name, value in scope["headers"] if name == b"accept"), b"").decode("latin-1")
    out = _Answer(send, delimited=JSON not in accept or DELIMITED in accept)
    if scope.get("method") != "POST":
        await out.refuse(40500, "HTTP 405 Method Not Allowed")
        return
    lines = _lines(receive)
    try:
        inserter = await _opened(service, await anext(lines, b""))
    except RefusedError as error:
        await out.refuse(error.code, str(error))
        return
    await out.begin()
    sequence = 0
    async for line in lines:
        failure = await _inserted(inserter, line)
        if failure is not None:
            await out.write({"status": "error", "seq": sequence, **failure})
            break
        await out.write({"status": "ok", "seq": sequence})
        sequence += 1
    await out.end()


async def _opened(service: StatementService, line: bytes) -> Inserter:
    target = text_field(posted(line), "target")
    name = target.strip("`") if target.startswith("`") else target.upper()
    try:
        catalogue = await asyncio.to_thread(service.log.read_to_end)
        return service.inserter(target_of(name, catalogue))
    except HeadraceError as error:
        raise RefusedError(code_of(error), error.message) from error


async def _inserted(inserter: Inserter, line: bytes) -> dict[str, Any] | None:
    """Insert a row. Returns the error, or None."""
    try:
        row = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        return {"error_code": BAD_REQUEST, "message": "Invalid JSON in inserts stream"}
    if not isinstance(row, dict):
        return {"error_code": BAD_REQUEST, "message": "Invalid JSON in inserts stream"}
    named = {
        (name.strip("`") if name.startswith("`") else name.upper()): value for name, value in row.items()
    }
    try:
        await asyncio.to_thread(inserter.insert, named)
    except HeadraceError as error:
        return {"error_code": code_of(error), "message": error.message}
    return None


async def _lines(receive: Receive) -> AsyncIterator[bytes]:
    """The lines of the request's body as they arrive, without empty ones."""
    rest = b""
    more = True
    while more:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return
        rest += message.get("body", b"")
        more = message.get("more_body", False)
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LONGEST_LINE:
            return
    if rest.strip():
        yield rest
