"""Timers of the machines, by key.

Invariants: a key has at most one timer. A timer that was cancelled or moved never fires at its earlier time.
The time given to a machine is never before the moment it asked for, whatever the wall clock does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from headrace.coordination.decision import Timer, TimerKey


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Tells the time and schedules calls. Tests use one that they turn by hand."""

    def now_ms(self) -> int: ...

    def call_later(
        self, seconds: float, call: Callable[[TimerKey, int], None], key: TimerKey, at_ms: int, /
    ) -> Cancellable: ...


class EventLoopClock:
    """The broker's clock, and the timers of the running event loop."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms: Final = now_ms

    def call_later(
        self, seconds: float, call: Callable[[TimerKey, int], None], key: TimerKey, at_ms: int, /
    ) -> Cancellable:
        return asyncio.get_running_loop().call_later(seconds, call, key, at_ms)


class Timers:
    """`due` is called with a timer's key and the time in milliseconds."""

    __slots__ = ("_clock", "_due", "_handles")

    def __init__(self, due: Callable[[TimerKey, int], None], clock: Clock) -> None:
        self._due: Final = due
        self._clock: Final = clock
        self._handles: dict[TimerKey, Cancellable] = {}

    def __len__(self) -> int:
        return len(self._handles)

    def set(self, timers: Iterable[Timer]) -> None:
        """Set, move or cancel timers."""
        for timer in timers:
            handle = self._handles.pop(timer.key, None)
            if handle is not None:
                handle.cancel()
            if timer.at_ms is not None:
                seconds = max(0, timer.at_ms - self._clock.now_ms()) / 1000
                self._handles[timer.key] = self._clock.call_later(seconds, self._fire, timer.key, timer.at_ms)

    def stop(self) -> None:
        """Cancel all."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _fire(self, key: TimerKey, at_ms: int) -> None:
        del self._handles[key]
        self._due(key, max(at_ms, self._clock.now_ms()))
