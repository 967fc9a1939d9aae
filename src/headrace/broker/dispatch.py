"""Finds the API, version and handler for a request, and puts the header in front of the reply.

Invariants: a request in an unsupported version ends the connection, as in Kafka. Only ApiVersions answers
with a refusal, which tells the client the versions to use (KIP-511). Never knows what an API does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Body, Context, Served
from headrace.broker.broker import Broker
from headrace.broker.connection import Connection, Reply
from headrace.broker.errors import CloseConnectionError
from headrace.wire.messages import written
from headrace.wire.pieces import Pieces
from headrace.wire.request_header import RequestHeader, body_of, read_request_header, reply_header

API_VERSIONS: Final = 18
_READY: Final = (bytes, list, type(None))
_BUFFERS: Final = (bytes, bytearray, memoryview)


class Dispatcher:
    """Answers frames with the APIs it is given."""

    def __init__(self, broker: Broker, apis: Mapping[int, Api]) -> None:
        self._broker = broker
        self._apis = apis
        # Supported versions that were requested: each is looked up once.
        self._served: dict[tuple[int, int], Served] = {}

    def __call__(self, frame: memoryview, connection: Connection) -> Reply:
        """Raises WireError or CloseConnectionError if the request cannot be answered."""
        header = read_request_header(frame)
        served = self._served.get(header[:2])
        if served is None:
            api = self._apis.get(header.api_key)
            if api is None:
                raise CloseConnectionError(f"API key {header.api_key} is not served")
            if not api.serves(header.version):
                return _refuse_version(api, header)
            served = self._served[header[:2]] = api.handler().at(header.version)
        flexible, answer = served
        context = Context(header.version, header.client_id, connection)
        body = answer(self._broker, body_of(frame, header, flexible=flexible), context)
        # Clients read the reply to ApiVersions before they know which versions are flexible.
        flexible = flexible and header.api_key != API_VERSIONS
        if isinstance(body, _READY):
            return _with_header(body, header, flexible=flexible)
        return asyncio.ensure_future(_finish(body, header, flexible=flexible))


def _refuse_version(api: Api, header: RequestHeader) -> Reply:
    if api.key != API_VERSIONS:
        raise CloseConnectionError(f"{api.name} version {header.version} is not served")
    from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse  # noqa: PLC0415 - rarely used

    lowest, highest = api.versions
    own = ApiVersion(api_key=api.key, min_version=lowest, max_version=highest)
    refusal = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=(own,))
    return _with_header(written(refusal), header, flexible=False)


async def _finish(body: Awaitable[Body], header: RequestHeader, *, flexible: bool) -> Pieces:
    return _with_header(await body, header, flexible=flexible)


def _with_header(body: Body, header: RequestHeader, *, flexible: bool) -> Pieces:
    if body is None:
        return None
    if isinstance(body, bytes):
        return [reply_header(header.correlation_id, len(body), flexible=flexible) + body]
    size = sum(len(piece) if isinstance(piece, _BUFFERS) else piece.size for piece in body)
    return [reply_header(header.correlation_id, size, flexible=flexible), *body]
