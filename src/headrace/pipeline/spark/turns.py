"""Turns for the batches of statements: few are written at the same time, and the others wait in order.

Spark gives each query a thread of its own. With twenty of them on two cores, every batch would take twenty
times as long, those of the lake too, although they have slots of their own (`fair_turns.py`): slots share out
tasks, not cores. So a batch of a statement waits for its turn before it is written. Those of the lake and of
real-time queries do not wait for anybody.

If a batch of the lake takes long, the machine is full: no turn begins until it is written, nor while the
next one is. Between two of them, one begins at least. The maintenance of tables has no turn: it waits for a
moment in which nobody is late, but not for ever.

Invariants: turns are given in the order in which batches ask for them. A turn that lasts longer than
`LONGEST_SECONDS` no longer counts: a batch that waits for the log, or that is huge, holds up nobody for
longer than that. A batch whose query is stopped while it waits gives up at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

LONGEST_SECONDS: Final = 15.0
# Of a batch of the lake: the next one is not disturbed.
_LONG_SECONDS: Final = 1.0
# Of a batch of the lake that is being written: it is not disturbed any more.
_PATIENT_SECONDS: Final = 0.5


class Turns:
    """Shared by the queries of a process. `clock` is monotonic."""

    def __init__(
        self,
        at_once: int,
        *,
        longest_seconds: float = LONGEST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once = at_once
        self._longest = longest_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        # When the turns began that somebody has at the moment.
        self._begun: dict[object, float] = {}
        # From when on nobody's turn may disturb the batches of the lake that are being written.
        self._undisturbed: dict[object, float] = {}
        self._was_long = False

    @contextmanager
    def one(self, is_given_up: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, and have it inside. Does not wait any longer once `is_given_up`."""
        mine = object()
        with self._changed:
            self._wait(mine, is_given_up)
            self._begun[mine] = self._clock()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[mine]
                self._changed.notify_all()

    @contextmanager
    def ahead_of_all(self) -> Iterator[None]:
        """For a batch of the lake, which does not wait: nobody disturbs it if the one before took long, or
        once it takes long itself.
        """
        mine, began = object(), self._clock()
        with self._changed:
            self._undisturbed[mine] = began if self._was_long else began + _PATIENT_SECONDS
        try:
            yield
        finally:
            with self._changed:
                del self._undisturbed[mine]
                self._was_long = self._clock() - began > _LONG_SECONDS
                self._changed.notify_all()

    def wait_for_calm(self, seconds: float, is_given_up: Callable[[], bool]) -> None:
        """Until no batch of the lake is late and nobody waits for a turn, or for so long: for work that is
        never urgent, but must be done some time.
        """
        deadline = self._clock() + seconds
        with self._changed:
            while not is_given_up() and (self._waiting or self._counting(self._undisturbed)):
                left = deadline - self._clock()
                if left <= 0:
                    return
                self._changed.wait(left)

    def look_again(self) -> None:
        """Somebody who waits may have given up."""
        with self._changed:
            self._changed.notify_all()

    def _wait(self, mine: object, is_given_up: Callable[[], bool]) -> None:
        self._waiting.append(mine)
        try:
            while not is_given_up() and not (self._waiting[0] is mine and self._is_free()):
                self._changed.wait(self._seconds_to_wait())
        finally:
            self._waiting.remove(mine)
            # The next one may have a turn, too.
            self._changed.notify_all()

    def _counting(self, begun: Mapping[object, float]) -> list[float]:
        now = self._clock()
        return [began for began in begun.values() if 0 <= now - began < self._longest]

    def _is_free(self) -> bool:
        return len(self._counting(self._begun)) < self._at_once and not self._counting(self._undisturbed)

    def _seconds_to_wait(self) -> float | None:
        """Until the oldest turn no longer counts; None if only others can change anything."""
        counting = self._counting(self._begun) + self._counting(self._undisturbed)
        return max(self._longest - (self._clock() - min(counting)), 0.0) if counting else None
