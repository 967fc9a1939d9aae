"""The wall clock without its steps backwards, for intervals.

If the clock is set back by an hour, work that is due at some time would have to wait an hour more. Here time
goes on from where it was. Invariant: it never goes backwards. Never reads the clock: times are arguments.
"""

from __future__ import annotations


class SteadyTime:
    """Begins with the first time that it is given."""

    __slots__ = ("_ahead", "_latest")

    def __init__(self) -> None:
        self._latest: int | None = None
        # By how much the clock was set back so far.
        self._ahead = 0

    def at(self, now_ms: int) -> int:
        """The steady time, given that of the clock."""
        if self._latest is not None and now_ms < self._latest:
            self._ahead += self._latest - now_ms
        self._latest = now_ms
        return now_ms + self._ahead
