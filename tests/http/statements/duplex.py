"""An HTTP/2 request whose body and answer go on at once: no client that we have does that."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events

SECONDS = 120.0


class Duplex:
    def __init__(self, address: str, path: str) -> None:
        place = urlsplit(address)
        self._socket = socket.create_connection((place.hostname, place.port), SECONDS)
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._connection.initiate_connection()
        self._stream = self._connection.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", place.netloc),
            (":path", path),
        ]
        self._connection.send_headers(self._stream, headers)
        self._received = b""
        self._flush()

    def send(self, line: str) -> None:
        self._connection.send_data(self._stream, line.encode() + b"\n")
        self._flush()

    def end(self) -> None:
        self._connection.end_stream(self._stream)
        self._flush()

    def line(self) -> str:
        """The next line of the answer."""
        while b"\n" not in self._received:
            data = self._socket.recv(65536)
            assert data, "the server hung up"
            for event in self._connection.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self._received += event.data or b""
                    self._connection.acknowledge_received_data(event.flow_controlled_length, self._stream)
            self._flush()
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def _flush(self) -> None:
        self._socket.sendall(self._connection.data_to_send())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
