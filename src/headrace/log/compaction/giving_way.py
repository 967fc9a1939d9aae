"""Leaving the processor to others while they want it.

The lowest priority alone is not enough to be out of the way: a program that wakes up on a processor that
another keeps busy waits there, although the processor beside it has nothing but work that could wait. It is
fetched over when that one has nothing to do, if only for a moment. So a thread with such work rests after
each short while, as long as it has worked, from when it notices that it was interrupted until nobody has
interrupted it for a while. On a machine with nothing else to do it never rests.

Invariants: rests only between pieces of work, never for longer than the piece took. Byte format and crash
behaviour: none. Who may call: a process that has one thread at work.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Final

# How long it works on before it rests: others wait about that long.
_WORK_SECONDS: Final = 0.001
_MOST_REST_SECONDS: Final = 0.005
# For how long after an interruption others are believed to be there.
_ALERT_SECONDS: Final = 0.003


def _interruptions() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class GivingWay:
    """Call it between pieces of work."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        interruptions: Callable[[], int] = _interruptions,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._interruptions = interruptions
        self._seen = interruptions()
        self._alert_until = 0.0
        self._began = clock()

    def __call__(self) -> None:
        now = self._clock()
        worked = now - self._began
        if worked < _WORK_SECONDS:
            return
        if (seen := self._interruptions()) != self._seen:
            self._seen = seen
            self._alert_until = now + _ALERT_SECONDS
        if now < self._alert_until:
            self._sleep(min(worked, _MOST_REST_SECONDS))
            now = self._clock()
        self._began = now
