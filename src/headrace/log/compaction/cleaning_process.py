"""Carries out rounds of cleaning in a separate process, which does not share the broker's interpreter.

`python -m headrace.log.compaction.cleaning_process LIFELINE` reads paths from standard input, one per line.
Each path names a file with a `CleaningTask` as JSON; the process reads and removes it. It prints a line of
JSON for each event of the round: `{"segment": …}`, finally `{"done": …}`, or `{"failed": …, "lasting": …}`.
Then it waits for the next task: starting a process stops the broker for milliseconds, so one process serves
many rounds.

It runs with the lowest priority, so that it uses only what the broker leaves, but in the broker's session:
Linux shares the processor between sessions first (autogroups) and considers priorities only within one.

LIFELINE is the descriptor of one end of a pipe; only the parent holds the other. When that end closes, as it
does however the parent ends, the process exits at once: it must not touch files that another broker may be
writing.

Invariant: only the parent puts segments in place. Byte format: JSON lines. Crash behaviour: it leaves only
`.cleaned` files, which do not count. Who may call: `CleaningProcess`, for the broker.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headrace.log.compaction.cleaning_task import CleaningTask, Pace, RoundDone
from headrace.log.compaction.giving_way import GivingWay
from headrace.log.compaction.segment_rewriting import Round
from headrace.log.filesystem import OperatingSystem
from headrace.log.segments.swap_files import CleanedSegment
from headrace.wire.errors import WireError

_LOWEST_PRIORITY: Final = 19
_READ: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFailed:
    """A failed round, and whether it would fail again."""

    reason: str
    lasting: bool


Said = CleanedSegment | RoundDone | RoundFailed


class CleaningProcess:
    """A process that carries out tasks. Its `fileno` is readable when there is something to `read`."""

    def __init__(self, task: CleaningTask) -> None:
        """Raises OSError."""
        watched, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(watched)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(watched,),
                process_group=0,
            )
            # Set it here, not in the process: starting Python takes as long as a small round.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOWEST_PRIORITY)
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(watched)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._begun = b""
        self._over = True
        self._done = False
        self._task_path = ""
        try:
            self.carry_out(task)
        except BaseException:
            self.stop()
            raise

    def carry_out(self, task: CleaningTask) -> None:
        """Begin a task; the one before must be over. Raises OSError."""
        assert self._over, "one task at a time"
        # A file, because with a pipe the caller would wait until the process has read it.
        descriptor, self._task_path = tempfile.mkstemp(prefix="headrace-cleaning-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(task.to_json().encode())
        os.write(self._input.fileno(), f"{self._task_path}\n".encode())
        self._over = self._done = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def idle(self) -> bool:
        """Whether it has finished its task and can take another."""
        return self._done

    def fileno(self) -> int:
        return self._output.fileno()

    def read(self) -> list[Said]:
        """The results since the last call; ending without a final one is a failure. Never waits."""
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
                self._done = isinstance(said[-1], RoundDone)
        return said

    def stop(self) -> None:
        """Kill the process if it still runs, and wait for it; this is quick, as it does not clean up."""
        self._over, self._done = True, False
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()
        os.close(self._lifeline)
        if self._task_path:
            Path(self._task_path).unlink(missing_ok=True)


def _parse(line: dict[str, Any]) -> Said:
    if "segment" in line:
        return CleanedSegment(**{**line["segment"], "bases": tuple(line["segment"]["bases"])})
    if "done" in line:
        return RoundDone(**line["done"])
    return RoundFailed(reason=line["failed"], lasting=line["lasting"])


def _end_with(lifeline: int) -> None:
    """Exit as soon as the other end of the pipe closes, whatever this process is doing."""

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def main(lifeline: int) -> int:
    _end_with(lifeline)
    # There are no reference cycles here, and millions of objects to scan.
    gc.disable()
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        task = CleaningTask.from_json(path.read_text(encoding="utf-8"))
        path.unlink()
        if not _carry_out(task):
            return 1
    return 0


def _carry_out(task: CleaningTask) -> bool:
    """Carry out one round. Return whether another may follow."""
    pace = Pace(task.bytes_per_second, time.monotonic, time.sleep, GivingWay())
    try:
        for said in Round(task, OperatingSystem(), pace).run():
            print(
                json.dumps({"segment" if isinstance(said, CleanedSegment) else "done": asdict(said)}),
                flush=True,
            )
    except BrokenPipeError:
        return False
    except (OSError, WireError) as error:
        print(json.dumps({"failed": str(error), "lasting": isinstance(error, WireError)}), flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
