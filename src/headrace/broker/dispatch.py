"""From the bytes of a request to the bytes of its reply: which API, which version, which handler.

Invariants: a version that is not served ends the connection, as with Kafka, except for ApiVersions, whose
refusal tells the client what to ask for instead (KIP-511). Never knows what an API does.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context, Pieces
from headrace.broker.broker import Broker
from headrace.broker.connection import CloseConnectionError, Connection, Reply
from headrace.wire.request_header import RequestHeader, body_of, read_request_header, reply_header

API_VERSIONS: Final = 18
# Named one by one: asking whether something can be awaited at all takes longer than answering most requests.
_LATER: Final = (asyncio.Future, types.CoroutineType)


class Dispatcher:
    """Answers frames with the APIs it is given."""

    def __init__(self, broker: Broker, apis: Mapping[int, Api]) -> None:
        self._broker = broker
        self._apis = apis
        # Versions that were asked for and are served, with whether they are flexible: looked up once each.
        self._served: dict[tuple[int, int], tuple[Api, bool]] = {}

    def __call__(self, frame: memoryview, connection: Connection) -> Reply:
        """Raises WireError or CloseConnectionError for what cannot be answered."""
        header = read_request_header(frame)
        served = self._served.get(header[:2])
        if served is None:
            api = self._apis.get(header.api_key)
            if api is None:
                raise CloseConnectionError(f"API key {header.api_key} is not served")
            if not api.serves(header.version):
                return self._refuse_version(api, header)
            served = self._served[header[:2]] = (api, api.is_flexible(header.version))
        api, flexible = served
        context = Context(api, header.version, header.client_id, connection)
        body = body_of(frame, header, flexible=flexible)
        if not api.raw:
            request = api.messages(header.version).read(body)
            result = api.handle(self._broker, request, context)
        else:
            result = api.handle(self._broker, body, context)
        # A reply to ApiVersions is read by clients that do not know yet which versions are flexible.
        flexible_header = flexible and api.key != API_VERSIONS
        if isinstance(result, _LATER):
            return asyncio.ensure_future(_finish(result, api, header, flexible_header=flexible_header))
        return _encode(result, api, header, flexible_header=flexible_header)

    def _refuse_version(self, api: Api, header: RequestHeader) -> Reply:
        if api.key != API_VERSIONS:
            raise CloseConnectionError(f"{api.name} version {header.version} is not served")
        context = Context(api, 0, header.client_id, _NOBODY)
        own = context.make(
            "ApiVersion", api_key=api.key, min_version=api.versions[0], max_version=api.versions[1]
        )
        refusal = context.reply(error_code=ErrorCode.unsupported_version, api_keys=(own,))
        lowest = header._replace(version=0)
        return _encode(refusal, api, lowest, flexible_header=False)


async def _finish(result: Any, api: Api, header: RequestHeader, *, flexible_header: bool) -> Pieces:
    return _encode(await result, api, header, flexible_header=flexible_header)


def _encode(reply: Any, api: Api, header: RequestHeader, *, flexible_header: bool) -> Pieces:
    if reply is None:
        return None
    if not api.raw:
        body = api.messages(header.version).write(reply)
        return [reply_header(header.correlation_id, len(body), flexible=flexible_header) + body]
    if isinstance(reply, bytes):
        return [reply_header(header.correlation_id, len(reply), flexible=flexible_header) + reply]
    size = sum(piece.size if hasattr(piece, "size") else len(piece) for piece in reply)
    return [reply_header(header.correlation_id, size, flexible=flexible_header), *reply]


class _Nobody:
    address = ""

    def hold_until(self, _future: asyncio.Future[Any], /) -> None:
        """Nobody has anything to hold back."""


_NOBODY: Final = _Nobody()
