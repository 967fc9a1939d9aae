"""The process that workers are forked from, as its parent sees it.

There is one in a process, whoever asks: it starts with the first worker, starts again if it was killed, and
ends with this process. Threads may call it at once.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final

# Libraries that start threads when they are imported must not: a fork has only the thread that forks.
_ONE_THREAD: Final[Mapping[str, str]] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
# What DuckDB's allocator does not need goes back to the system, addresses too: those would count against the
# memory of the next question. A tenth of a second is long enough to use it again within a question.
_ALLOCATOR: Final = {"DUCKDB_JE_MALLOC_CONF": "retain:false,dirty_decay_ms:100,muzzy_decay_ms:0"}
_LOOK_SECONDS: Final = 0.005


class ForkerProcess:
    """Of this process: `forker()` has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    def fork(self, arguments: Mapping[str, str], of_worker: socket.socket) -> int:
        """The id of a new worker with this end of its socket, which is closed here. Raises OSError."""
        with of_worker, self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            try:
                return self._ask(json.dumps(dict(arguments)), [of_worker.fileno()])
            except OSError:
                # The next call starts another.
                self._end()
                raise

    def wait_ended(self, pid: int, *, seconds: float) -> bool:
        """Wait until a worker that was killed is gone. False if it is not."""
        deadline = time.monotonic() + seconds
        while not self._has_ended(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def close(self) -> None:
        """End it, and with it all workers."""
        with self._lock:
            self._end()

    def _has_ended(self, pid: int) -> bool:
        with self._lock:
            if self._process is None:
                return True
            try:
                return bool(self._ask(json.dumps({"ended": pid}), []))
            except OSError:
                # Its workers have ended with it.
                self._end()
                return True

    def _start(self) -> None:
        self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "headrace.query.workers.forker", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**_without_credentials(os.environ), **_ONE_THREAD, **_ALLOCATOR},
                )
            except BaseException:
                ours.close()
                raise
        self._connection = ours

    def _ask(self, request: str, descriptors: list[int]) -> int:
        connection = self._connection
        if connection is None:
            raise ConnectionError("the process that workers are forked from has not been started")
        socket.send_fds(connection, [request.encode() + b"\n"], descriptors)
        answer = b""
        while not answer.endswith(b"\n"):
            part = connection.recv(64)
            if not part:
                raise ConnectionError("the process that workers are forked from has ended")
            answer += part
        return int(answer)

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None


def _without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Workers read no bucket themselves."""
    return {name: value for name, value in environment.items() if not name.startswith("AWS_")}


@functools.cache
def forker() -> ForkerProcess:
    """The one of this process."""
    made = ForkerProcess()
    atexit.register(made.close)
    return made
