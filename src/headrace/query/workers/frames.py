"""Frames between the desk and a worker: one byte for the kind, four for the length, then the payload.

To a worker: a question, the plan of its tables, and requests to interrupt it; these are pickled, since the
worker trusts its parent. From a worker: JSON, and the bytes of answers, since the parent trusts no worker
that a hostile question may have harmed. Invariant: a payload is at most `LONGEST` bytes.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from typing import Final

_HEAD: Final = struct.Struct(">BI")
LONGEST: Final = 64 * 1024 * 1024


class Kind(enum.IntEnum):
    """What a frame says. From READY on, workers say it."""

    QUESTION = 1
    PLAN = 2
    INTERRUPT = 3
    # Where the bytes are that READ asked for.
    BYTES = 4
    READY = 10
    TABLES = 11
    COLUMNS = 12
    DATA = 13
    END = 14
    ERROR = 15
    READ = 16


class FrameError(Exception):
    """The other side sent something that is no frame."""


def framed(kind: Kind, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


def send(connection: socket.socket, kind: Kind, payload: bytes | bytearray) -> None:
    """Blocks while the other side does not read."""
    connection.sendall(_HEAD.pack(kind, len(payload)))
    connection.sendall(payload)


def receive(connection: socket.socket) -> tuple[Kind, bytes] | None:
    """The next frame, or None at the end."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    kind, length = _HEAD.unpack(head)
    payload = _exactly(connection, length)
    return None if payload is None else (Kind(kind), payload)


async def read(reader: asyncio.StreamReader) -> tuple[Kind, bytes]:
    """The next frame. Raises IncompleteReadError at the end, and FrameError."""
    kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > LONGEST:
        raise FrameError(f"a frame of {length} bytes")
    try:
        known = Kind(kind)
    except ValueError as error:
        raise FrameError(f"a frame of kind {kind}") from error
    return known, await reader.readexactly(length)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(min(size - len(content), 1 << 20))
        if not part:
            return None
        content += part
    return bytes(content)
