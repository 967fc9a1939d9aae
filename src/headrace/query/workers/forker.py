"""The process that workers are forked from: `python -m headrace.query.workers.forker`, started by
`forker_process.py` with a socket.

A worker that imports DuckDB, Arrow and numpy by itself is ready after half a second of CPU; one forked from
here, after some milliseconds, and it shares their memory with the others. Requests are lines of JSON, answers
lines with a number; one at a time.

Invariants: this process has one thread, because no other would survive a fork; it runs no question, so that
none can harm those that come later; it ends when the other end of its socket is closed, and its workers end
with it. A worker that has ended stays a zombie until somebody asks: until then its id is not used again.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Final, NoReturn

from headrace.query.questions import QuestionLimits
from headrace.query.workers import worker

_LONGEST_REQUEST: Final = 64 * 1024


def main() -> None:
    # Ctrl-C is for the parent, which then ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    # What is here for good stays shared with the workers: their collector does not write to it.
    gc.collect()
    gc.freeze()
    while (found := _request(connection)) is not None:
        request, descriptors = found
        if "ended" in request:
            number = int(_has_ended(request["ended"]))
        else:
            number = _fork(request, socket.socket(fileno=descriptors[0]), connection)
        connection.sendall(b"%d\n" % number)


def _request(connection: socket.socket) -> tuple[dict[str, object], list[int]] | None:
    """The next request and the file that came with it; None at the end."""
    line = b""
    descriptors: list[int] = []
    while not line.endswith(b"\n"):
        part, came, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 1)
        if not part:
            return None
        line += part
        descriptors += came
    return json.loads(line), descriptors


def _has_ended(pid: object) -> bool:
    """Whether a worker is gone, without a trace from now on."""
    try:
        return os.waitpid(int(str(pid)), os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _fork(request: dict[str, object], of_worker: socket.socket, ours: socket.socket) -> int:
    """The id of a new worker."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _work(request, of_worker, parent)
    of_worker.close()
    return pid


def _work(request: dict[str, object], connection: socket.socket, parent: int) -> NoReturn:
    """Never returns to the loop of the process that it was forked from."""
    try:
        limits = QuestionLimits(**json.loads(str(request["limits"])))
        worker.run(
            Path(str(request["lake_dir"])), limits, Path(str(request["temporary"])), connection, parent=parent
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
