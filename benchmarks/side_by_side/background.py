"""Something that runs in a thread of its own beside what is measured.

Invariants: the thread has ended when `stop` returns, and never outlives the process.
"""

from __future__ import annotations

import threading
from typing import Self


class Background:
    """Runs `_run` from `start` to `stop`, or while a block runs. It ends soon after `_stopping` is set."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        raise NotImplementedError
