"""A Maven repository on the loopback, to fetch from, to damage, to slow down and to take away."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.java.pinned import PinnedArtifact


class MavenRepository:
    """Serves the jars that were added; `served` counts how often each was asked for."""

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()
        self.half_sent = threading.Event()
        # While set, only half of each jar is sent, and then nothing more until `close`.
        self.stalls = False
        self._closing = threading.Event()
        self._jars: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def add(self, name: str, content: bytes) -> PinnedArtifact:
        """Offer a jar `org.example:<name>:1.0`, and give its pin."""
        self._jars[f"/org/example/{name}/1.0/{name}-1.0.jar"] = content
        return PinnedArtifact(
            maven_group="org.example",
            artifact=name,
            version="1.0",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = repository._jars.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                with repository._lock:
                    repository.served[self.path.rsplit("/", 1)[-1]] += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if repository.stalls:
                    self.wfile.write(content[: len(content) // 2])
                    self.wfile.flush()
                    repository.half_sent.set()
                    repository._closing.wait()
                    return
                self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                """Nothing: the tests look at `served`."""

        return Handler
