"""A proxy in front of an S3 server that, on command, fails as networks and servers do.

Each request has a connection of its own to the server, so that requests can fail one by one. Signatures stay
valid: the server sees the name that the client has asked.
"""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import unquote, urlsplit

_UNAVAILABLE: Final = b"<Error><Code>ServiceUnavailable</Code><Message>Not now.</Message></Error>"


class Failure(Enum):
    """What becomes of a request. HANG: no answer, however long the client waits."""

    UNAVAILABLE = "answer 503 and do nothing"
    UNAVAILABLE_AFTER = "do it and answer 503"
    DROP = "close the connection and do nothing"
    DROP_AFTER = "do it and close the connection"
    HANG = "do nothing and do not answer"
    HANG_AFTER = "do it and do not answer"
    CUT = "do it and close the connection in the middle of the answer's body, or before it if it has none"


_IS_DONE: Final = frozenset({Failure.UNAVAILABLE_AFTER, Failure.DROP_AFTER, Failure.HANG_AFTER, Failure.CUT})
_HANGS: Final = frozenset({Failure.HANG, Failure.HANG_AFTER})
_UNAVAILABLES: Final = frozenset({Failure.UNAVAILABLE, Failure.UNAVAILABLE_AFTER})


@dataclass
class _Rule:
    failure: Failure
    method: str
    path: re.Pattern[str]
    times: int


@dataclass
class FaultyS3:
    """`seen` has the method and path of each request, in order."""

    endpoint: str
    seen: list[tuple[str, str]] = field(default_factory=list)
    failed: int = 0
    _rules: list[_Rule] = field(default_factory=list)
    _overtaking: list[tuple[re.Pattern[str], Callable[[], None]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _healed: threading.Event = field(default_factory=threading.Event)

    def fail(self, failure: Failure, *, method: str = ".*", path: str = "", times: int = 1) -> None:
        """Let the next requests fail whose method and path match these expressions; -1: all of them."""
        with self._lock:
            self._healed = threading.Event()
            self._rules.append(_Rule(failure, method, re.compile(path), times))

    def overtake(self, path: str, action: Callable[[], None]) -> None:
        """Do something between the next PUT to this path and the server's getting it."""
        self._overtaking.append((re.compile(path), action))

    def arrived(self, method: str, path: str) -> None:
        for each in list(self._overtaking):
            if method == "PUT" and each[0].search(path):
                self._overtaking.remove(each)
                each[1]()

    def heal(self) -> None:
        """No more failures; hanging connections are closed."""
        with self._lock:
            self._rules.clear()
            self._healed.set()

    def failure_of(self, method: str, path: str) -> tuple[Failure | None, threading.Event]:
        with self._lock:
            self.seen.append((method, path))
            for rule in self._rules:
                if rule.times and re.fullmatch(rule.method, method) and rule.path.search(path):
                    rule.times -= 1
                    self.failed += 1
                    return rule.failure, self._healed
        return None, self._healed


@contextmanager
def faulty_s3(server: str) -> Iterator[FaultyS3]:
    """A proxy in front of the server at this URL."""
    address = urlsplit(server)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self._pass_on()

        def _pass_on(self) -> None:
            head = self._head()
            if not head:
                return
            method, target = head[0].split(" ")[:2]
            headers = {
                name.lower(): value.strip() for name, _, value in (each.partition(":") for each in head[1:])
            }
            if headers.get("expect", "").lower() == "100-continue":
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = self.rfile.read(int(headers.get("content-length", "0")))
            failure, healed = proxy.failure_of(method, unquote(urlsplit(target).path))
            proxy.arrived(method, unquote(urlsplit(target).path))
            answer = b""
            if failure is None or failure in _IS_DONE:
                answer = self._answer(head, body)
            if failure is None:
                self.wfile.write(answer)
            elif failure in _HANGS:
                healed.wait()
            elif failure is Failure.CUT:
                top, _, rest = answer.partition(b"\r\n\r\n")
                self.wfile.write(top + b"\r\n\r\n" + rest[: len(rest) // 2] if rest else b"")
            elif failure in _UNAVAILABLES:
                content = b"" if method == "HEAD" else _UNAVAILABLE
                self.wfile.write(
                    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                    + f"Content-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )

        def _head(self) -> list[str]:
            lines: list[str] = []
            while (line := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
                lines.append(line)
            return lines

        def _answer(self, head: list[str], body: bytes) -> bytes:
            own = ("connection:", "expect:")
            kept = [line for line in head if not line.lower().startswith(own)]
            sent = "\r\n".join([*kept, "Connection: close", "", ""]).encode("latin-1") + body
            with socket.create_connection((address.hostname, address.port)) as forward:
                forward.sendall(sent)
                parts = []
                while part := forward.recv(1 << 16):
                    parts.append(part)
            return b"".join(parts)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as listening:
        proxy = FaultyS3(endpoint=f"http://127.0.0.1:{listening.server_address[1]}")
        serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield proxy
        finally:
            proxy.heal()
            listening.shutdown()
            serving.join()
