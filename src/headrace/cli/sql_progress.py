"""A status line on standard error while a question runs; nothing unless it is a terminal.

It appears after a second: how long it has taken, what the platform says of the question, and how much of the
answer is here. Invariant: when it ends, the line is empty again, whatever happened; trouble in asking for the
state never reaches the question.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

_FIRST_SECONDS: Final = 1.0
_NEXT_SECONDS: Final = 0.5
_CLEAR: Final = "\r\x1b[K"
_MEGABYTE: Final = 1024 * 1024


class Progress:
    """From its `with` to the end of it. `state` says what is going on; it may take a while, and raise."""

    def __init__(self, state: Callable[[], str] = lambda: "running", *, stream: TextIO | None = None) -> None:
        self._state = state
        self._stream = stream if stream is not None else sys.stderr
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = time.monotonic()
        self._received = 0

    def received(self, size: int) -> None:
        """So many bytes more of the answer are here."""
        self._received += size

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        pause, has_shown = _FIRST_SECONDS, False
        while not self._is_over.wait(pause):
            pause = _NEXT_SECONDS
            try:
                state = self._state()
            except Exception:
                # The question goes on, and says itself what is wrong.
                state = "running"
            parts = [f"{time.monotonic() - self._began:.0f} s", state]
            if self._received:
                parts.append(f"{self._received / _MEGABYTE:.1f} MB received")
            if not self._is_over.is_set():
                width = shutil.get_terminal_size().columns
                self._stream.write(f"{_CLEAR}{' · '.join(parts)[: width - 1]}")
                self._stream.flush()
                has_shown = True
        if has_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
