"""The headers of requests and replies.

Byte format: api key i16, version i16, correlation id i32, client id (i16 length, -1 for none, then UTF-8),
and in flexible versions tagged fields (KIP-482). The client id has no compact form even there. A reply
begins with the correlation id, and in flexible versions with tagged fields; the reply to ApiVersions never
has any, because a client sends that request before it knows the versions of the broker (KIP-511).

Never reads more than the header. The caller knows which versions are flexible.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headrace.wire.errors import MalformedRequestError
from headrace.wire.varints import skip_tagged_fields

_FIXED: Final = struct.Struct(">hhih")
_REPLY: Final = struct.Struct(">ii")
_FLEXIBLE_REPLY: Final = struct.Struct(">iib")
CORRELATION_SIZE: Final = 4


class RequestHeader(NamedTuple):
    """`end` is where the header without its tagged fields ends."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Raises MalformedRequestError."""
    try:
        api_key, version, correlation_id, length = _FIXED.unpack_from(frame)
    except struct.error as error:
        raise MalformedRequestError(f"a request of {len(frame)} bytes has no whole header") from error
    end = _FIXED.size
    if length < 0:
        return RequestHeader(api_key, version, correlation_id, None, end)
    if end + length > len(frame):
        raise MalformedRequestError("the client id is longer than the request")
    # Replaces invalid UTF-8, as Java does; the id is only displayed.
    client_id = str(frame[end : end + length], "utf-8", "replace")
    return RequestHeader(api_key, version, correlation_id, client_id, end + length)


def body_of(frame: memoryview, header: RequestHeader, *, flexible: bool) -> memoryview:
    """The bytes after the header. Raises MalformedRequestError."""
    return frame[skip_tagged_fields(frame, header.end) if flexible else header.end :]


def reply_header(correlation_id: int, body_size: int, *, flexible: bool) -> bytes:
    """The size of the frame and the header of a reply."""
    if flexible:
        return _FLEXIBLE_REPLY.pack(body_size + CORRELATION_SIZE + 1, correlation_id, 0)
    return _REPLY.pack(body_size + CORRELATION_SIZE, correlation_id)
