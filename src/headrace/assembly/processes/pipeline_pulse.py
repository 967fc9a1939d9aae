"""Signs of life of the pipeline process: while the JVM answers and the loop that keeps the queries turns.

Its own thread asks the JVM every second. Invariant: a JVM that does not answer, or a loop that has not turned
for `LOOP_SECONDS`, means no signs. Starting or stopping one query may take long, so the loop says after each
that it turns. Never ends anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from headrace.assembly.signs_of_life import SIGN_SECONDS, SignOfLife
from headrace.core.settings import Settings

# A query that stops waits for its batch, and one that starts reads what its predecessor wrote.
LOOP_SECONDS: Final = 300.0
_JOIN_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


class Pulse:
    """Gives signs of life while it is entered. `ask_jvm` waits for the JVM's answer, or raises."""

    def __init__(self, settings: Settings, process: str, *, ask_jvm: Callable[[], None]) -> None:
        self._sign = SignOfLife(settings, process)
        self._ask_jvm = ask_jvm
        self._turned = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def turned(self) -> None:
        """The loop turns."""
        self._turned = time.monotonic()

    def __enter__(self) -> Pulse:
        self._sign.give()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        # Not for ever: it may be waiting for a JVM that does not answer.
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(SIGN_SECONDS):
            if time.monotonic() - self._turned > LOOP_SECONDS:
                continue
            try:
                self._ask_jvm()
            except Exception as error:
                # Whatever py4j raises when the JVM is gone. The loop meets it too, and ends the process.
                _log.warning("the JVM does not answer: %s", error)
                return
            self._sign.give()
