"""A Kafka client without manners: it sends exactly the request that it is told to.

Owns: framing, request headers, and making kio's values from plain fields, as in
`ask(3, 12, topics=[{"name": "a"}])`, so that a test reads like the protocol's own tables. Fields that a
version does not have are left out, so that one request serves all versions. Never retries, never looks at
what it sends.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
import struct
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64Timedelta

from tests.conformance.kio_corrections import READ_AS

CLIENT_ID = "conformance"
TIMEOUT = 120.0


class ConnectionClosedError(Exception):
    """The broker has closed the connection instead of an answer."""


def make(entity: type[Any], fields: Mapping[str, Any]) -> Any:
    """The kio value of the type with these fields; those that the type does not know are left out."""
    hints = _hints(entity)
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in fields:
            values[field.name] = _value(hints[field.name], fields[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[field.name] = _zero(hints[field.name])
    return entity(**values)


@cache
def _hints(entity: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(entity)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if typing.get_origin(hint) is types.UnionType:
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, each) for each in value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(value, Mapping)
        return make(typing.cast("type[Any]", hint), value)
    if hint in {i32Timedelta, i64Timedelta} and not isinstance(value, datetime.timedelta):
        return hint.parse(datetime.timedelta(milliseconds=value))
    return value


def _zero(hint: Any) -> Any:
    """What a field without a default of its own is when a test does not name it."""
    if typing.get_origin(hint) is types.UnionType:
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return make(typing.cast("type[Any]", hint), {})
    for kind, zero in ((bool, False), (int, 0), (str, ""), (bytes, b""), (datetime.timedelta, 0)):
        if issubclass(hint, kind):
            return _value(hint, zero)
    raise TypeError(f"no zero for {hint}")


def request_bytes(api_key: int, version: int, fields: Mapping[str, Any], correlation_id: int = 1) -> bytes:
    """A request as it goes over the wire, without the four bytes of its length."""
    schema = load_request_schema(api_key, version)
    header_schema = schema.__header_schema__
    buffer = io.BytesIO()
    header = header_schema(
        request_api_key=i16(api_key),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    entity_writer(header_schema)(buffer, header)
    entity_writer(schema)(buffer, make(schema, fields))
    return buffer.getvalue()


def reply_of(api_key: int, version: int, payload: bytes) -> Any:
    """The kio value of a reply; bytes left over are an error."""
    schema = READ_AS.get((api_key, version)) or load_response_schema(api_key, version)
    # The reply to ApiVersions always has the old header (KIP-511).
    flexible_header = schema.__header_schema__.__version__ > 0
    offset = 4
    if flexible_header:
        assert payload[4] == 0, "tagged fields in a reply's header"
        offset = 5
    reply, used = entity_reader(schema)(payload, offset)
    assert offset + used == len(payload), f"{len(payload) - offset - used} bytes after the reply"
    return reply


class RawClient:
    """One connection."""

    def __init__(self, address: tuple[str, int], timeout: float = TIMEOUT) -> None:
        self._socket = socket.create_connection(address, timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send and wait for the reply."""
        self.send(api_key, version, **fields)
        return self.receive(api_key, version)

    def send(self, api_key: int, version: int, **fields: Any) -> None:
        self._correlation_id += 1
        self.send_frame(request_bytes(api_key, version, fields, self._correlation_id))

    def receive(self, api_key: int, version: int) -> Any:
        return reply_of(api_key, version, self.receive_frame())

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosedError from error

    def end_of_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(length)

    def is_closed_by_broker(self) -> bool:
        """Wait for the connection's end; False if the broker sends something instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive_exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            try:
                part = self._socket.recv(min(count, 1 << 20))
            except ConnectionResetError as error:
                raise ConnectionClosedError from error
            if not part:
                raise ConnectionClosedError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def plain(value: Any) -> Any:
    """A kio value as dictionaries, lists and numbers; error codes by name, times in milliseconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, int) and hasattr(value, "name"):
        return value.name
    return value
