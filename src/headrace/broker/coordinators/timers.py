"""Timers of the machines, by key, on the event loop.

Invariants: a key has one timer at most; one that was cancelled or set anew never fires for its earlier time.
A machine is never told that it is earlier than the moment it asked for, whatever the wall clock does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from headrace.coordination.decision import Timer, TimerKey


class Timers:
    """`due` is called with a timer's key and the time in milliseconds."""

    __slots__ = ("_due", "_handles", "_now_ms")

    def __init__(self, due: Callable[[TimerKey, int], None], now_ms: Callable[[], int]) -> None:
        self._due: Final = due
        self._now_ms: Final = now_ms
        self._handles: dict[TimerKey, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._handles)

    def set(self, timers: Iterable[Timer]) -> None:
        """Set, move or cancel each of them."""
        for timer in timers:
            handle = self._handles.pop(timer.key, None)
            if handle is not None:
                handle.cancel()
            if timer.at_ms is not None:
                seconds = max(0, timer.at_ms - self._now_ms()) / 1000
                self._handles[timer.key] = asyncio.get_running_loop().call_later(
                    seconds, self._fire, timer.key, timer.at_ms
                )

    def stop(self) -> None:
        """Cancel all."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _fire(self, key: TimerKey, at_ms: int) -> None:
        del self._handles[key]
        self._due(key, max(at_ms, self._now_ms()))
