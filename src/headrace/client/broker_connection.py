"""A plain connection to one broker, for the requests that librdkafka does not offer.

The caller says which API and version it wants, and writes and reads the messages. Invariants: a reply belongs
to the request sent before it; a broker that does not answer within the timeout is an `OSError`, and the
connection is not used again. Never retries. Belongs to one thread.
"""

from __future__ import annotations

import io
import socket
import struct
from typing import Any, Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

_CLIENT: Final = "headrace"
_LARGEST_REPLY: Final = 256 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_NO_TAGS: Final = b"\x00"

Reply = TypeVar("Reply", bound=Entity)


class BrokerConnection:
    """Connects at once. Raises OSError."""

    def __init__(self, host: str, port: int, *, timeout_seconds: float) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self._correlation = 0

    def send(self, request: Entity) -> None:
        """Send a message of `kio`. Raises OSError."""
        message: Any = request
        self._correlation += 1
        header = struct.pack(
            ">hhih", message.__api_key__, message.__version__, self._correlation, len(_CLIENT)
        ) + _CLIENT.encode("ascii")
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        content = header + (_NO_TAGS if message.__flexible__ else b"") + body.getvalue()
        self._socket.sendall(struct.pack(">i", len(content)) + content)

    def receive(self, reply: type[Reply]) -> Reply:
        """The reply to the request sent last. Raises OSError, kio's SerialError, ValueError."""
        kind: Any = reply
        (size,) = struct.unpack(">i", self._bytes(4))
        if not 4 <= size <= _LARGEST_REPLY:
            raise ValueError(f"a reply of {size} bytes")
        content = self._bytes(size)
        (correlation,) = struct.unpack_from(">i", content)
        if correlation != self._correlation:
            raise ValueError(f"a reply to request {correlation}, not {self._correlation}")
        read, _end = entity_reader(reply)(content, 5 if kind.__flexible__ else 4)
        return read

    def close(self) -> None:
        self._socket.close()

    def _bytes(self, size: int) -> bytes:
        received = bytearray(size)
        view = memoryview(received)
        done = 0
        while done < size:
            length = self._socket.recv_into(view[done : done + _PIECE])
            if not length:
                raise ConnectionError("the connection was closed")
            done += length
        return bytes(received)
