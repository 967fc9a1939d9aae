"""Yields the processor to other programs while they need it.

The lowest priority alone is not enough: a program that wakes up on a busy processor waits there, although the
processor beside it has only low-priority work. The scheduler moves it over only when that processor becomes
idle, if only for a moment. So once a low-priority thread notices that it was interrupted, it sleeps after
each short piece of work, for as long as the piece took, until nobody has interrupted it for a while. On an
otherwise idle machine it never sleeps.

Invariants: sleeps only between pieces of work, never longer than the piece took. Byte format and crash
behaviour: none. Who may call: a process with one working thread.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Final

# How long it works before it sleeps: others wait about that long.
_WORK_SECONDS: Final = 0.001
_MOST_REST_SECONDS: Final = 0.005
# How long after an interruption others are assumed to need the processor.
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
