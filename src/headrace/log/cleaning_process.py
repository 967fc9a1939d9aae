"""Carries out a round of cleaning in a process of its own, which does not share the broker's interpreter.

`python -m headrace.log.cleaning_process PARENT` reads a `CleaningTask` as JSON from its standard input and
prints a line of JSON for each thing that the round says: `{"segment": …}`, at last `{"done": …}`, or
`{"failed": …, "lasting": …}`. It runs with the lowest priority, so that it takes what the broker leaves, and
ends at once when its parent is gone: then it must not touch files that another broker's process may be
making.

Invariants: the parent alone puts segments in place. Byte format: JSON lines. Crash behaviour: whatever it
leaves are `.cleaned` files, which count for nothing. Who may call: `CleaningProcess`, on the broker's behalf.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.log.filesystem import OperatingSystem
from headrace.log.segment_rewriting import CleanedSegment, CleaningTask, Pace, Round, RoundDone
from headrace.wire.errors import WireError

_LOWEST_PRIORITY: Final = 19
_READ: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFailed:
    """A round that broke off, and whether it would again."""

    reason: str
    lasting: bool


Said = CleanedSegment | RoundDone | RoundFailed


class CleaningProcess:
    """A process that carries out one task. Its `fileno` is readable when there is something to `read`."""

    def __init__(self, task: CleaningTask) -> None:
        # A file, as a pipe would make the caller wait until the process has read it.
        with tempfile.TemporaryFile() as request:
            request.write(task.to_json().encode())
            request.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(os.getpid())],
                stdin=request,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._begun = b""
        self._over = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._output.fileno()

    def read(self) -> list[Said]:
        """What it has said since the last time; its end without a last word is a failure. Never waits."""
        said: list[Said] = []
        while not self._over:
            try:
                content = os.read(self._output.fileno(), _READ)
            except BlockingIOError:
                return said
            if not content:
                self._over = True
                said.append(RoundFailed(reason="the process ended early", lasting=False))
                return said
            *lines, self._begun = (self._begun + content).split(b"\n")
            for line in lines:
                said.append(_parse(json.loads(line)))
                self._over = not isinstance(said[-1], CleanedSegment)
        return said

    def stop(self) -> None:
        """End the process if it still runs, and wait for it: a moment, as it gets no time to clean up."""
        self._over = True
        self._process.kill()
        self._process.wait()
        self._output.close()


def _parse(line: dict[str, Any]) -> Said:
    if "segment" in line:
        return CleanedSegment(**{**line["segment"], "bases": tuple(line["segment"]["bases"])})
    if "done" in line:
        return RoundDone(**line["done"])
    return RoundFailed(reason=line["failed"], lasting=line["lasting"])


class _WatchfulPace(Pace):
    """Ends the process when its parent is gone."""

    def __init__(self, bytes_per_second: float, parent: int) -> None:
        super().__init__(bytes_per_second, time.monotonic, time.sleep)
        self._parent = parent

    def passed(self, size: int) -> None:
        if os.getppid() != self._parent:
            os._exit(1)
        super().passed(size)


def main(parent: int) -> int:
    os.nice(_LOWEST_PRIORITY)
    # Nothing here refers to itself, and there are millions of objects to look through.
    gc.disable()
    task = CleaningTask.from_json(sys.stdin.read())
    try:
        for said in Round(task, OperatingSystem(), _WatchfulPace(task.bytes_per_second, parent)).run():
            print(
                json.dumps({"segment" if isinstance(said, CleanedSegment) else "done": asdict(said)}),
                flush=True,
            )
    except BrokenPipeError:
        return 1
    except (OSError, WireError) as error:
        print(json.dumps({"failed": str(error), "lasting": isinstance(error, WireError)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
