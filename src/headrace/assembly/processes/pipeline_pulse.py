"""Signs of life of the pipeline process: while the JVM answers and the loop that keeps the queries turns.

Its own thread asks the JVM every second. Invariant: a JVM that does not answer, or a loop that has not turned
for `LOOP_SECONDS`, means no signs. Starting or stopping one query may take long, so the loop says after each
that it turns, and learns then if the JVM has ended. Never ends anything itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from headrace.assembly.signs_of_life import SIGN_SECONDS, SignOfLife
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

# A query that stops waits for its batch, and one that starts reads what its predecessor wrote.
LOOP_SECONDS: Final = 300.0
_JOIN_SECONDS: Final = 2.0


class Pulse:
    """Gives signs of life while it is entered. `ask_jvm` waits for the JVM's answer, or raises."""

    def __init__(self, settings: Settings, process: str, *, ask_jvm: Callable[[], None]) -> None:
        self._sign = SignOfLife(settings, process)
        self._ask_jvm = ask_jvm
        self._turned = time.monotonic()
        self._lost = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def turned(self) -> None:
        """The loop turns. Raises if the JVM is gone: only a new process gets a new one."""
        self._turned = time.monotonic()
        if self._lost:
            raise HeadraceError("pipeline_failed", f"Spark's JVM is gone: {self._lost}")

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
                # Whatever py4j raises when the JVM is gone. The loop ends the process.
                self._lost = str(error) or type(error).__name__
                return
            self._sign.give()
