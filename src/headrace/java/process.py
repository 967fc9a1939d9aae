"""A JVM as a child process that never outlives us.

Invariants: the kernel sends the JVM SIGKILL when this process dies, however it dies (Linux); it has its own
process group, so Ctrl-C in a terminal reaches only us and we control the order of stopping; its output goes
to its own file, one per start, with the previous one kept as `<name>.previous`. Never restarts anything,
never signals any process but its own child.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Final

from headrace.java import exec_with_parent

QUOTED_LINES: Final = 12
_log = logging.getLogger(__name__)


class JavaProcess:
    """One JVM, started by the constructor."""

    def __init__(self, command: list[str], *, folder: Path, log_file: Path) -> None:
        self._command = [sys.executable, "-I", "-S", exec_with_parent.__file__, str(os.getpid()), *command]
        self._folder = folder
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        started = threading.Event()
        # The kernel ties the child to the *thread* that started it. This one lives as long as the child does;
        # the caller's thread may end at any time and would take the JVM with it.
        self._keeper = threading.Thread(
            target=self._keep, args=(started,), name=f"keeper of {log_file.name}", daemon=True
        )
        self._keeper.start()
        started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it is running; negative if a signal ended it."""
        return self._child.poll()

    def wait(self, timeout: float) -> bool:
        """Whether it ended within the time."""
        self._keeper.join(max(0.0, timeout))
        return self.exit_code is not None

    def stop(self, timeout: float) -> None:
        """Ask it to shut down; kill it if it does not end within the time."""
        self.terminate()
        if not self.wait(timeout):
            _log.warning("the JVM with pid %d did not end in time; killing it", self.pid)
            self._child.kill()
            self._child.wait()

    def terminate(self) -> None:
        if self.exit_code is None:
            self._child.send_signal(signal.SIGTERM)

    def last_lines(self) -> str:
        """The end of its output, without the inner frames of stack traces."""
        with self._log_file.open(encoding="utf-8", errors="replace") as file:
            lines = (line.rstrip() for line in file if line.strip() and not line.startswith("\tat "))
            return "\n".join(deque(lines, maxlen=QUOTED_LINES))

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _keep(self, started: threading.Event) -> None:
        try:
            if self._log_file.exists():
                self._log_file.replace(self._log_file.with_name(self._log_file.name + ".previous"))
            with self._log_file.open("wb") as output:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._failure = error
            return
        finally:
            started.set()
        self._process.wait()
